"""Events of workers, for metrics and logs."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from penstock.engine.verdict import FailureCause


class WorkerEnd(Enum):
    """Why a worker ended without a request to."""

    DEADLINE = "deadline"
    """A batch ran into its deadline, and the worker was killed."""
    LOAD_TIMEOUT = "load_timeout"
    """Its policies took too long to load, and it was killed."""
    PROTOCOL = "protocol"
    """It sent a malformed message, and was killed."""
    STALLED = "stalled"
    """It had batches and began none, and was killed: it was stopped, or swapped out."""
    MEMORY = "memory"
    """A policy had no memory left, or native code panicked; the process judges no more batches."""
    NOT_STARTED = "not_started"
    """The process could not be started."""
    NOT_LOADED = "not_loaded"
    """It ended, or failed, while its policies were loaded."""
    CRASHED = "crashed"
    """It ended by itself: a policy, or someone, ended it."""


class WorkerObserver(Protocol):
    """Gets the events of workers; its time is added to that of every batch."""

    def judged(
        self, policies: str, cause: FailureCause | None, waited_s: float, judged_s: float
    ) -> None:
        """Take note of an answer.

        Args:
            policies: The names of the classes that judge it.
            cause: Why none decided, as in the verdict.
            waited_s: From its submission until a worker began.
            judged_s: From then to the verdict.
        """

    def ended(self, cause: WorkerEnd) -> None:
        """Take note of a worker that ended without a request to."""

    def policy_event(self, event: str, result: str, amount: int) -> None:
        """Record an event that a policy has counted (`penstock.policy.count_event`)."""

"""A job of the workers: one partition's batch, or a request about a topic."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

    from penstock.engine.workers.queue import JobQueue

    TopicPartition = tuple[str, int]
    """A topic's name and a partition's number: judged by one worker at a time, in order."""


class JobState(IntEnum):
    """The state of a job."""

    WAITING = 0
    SENT = 1
    """Sent to a worker that is not known to have begun it."""
    BEGUN = 2
    ANSWERED = 3


_LEGAL: Final = (
    frozenset({JobState.SENT, JobState.ANSWERED}),
    frozenset({JobState.BEGUN, JobState.WAITING, JobState.ANSWERED}),
    frozenset({JobState.WAITING, JobState.ANSWERED}),
    frozenset[JobState](),
)
"""The legal next states. A job that a worker did not finish waits again."""


@dataclass(slots=True, eq=False)
class Job:
    """Something to be judged, with its client and deadline.

    Attributes:
        topic_partition: Topic and partition.
        client: Whose request it is; clients are served round-robin.
        policies: The names of all classes that look at it, for texts.
        interceptors: The names of those that are interceptors, for texts.
        payload: The content for the worker; opaque to the schedule.
        done: Called with the verdict by the supervisor.
        size: Bytes.
        deadline: When its client gives it up.
        state: Where it is.
        attempt: The unique number of its last attempt.
        queue: The queue where it waits, or from which it was sent.
        sent_at: The time of its last attempt.
        overdue: How many of its attempts ran into the deadline of interceptors.
        lost: In how many attempts its verdict was lost after it was begun, for no known cause.
        exclusive: Whether its worker gets no other job, so that a crash can be attributed to it.
        abandoned: Whether it was answered while a worker was still judging it, because its
            client had given up.
    """

    topic_partition: TopicPartition
    client: Hashable
    policies: str
    interceptors: str
    payload: Any
    done: Any
    size: int
    deadline: float
    state: JobState = JobState.WAITING
    attempt: int = 0
    queue: JobQueue | None = None
    sent_at: float = 0.0
    overdue: int = 0
    lost: int = 0
    exclusive: bool = False
    abandoned: bool = False

    def become(self, state: JobState) -> None:
        """Change to another state.

        Raises:
            AssertionError: The transition is not legal.
        """
        if state not in _LEGAL[self.state]:
            raise AssertionError(f"{self.state.name} to {state.name}")
        self.state = state

"""Counts how often the paths of policies led to a field, from the events of workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.path_counts import PathTally

if TYPE_CHECKING:
    from penstock.engine.verdict import FailureCause
    from penstock.engine.workers.observer import WorkerEnd


class PathCounting:
    """Gets the events of the workers of a backtest.

    Attributes:
        paths: The counts.
    """

    def __init__(self) -> None:
        self.paths = PathTally()

    def judged(
        self, policies: str, cause: FailureCause | None, waited_s: float, judged_s: float
    ) -> None:
        """Ignore a verdict: its batch is counted by itself."""

    def ended(self, cause: WorkerEnd) -> None:
        """Ignore the end of a worker: the verdict on its batch says it."""

    def policy_event(self, event: str, result: str, amount: int) -> None:
        """Count the event."""
        self.paths.add_event(event, result, amount)

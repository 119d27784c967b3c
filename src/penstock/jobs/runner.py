"""The runners of a job's tasks: Spark (`penstock.spark.execution.task_runner`), or this process.

::

    found = runner.run(tasks, AuditTask(access, plan), merged)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from penstock.errors import UnavailableError
from penstock.jobs.tasks.planning import Limit, Task

Work = Callable[[Task], Iterator[bytes | None]]
"""Does a task: yields results, and None now and then while it is at work."""
Merge = Callable[[Iterable[bytes]], bytes]
"""Merges results, in any order."""


class OffsetCounter(Protocol):
    """Counts the offsets of tasks that have ended, such as an accumulator of Spark."""

    @property
    def value(self) -> int:
        """How many there are so far."""

    def add(self, term: int) -> None:
        """Add some."""


class Runner(Protocol):
    """Runs tasks, some at a time.

    Attributes:
        limit: The most of a task whose partitions may be cut, so that progress is seen.
    """

    limit: Limit | None

    @property
    def cores(self) -> int:
        """How many tasks to plan for; it may change between two calls of `run`."""

    def counter(self) -> OffsetCounter:
        """Return a counter for `run`."""

    def run(
        self,
        tasks: Sequence[Task],
        work: Work,
        merge: Merge,
        *,
        counter: OffsetCounter | None = None,
    ) -> bytes | None:
        """Run tasks and merge their results.

        Args:
            work: Does a task.
            merge: Merges results.
            counter: Counts the offsets of those that have ended.

        Returns:
            The result; None without tasks, or where they yielded none.
        """


class LocalCounter:
    """Counts in this process."""

    def __init__(self) -> None:
        self.value = 0

    def add(self, term: int) -> None:
        self.value += term


class LocalRunner:
    """Runs one task after the other in this process.

    A policy that ends its process ends this process, and a policy that hangs is waited for.
    """

    cores = 1
    limit: Limit | None = Limit(records=200_000)

    def counter(self) -> OffsetCounter:
        """Return a counter for `run`."""
        return LocalCounter()

    def run(
        self,
        tasks: Sequence[Task],
        work: Work,
        merge: Merge,
        *,
        counter: OffsetCounter | None = None,
    ) -> bytes | None:
        """Run tasks and merge their results as they come; see `Runner.run`.

        Raises:
            UnavailableError: A policy's class ended the process.
            Exception: What a task raised; those that have ended stay done.
        """
        total: bytes | None = None
        for task in tasks:
            try:
                for result in work(task):
                    if result is not None:
                        total = result if total is None else merge((total, result))
            except SystemExit:
                raise UnavailableError("a policy ended the process (sys.exit)") from None
            if counter is not None:
                counter.add(sum(offset_range.offsets for offset_range in task.ranges))
        return total

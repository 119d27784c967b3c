"""Shows the progress of Spark's jobs: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERY_S: Final = 0.3
_LINE_EVERY_S: Final = 15.0


class JobProgress:
    """Shows the progress of a session's jobs inside a `with` block."""

    def __init__(self, spark: SparkSession, what: str) -> None:
        """Prepare.

        Args:
            spark: A classic session.
            what: What is being done, such as `judging orders`.
        """
        self._tracker = spark.sparkContext.statusTracker()
        self._what = what
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(5)

    def tasks(self) -> tuple[int, int]:
        """Return how many tasks of the active stages are done, and how many there are."""
        done = total = 0
        for stage in self._tracker.getActiveStageIds():
            info = self._tracker.getStageInfo(stage)
            if info is not None:
                done += info.numCompletedTasks
                total += info.numTasks
        return done, total

    def _watch(self) -> None:
        if sys.stderr.isatty():
            self._bar()
        else:
            self._lines()

    def _bar(self) -> None:
        columns = (TextColumn(self._what), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task(self._what, total=None)
            while not self._ended.wait(_EVERY_S):
                done, total = self.tasks()
                progress.update(task, completed=done, total=total or None)

    def _lines(self) -> None:
        began = time.monotonic()
        while not self._ended.wait(_LINE_EVERY_S):
            done, total = self.tasks()
            sys.stderr.write(
                f"{self._what}: {time.monotonic() - began:.0f} s, {done} of {total} tasks done\n"
            )

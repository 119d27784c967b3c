"""Counts the records that Spark's jobs have read, while they run."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class RecordsRead:
    """Counts the records that a session's jobs read from a source, from now on.

    Spark reports them at the end of each task, and those of executors on a cluster with their
    heartbeats, too.
    """

    def __init__(self, spark: SparkSession) -> None:
        """Start.

        Args:
            spark: A classic session.
        """
        self._tracker = spark.sparkContext.statusTracker()
        self._store = spark.sparkContext._jsc.sc().statusStore()  # noqa: SLF001 - no public one
        self._stages: set[int] = set()
        self._read = 0

    def __call__(self) -> int:
        """Return how many they are; as many as before where Spark does not say."""
        # The job reports a JVM that ends, not this observer.
        with contextlib.suppress(Py4JError, OSError):
            self._stages.update(self._tracker.getActiveStageIds())
            self._read = max(self._read, sum(map(self._of, self._stages)))
        return self._read

    def _of(self, stage: int) -> int:
        record_count: int = self._store.lastStageAttempt(stage).inputRecords()
        return record_count

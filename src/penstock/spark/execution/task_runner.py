"""Runs tasks over offset ranges in Spark's Python workers; only their results come back.

Spark distributes the numbers of tasks (`spark.range`), and each worker looks its task up. Of an
attempt that fails, or whose executor is lost, nothing is used: Spark takes one attempt's results.
Works with classic sessions and Spark Connect.
"""

from __future__ import annotations

import time
from itertools import chain
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.jobs.evaluation import task_ended
from penstock.jobs.runner import LocalCounter
from penstock.jobs.tasks.planning import PackedTasks
from penstock.spark.execution.interpreters import check_workers
from penstock.spark.execution.task_slots import is_remote, task_slots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from penstock.jobs.runner import Merge, OffsetCounter, Work
    from penstock.jobs.tasks.planning import Limit, Task

_SCHEMA: Final = "result binary, sign_of_life binary"
_IDLE_TIMEOUT: Final = "spark.sql.execution.pyspark.udf.idleTimeoutSeconds"
_SIGN_EVERY_S: Final = 10.0
_SIGN: Final = bytes(2**17)
"""More than the buffer of a worker's output: it reaches Spark at once."""


class SparkRunner:
    """Runs tasks in Spark's Python workers."""

    limit: Limit | None = None

    def __init__(self, spark: SparkSession) -> None:
        """Take the session.

        Raises:
            ConfigurationError: Its workers cannot run policies.
        """
        check_workers(spark)
        self._spark = spark
        self._of_server: int | None = None

    @property
    def cores(self) -> int:
        """How many tasks to plan for: executors come and go, which Spark Connect does not say."""
        if not is_remote(self._spark):
            return task_slots(self._spark)
        if self._of_server is None:
            self._of_server = task_slots(self._spark)
        return self._of_server

    def counter(self) -> OffsetCounter:
        """Return an accumulator; a session of Spark Connect has none, and counts nothing."""
        if is_remote(self._spark):
            return LocalCounter()
        return self._spark.sparkContext.accumulator(0)

    def run(
        self,
        tasks: Sequence[Task],
        work: Work,
        merge: Merge,
        *,
        counter: OffsetCounter | None = None,
    ) -> bytes | None:
        """Run tasks; see `run_tasks`."""
        shown = None if is_remote(self._spark) else counter
        return run_tasks(self._spark, tasks, work, merge, counter=shown)


def run_tasks(
    spark: SparkSession,
    tasks: Sequence[Task],
    work: Work,
    merge: Merge,
    *,
    counter: OffsetCounter | None = None,
) -> bytes | None:
    """Run tasks, merge their results on one of the executors, and return that.

    Args:
        work: Does a task in a worker: yields results, and None now and then while it is at work.
            Where it yields nothing for as long as
            `spark.sql.execution.pyspark.udf.idleTimeoutSeconds`, its worker is ended.
        merge: Merges results, in any order.
        counter: Counts the offsets of the tasks that have ended; of a classic session.

    Returns:
        The result; None without tasks, or where they yielded none.
    """
    if not tasks:
        return None
    frame = results(spark, tasks, work, counter)
    rows = frame.repartition(1).mapInArrow(_merging(merge), "result binary").collect()
    return merge(bytes(row["result"]) for row in rows) if rows else None


def results(
    spark: SparkSession, tasks: Sequence[Task], work: Work, counter: OffsetCounter | None = None
) -> DataFrame:
    """Return the results of tasks as a frame with one column, `result`; see `run_tasks`."""
    idle_s = float(spark.conf.get(_IDLE_TIMEOUT, "0") or 0)
    every_s = min(_SIGN_EVERY_S, idle_s / 4) if idle_s else _SIGN_EVERY_S
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    working = numbers.mapInArrow(_working(PackedTasks(tasks), work, counter, every_s), _SCHEMA)
    return working.where("result IS NOT NULL").select("result")


def _working(
    tasks: PackedTasks, work: Work, counter: OffsetCounter | None, every_s: float
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from _rows(work(tasks[number]), every_s)
                task_ended()
                if counter is not None:
                    counter.add(sum(offset_range.offsets for offset_range in tasks[number].ranges))

    return run


def _rows(task_results: Iterable[bytes | None], every_s: float) -> Iterator[pa.RecordBatch]:
    yielded_at = time.monotonic()
    for result in task_results:
        now = time.monotonic()
        if result is None and now - yielded_at < every_s:
            continue
        yielded_at = now
        yield _row(result=result, sign_of_life=_SIGN if result is None else None)


def _row(**values: bytes | None) -> pa.RecordBatch:
    columns = [pa.array([value], pa.binary()) for value in values.values()]
    return pa.RecordBatch.from_arrays(columns, list(values))


def _merging(merge: Merge) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task_results = (row.as_py() for batch in batches for row in batch.column(0))
        first = next(task_results, None)
        if first is not None:
            yield _row(result=merge(chain((first,), task_results)))

    return run

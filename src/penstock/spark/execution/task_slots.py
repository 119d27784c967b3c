"""How many tasks to plan for, in any kind of session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS: Final = 100_000
_DYNAMIC: Final = "spark.dynamicAllocation.enabled"
_WAITING: Final = 2


def is_remote(spark: SparkSession) -> bool:
    """Return whether a session is one of Spark Connect, which has no SparkContext."""
    return "connect" in type(spark).__module__


def task_slots(spark: SparkSession) -> int:
    """Return how many tasks run at a time now; twice as many with dynamic allocation.

    With dynamic allocation, Spark adds executors while tasks wait for one. A session of Spark
    Connect does not say how many run; but it cuts a range into as many partitions.

    Args:
        spark: A session, classic or of Spark Connect.
    """
    is_dynamic = str(spark.conf.get(_DYNAMIC, "false")).lower() == "true"
    factor = _WAITING if is_dynamic else 1
    if is_remote(spark):
        slots: Any = spark.range(_ROWS).mapInArrow(_one_row, "id long").count()
    else:
        slots = spark.sparkContext.defaultParallelism  # 0 is a value of spark.default.parallelism
    return max(int(slots), 1) * factor


def _one_row(batches: Any) -> Any:
    """Return one row for each partition; runs on Spark's executors."""
    first = next(iter(batches), None)
    for _ in batches:
        pass
    if first is not None:
        yield first.slice(0, 1)

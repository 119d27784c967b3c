"""Measures on Spark the rules of contracts about all records of a topic together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.jobs.data_sets import Measuring, MeasuringTask, RuleKey, RuleSum, decode
from penstock.jobs.evaluation import evaluator_of, task_ended
from penstock.spark.execution.task_runner import results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from penstock.jobs.plan import RecordPlan
    from penstock.jobs.tasks.planning import Task
    from penstock.jobs.topics.access import ClusterAccess
    from penstock.policies.data_contract.data_set import Totals

_RESULT: Final = "result binary"
_ROWS: Final = (
    "topic string, policy string, number int, digest string, "
    "total bigint, bad bigint, latest bigint"
)
_TYPES: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("policy", pa.string()),
        ("number", pa.int32()),
        ("digest", pa.string()),
        ("total", pa.int64()),
        ("bad", pa.int64()),
        ("latest", pa.int64()),
    ]
)
_RULE: Final = ("topic", "policy", "number")


def measure_topics(
    spark: SparkSession, access: ClusterAccess, tasks: Sequence[Task], plan: RecordPlan
) -> dict[RuleKey, Totals]:
    """Measure the records of topics, which tasks read.

    Args:
        access: The cluster, for the tasks.
        tasks: The ranges to read.
        plan: The plan, whose policies have the rules.
    """
    return _totals(results(spark, tasks, MeasuringTask(access, plan))) if tasks else {}


def measure_frame(df: DataFrame, plan: RecordPlan, topic: str | None) -> dict[RuleKey, Totals]:
    """Measure the records of a frame.

    Args:
        df: Kafka's columns.
        plan: The plan, whose policies have the rules.
        topic: The one topic of all records, where it is known.
    """
    input_rows = df.select(
        (F.col("topic") if topic is None else F.lit(topic)).alias("topic"),
        F.col("value").cast("binary").alias("value"),
        F.floor(F.unix_micros("timestamp") / 1000).alias("timestamp"),
    )
    return _totals(input_rows.mapInArrow(_measuring(plan), _RESULT))


def _measuring(
    plan: RecordPlan,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        measuring = Measuring(evaluator_of(plan))
        for batch in batches:
            for row in batch.to_pylist():
                if row["topic"] is not None:
                    timestamp = -1 if row["timestamp"] is None else row["timestamp"]
                    yield from _part(measuring.add(row["topic"], (row["value"],), (timestamp,)))
        yield from _part(measuring.rest())
        task_ended()

    return run


def _part(part: bytes | None) -> Iterator[pa.RecordBatch]:
    if part is not None:
        yield pa.RecordBatch.from_pydict({"result": pa.array([part], pa.binary())})


def _totals(parts: DataFrame) -> dict[RuleKey, Totals]:
    """Add parts of sums up: first those of each value, then those of each rule."""
    from penstock.policies.data_contract.data_set import Totals  # noqa: PLC0415

    rows = parts.mapInArrow(_rows, _ROWS)
    sums = [F.sum(column).alias(column) for column in ("total", "bad")]
    by_value = rows.groupBy(*_RULE, "digest").agg(*sums, F.max("latest").alias("latest"))
    is_sum = F.col("digest") == ""
    by_rule = by_value.groupBy(*_RULE).agg(
        F.sum(F.when(is_sum, F.col("total"))).alias("total"),
        F.sum(F.when(is_sum, F.col("bad"))).alias("bad"),
        F.sum(F.when(is_sum, 0).otherwise(1)).alias("distinct"),
        F.max("latest").alias("latest"),
    )
    return {
        RuleKey(row["topic"], row["policy"], row["number"]): Totals(
            row["total"] or 0, row["bad"] or 0, row["distinct"], row["latest"]
        )
        for row in by_rule.collect()
    }


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for part in batch.column(0):
            columns = zip(*decode(part.as_py()), strict=True)
            arrays = dict(zip(RuleSum._fields, map(list, columns), strict=True))
            yield pa.RecordBatch.from_pydict(arrays, schema=_TYPES)

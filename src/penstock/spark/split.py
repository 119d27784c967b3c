"""Splits records into accepted ones and dead letters, each written to its own sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.engine.verdict import Outcome
from penstock.spark.audit import OUTCOMES
from penstock.spark.counting import counted
from penstock.spark.dead_letters import REPLAYS, dead_letter, header, in_ms
from penstock.spark.sources import with_all_columns
from penstock.spark.verdicts import apply

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.spark.plan import RecordPlan
    from penstock.spark.sinks import Sinks

ACCEPTED, REJECTED = "accepted", "rejected"
_ORIGINALS: Final = ("original_key", "original_value")


def split(
    df: DataFrame, plan: RecordPlan, sinks: Sinks, *, topic: str | None = None
) -> Mapping[str, int]:
    """Judge records and write each to its sink, in one pass.

    Accepted records are written as interceptors left them, dead letters as they were, with
    headers with their origin and the reason. What an interceptor dropped is not written.

    Args:
        df: Kafka's columns.
        plan: The policies.
        sinks: With the sinks `ACCEPTED` and `REJECTED`.
        topic: The one topic of all records, where it is known; see `judge`.

    Returns:
        How many records had each outcome.
    """
    frame, counts = counted(_judged(df, plan, topic), F.col("verdict.outcome"), OUTCOMES)
    sinks.write(_with_sink(frame))
    return counts.get


def split_stream(
    df: DataFrame,
    plan: RecordPlan,
    sinks: Sinks,
    checkpoint: str,
    *,
    topic: str,
    available_now: bool,
    on_batch: Callable[[int, Mapping[str, int]], None],
) -> StreamingQuery:
    """Start a streaming query that splits each micro-batch as `split` does.

    A folder gets a folder `batch=N` for each micro-batch, which replaces what an interrupted
    attempt at the same one left: every reader sees every record once. A topic may get records
    of an interrupted micro-batch twice.

    Args:
        df: A streaming frame.
        plan: The policies.
        sinks: With the sinks `ACCEPTED` and `REJECTED`.
        checkpoint: The checkpoint location of the stream.
        topic: The topic that is read.
        available_now: Stop after the records that are available now.
        on_batch: Called with the number and counts of each finished micro-batch.
    """

    def write(frame: DataFrame, number: int) -> None:
        judged, counts = counted(_judged(frame, plan, topic), F.col("verdict.outcome"), OUTCOMES)
        sinks.write(_with_sink(judged), batch=number)
        on_batch(number, counts.get)

    writer = df.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    if available_now:
        writer = writer.trigger(availableNow=True)
    return writer.start()


def _judged(df: DataFrame, plan: RecordPlan, topic: str | None) -> DataFrame:
    df = with_all_columns(df)
    if not plan.has_interceptors:
        return apply(df, plan, topic=topic)
    keeping = {kept: F.col(name) for kept, name in zip(_ORIGINALS, ("key", "value"), strict=True)}
    return apply(df.withColumns(keeping), plan, topic=topic)


def _with_sink(judged: DataFrame) -> DataFrame:
    """Add the sink of each record, and what is written to it."""
    verdict = F.col("verdict")
    accepted = verdict["outcome"] == Outcome.ACCEPTED.value
    headers = dead_letter(
        verdict,
        topic=F.col("topic"),
        partition=F.col("partition"),
        offset=F.col("offset"),
        timestamp=in_ms(F.col("timestamp")),
        replays=header(REPLAYS).try_cast("int"),
    )
    columns = {
        "sink": F.when(accepted, F.lit(ACCEPTED)).otherwise(F.lit(REJECTED)),
        "headers": F.when(accepted, F.col("headers")).otherwise(headers),
    }
    for original, name in zip(_ORIGINALS, ("key", "value"), strict=True):
        if original in judged.columns:
            columns[name] = F.when(accepted, F.col(name)).otherwise(F.col(original))
    return (
        judged.where(verdict["outcome"] != Outcome.DROPPED.value)
        .withColumns(columns)
        .drop("verdict", *_ORIGINALS)
    )

"""Splits accepted records from dead letters: two frames, or each written to its sink."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkNotImplementedError
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.configuration import ConfigurationError
from penstock.engine.verdict import Outcome
from penstock.jobs.report.counts import OUTCOMES
from penstock.jobs.tasks.writing_task import ACCEPTED, REJECTED
from penstock.spark.frames.kafka_columns import COLUMNS, OwnColumns
from penstock.spark.jobs.counting import check_version, count_verdicts, counted
from penstock.spark.jobs.outgoing_records import outgoing_records, parsed_again, written
from penstock.spark.sink.judged_batches import JudgedBatches, MicroBatch
from penstock.spark.sink.stream_queries import query_id
from penstock.spark.sink.topic_rows import SINK
from penstock.spark.verdicts import check_arguments, needed_columns, topic_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, Observation
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.jobs.plan import RecordPlan
    from penstock.jobs.rows.count_proof import CountProof
    from penstock.spark.sink.judged_batches import JudgedBatch
    from penstock.spark.sink.sinks import Sinks

_STOPPED: Final = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling a query that was stopped: "
    "java.lang.InterruptedException"
)
"""What Spark takes for the end of a stopped query. Its pattern for that text recurs for each letter
of a longer one, such as the stack trace of a job that was cancelled, and its stack overflows."""


def split(
    df: DataFrame,
    plan: RecordPlan,
    *,
    topic: str | None = None,
    observation: Observation | None = None,
) -> tuple[DataFrame, DataFrame]:
    """Judge records now, once, and return the accepted records and the dead letters.

    A policy may decide differently when it judges again, so it judges once: `split` starts a
    job that judges all records and keeps the result with the executors, in memory and on their
    disks (a local checkpoint). Both frames read that; neither judges, nor reads `df` again. When
    an executor with a part of it is lost, what uses the frames fails: no record is in both, or in
    none. The result is removed when both frames have been. Limit `df` before it is split, not the
    frames after it.

    In a stream, call it in `foreachBatch`.

    Args:
        df: Kafka's columns, as for `judge`. The others are null in the frames if they are missing.
        plan: From `load_plan`.
        topic: The one topic of all records, where it is known; see `judge`.
        observation: Counts them, if it is given: its `get` has the numbers of `accepted`,
            `refused`, `dropped` and `failed` records, and `reasons`: the most frequent 1,000 at
            most, as rows of `topic`, `outcome`, `policy`, `code`, `message` (500 characters) and
            `count`. Counts of reasons are exact up to 3,000 different reasons, and estimates
            beyond. Counting reads the kept result once; it does not judge. Needs PySpark 4.1 or
            newer, which has `approx_top_k`.

    Returns:
        Two frames with Kafka's eight columns, and behind them those that `df` has besides, but
        for `verdict`. Accepted records have keys and values as the
        interceptors left them. The others have them as they were, and the headers of a dead
        letter, as the `split` command writes them. What an interceptor dropped is in neither.

    Raises:
        ConfigurationError: It is a streaming frame, a column that the policies need is missing or
            has another type, or Spark is too old for `observation`, or with Spark Connect for this
            function: it needs PySpark 4.0.
    """
    check_arguments("split", df, plan, topic)
    if observation is not None:
        check_version(df.sparkSession.version)
    if df.isStreaming:
        raise ConfigurationError(
            "a stream cannot be split into two frames: each would be a query that judges by "
            "itself; call split in foreachBatch"
        )
    topic = topic_of(plan, topic)
    needed_columns(df, plan, topic, replacing=plan.has_interceptors, optional=COLUMNS)
    own = OwnColumns.of(df)
    df = own.renamed(df)
    if topic is not None:
        df = df.withColumn("topic", F.lit(topic))
    try:
        judged_rows = outgoing_records(df, plan, topic, own=own.names).localCheckpoint()
    except PySparkNotImplementedError:
        raise ConfigurationError(
            "split of a frame with Spark Connect needs PySpark 4.0 or newer, because older clients "
            "have no local checkpoints: store what judge() returns, and select the records by "
            "verdict.outcome"
        ) from None
    if observation is not None:
        count_verdicts(judged_rows, observation)

    def written_to(sink: str) -> DataFrame:
        return judged_rows.where(F.col(SINK) == sink).select(*COLUMNS, *own.restored())

    return written_to(ACCEPTED), written_to(REJECTED)


def split_into(
    df: DataFrame,
    plan: RecordPlan,
    sinks: Sinks,
    *,
    topic: str | None = None,
    proof: CountProof | None = None,
) -> Mapping[str, int]:
    """Judge records and write each to its sink, in one pass.

    Accepted records are written as interceptors left them, dead letters as they were, with
    headers with their origin and the reason. What an interceptor dropped is not written.

    Args:
        df: Kafka's columns.
        sinks: With the sinks `ACCEPTED` and `REJECTED`.
        topic: The one topic of all records, where it is known; see `judge`.
        proof: Compares what is written with the files that the records are from.

    Returns:
        How many records had each outcome.
    """
    judged_rows = outgoing_records(df, plan, topic, sinks.value_column)
    if sinks.has_tables:
        judged_rows = judged_rows.localCheckpoint()
        if proof is not None:
            proof.check(judged_rows.count())
        return _write(judged_rows, sinks, None)
    frame, counts = counted(judged_rows, F.col("verdict.outcome"), OUTCOMES)
    if proof is not None:
        proof = proof._replace(left_out=lambda: int(counts.get[Outcome.DROPPED.value]))
    sinks.write(written(frame), proof=proof)
    return counts.get


def split_stream(
    df: DataFrame,
    plan: RecordPlan,
    sinks: Sinks,
    checkpoint: str,
    *,
    topic: str | None,
    available_now: bool,
    on_batch: Callable[[int, Mapping[str, int], float], None],
    is_ending: Callable[[], bool] = lambda: False,
) -> StreamingQuery:
    """Start a streaming query that splits each micro-batch as `split_into` does.

    A folder gets a folder `batch=N` for each micro-batch, which replaces the folder of an
    interrupted attempt at it: every reader sees every record once. A table gets each micro-batch
    once. If there is a table, verdicts of a micro-batch are kept with the checkpoint until the
    next one: an attempt at it that follows does not judge. It parses values again if the type of
    the table's column has changed. A topic may get records of an
    interrupted micro-batch twice.

    Args:
        df: A streaming frame.
        sinks: With the sinks `ACCEPTED` and `REJECTED`.
        checkpoint: The checkpoint location of the stream.
        topic: The one topic of all records, where it is known; see `judge`.
        available_now: Stop after the records that are available now.
        on_batch: Called with the number, counts and seconds of each finished micro-batch.
        is_ending: Returns whether the query is being stopped, which fails its jobs.
    """
    judged_batches = JudgedBatches(checkpoint)

    def write(frame: DataFrame, number: int) -> None:
        try:
            write_batch(frame, number)
        except Exception:
            if is_ending():
                raise InterruptedError(_STOPPED) from None
            raise

    def write_batch(frame: DataFrame, number: int) -> None:
        began, column = time.monotonic(), sinks.read_value_column()
        judged_rows = outgoing_records(frame, plan, topic, column)
        query = query_id(judged_rows.sparkSession)
        if sinks.has_tables:
            batch = judged_batches.kept(judged_rows, query, number)
            batch = batch._replace(frame=parsed_again(batch.frame, column, plan, topic))
            outcome_counts = _write(batch.frame, sinks, batch)
        else:
            judged_rows, counts = counted(judged_rows, F.col("verdict.outcome"), OUTCOMES)
            sinks.write(written(judged_rows), MicroBatch(query, number))
            outcome_counts = counts.get
        on_batch(number, outcome_counts, time.monotonic() - began)

    writer = df.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    if available_now:
        writer = writer.trigger(availableNow=True)
    return writer.start()


def _write(judged_rows: DataFrame, sinks: Sinks, batch: JudgedBatch | None) -> Mapping[str, int]:
    """Write what was judged, which several jobs read, to its sinks; return the counts.

    A job counts by itself, because none of the others runs if tables have the micro-batch.
    """
    sinks.write(written(judged_rows), batch)
    counts = {row[0]: row[1] for row in judged_rows.groupBy("verdict.outcome").count().collect()}
    return {outcome: counts.get(outcome, 0) for outcome in OUTCOMES}

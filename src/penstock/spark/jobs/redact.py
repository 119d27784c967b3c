"""Rewrites stored records by the interceptor chain (KIP-905) of a plan, into another sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.engine.verdict import Outcome
from penstock.jobs.report.counts import OUTCOMES
from penstock.jobs.tasks.writing_task import ACCEPTED
from penstock.spark.frames.kafka_columns import with_all_columns
from penstock.spark.jobs.counting import counted, counts_reasons, reasons_in
from penstock.spark.sink.topic_rows import SINK
from penstock.spark.verdicts import apply

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from penstock.jobs.plan import RecordPlan
    from penstock.jobs.report.bounded_counter import BoundedCounter
    from penstock.jobs.report.counts import Reason
    from penstock.jobs.rows.count_proof import CountProof
    from penstock.spark.sink.sinks import Sinks


def redact(
    df: DataFrame,
    plan: RecordPlan,
    sinks: Sinks,
    *,
    topic: str | None = None,
    proof: CountProof | None = None,
) -> tuple[Mapping[str, int], BoundedCounter[Reason]]:
    """Run the interceptors over records and write the results.

    Policies of other proposals are not called. Dropped records are left out, and so are those
    on which an interceptor fails: they are counted, never passed on as they were.

    Args:
        df: Kafka's columns.
        plan: From `RecordPlan.interceptors_only`.
        sinks: With the sink `ACCEPTED`.
        topic: The one topic of all records, where it is known; see `judge`.
        proof: Compares what is written with the files that the records are from.

    Returns:
        How many records had each outcome, and why others than the accepted had it; before Spark
        4.1, without reasons.
    """
    rewritten_rows = apply(with_all_columns(df), plan, topic=topic)
    frame, counts = counted(
        rewritten_rows, F.col("verdict.outcome"), OUTCOMES, reasons=counts_reasons(df.sparkSession)
    )
    if proof is not None:
        others = [outcome for outcome in OUTCOMES if outcome != Outcome.ACCEPTED.value]
        proof = proof._replace(left_out=lambda: sum(counts.get[outcome] for outcome in others))
    frame = frame.where(F.col("verdict.outcome") == Outcome.ACCEPTED.value).drop("verdict")
    sinks.write(frame.withColumn(SINK, F.lit(ACCEPTED)), proof=proof)
    return {outcome: counts.get[outcome] for outcome in OUTCOMES}, reasons_in(counts.get)

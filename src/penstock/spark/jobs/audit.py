"""Audits stored records: counts the verdicts of a plan, in one pass, and changes nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.engine.path_counts import PathCount
from penstock.engine.verdict import Outcome
from penstock.jobs.evaluation import evaluator_of
from penstock.jobs.report.counts import OUTCOMES, AuditCounts, Reason, Records, Sample
from penstock.jobs.report.encoding import decode, encode
from penstock.jobs.report.hints import HEADER_KEYS_MAX, NO_KEY, OTHER_KEY, PREFIX_MAX
from penstock.jobs.report.times import HOUR_MS
from penstock.spark.frames.kafka_columns import in_ms
from penstock.spark.verdicts import judge, judge_counting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import Column, DataFrame

    from penstock.jobs.plan import RecordPlan

__all__ = ["AUDITED", "OUTCOMES", "audit", "with_payloads"]

AUDITED: Final = ("key", "partition", "offset", "timestamp")
"""The columns that an audit needs, regardless of the policies."""
_PREFIX: Final = rf"^[A-Za-z]{{1,{PREFIX_MAX}}}"
_VERDICT: Final = ("outcome", "policy", "code", "message")
_COUNTS: Final = "counts binary"
_NO_TIME: Final = -1


def audit(
    df: DataFrame,
    plan: RecordPlan,
    *,
    other: RecordPlan | None = None,
    topic: str | None = None,
) -> AuditCounts:
    """Judge records and count the verdicts, in one pass.

    Records that have all in common that is counted are grouped by Spark. Tasks turn the groups
    into counts of a bounded size, one task merges them, and only its counts reach the driver.

    Args:
        df: Kafka's columns.
        plan: The plan whose verdicts are counted.
        other: A plan to compare it with.
        topic: The one topic of all records, where it is known; see `judge`.

    Returns:
        The counts, bounded as in `AuditCounts`.
    """
    partial = _grouped(df, plan, other, topic).mapInArrow(_count, _COUNTS)
    rows = partial.repartition(1).mapInArrow(_merge, _COUNTS).collect()
    return _merged(bytes(row["counts"]) for row in rows)


def _grouped(
    df: DataFrame, plan: RecordPlan, other: RecordPlan | None, topic: str | None
) -> DataFrame:
    counting = evaluator_of(plan).counts_paths
    judged_rows = (judge_counting if counting else judge)(df, plan, topic=topic)
    if other is not None:
        judged_rows = judge(judged_rows.withColumnRenamed("verdict", "first"), other, topic=topic)
        judged_rows = judged_rows.withColumnsRenamed({"verdict": "second", "first": "verdict"})
    verdict = F.col("verdict")
    short = verdict["outcome"] != Outcome.ACCEPTED.value
    time = in_ms(has_headers="headers" in df.columns)
    keys: dict[str, Column] = {
        "topic": F.col("topic") if topic is None else F.lit(topic),
        "partition": F.col("partition"),
        "hour": F.when(time != _NO_TIME, F.floor(time / HOUR_MS)),
        **{name: verdict[name] for name in _VERDICT},
        "header_keys": F.when(short, _header_keys(df)),
        "key_prefix": F.when(short, _key_prefix()),
    }
    if other is not None:
        keys |= {f"other_{name}": F.col("second")[name] for name in _VERDICT}
    sums = {"count": F.count(F.lit(1)), "first": F.min("offset"), "last": F.max("offset")}
    if counting:
        sums["paths"] = F.collect_list(verdict["paths"])
    return judged_rows.groupBy(*(column.alias(name) for name, column in keys.items())).agg(
        *(column.alias(name) for name, column in sums.items())
    )


def _header_keys(df: DataFrame) -> Column:
    """Return what `hints.header_keys` returns."""
    if "headers" not in df.columns:
        return F.lit("")
    keys = F.transform(F.col("headers"), lambda header: header["key"])
    return F.coalesce(F.substring(F.concat_ws(", ", keys), 1, HEADER_KEYS_MAX), F.lit(""))


def _key_prefix() -> Column:
    """Return what `hints.key_prefix` returns."""
    key = F.col("key")
    text = F.regexp_extract(F.decode(F.substring(key, 1, PREFIX_MAX), "ISO-8859-1"), _PREFIX, 0)
    return F.when(key.isNull(), F.lit(NO_KEY)).otherwise(
        F.when(text == "", F.lit(OTHER_KEY)).otherwise(text)
    )


def _count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn the groups of a task into its counts; runs on Spark's executors."""
    counts = AuditCounts()
    for batch in batches:
        for row in batch.to_pylist():
            counts.add(_records(row))
            for paths in row.get("paths", ()):
                counts.paths.add(PathCount(*count) for count in json.loads(paths))
    yield from _as_batches(counts)


def _merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge the counts of tasks; runs on one of Spark's executors."""
    yield from _as_batches(_merged(row.as_py() for batch in batches for row in batch["counts"]))


def _merged(encoded: Iterable[bytes]) -> AuditCounts:
    result = AuditCounts()
    for counts in encoded:
        result.merge(decode(counts))
    return result


def _as_batches(counts: AuditCounts) -> Iterator[pa.RecordBatch]:
    if counts.partitions:
        yield pa.RecordBatch.from_pydict({"counts": pa.array([encode(counts)], pa.binary())})


def _records(row: Mapping[str, Any]) -> Records:
    # Files can have records without a topic, a partition or an offset.
    topic = row["topic"] or ""
    other = None
    if "other_outcome" in row:
        other = Reason(topic, *(row[f"other_{name}"] for name in _VERDICT))
    return Records(
        reason=Reason(topic, *(row[name] for name in _VERDICT)),
        partition=-1 if row["partition"] is None else row["partition"],
        hour=row["hour"],
        count=row["count"],
        first=-1 if row["first"] is None else row["first"],
        last=-1 if row["last"] is None else row["last"],
        header_keys=row["header_keys"],
        key_prefix=row["key_prefix"],
        other=other,
    )


def with_payloads(df: DataFrame, result: AuditCounts, max_bytes: int = 256) -> None:
    """Read the contents of the samples; at most `max_bytes` bytes of each key and value."""
    sample_places = sorted(
        {
            (reason.topic, s.partition, s.offset)
            for reason, some in result.samples.items()
            for s in some
        }
    )
    if not sample_places:
        return
    position = F.struct(F.coalesce("topic", F.lit("")), F.col("partition"), F.col("offset"))
    some = df.where(
        position.isin(
            *(F.struct(F.lit(t), F.lit(p), F.lit(o).cast("bigint")) for t, p, o in sample_places)
        )
    )
    contents: dict[tuple[str, int, int], Any] = {
        (row["topic"] or "", row["partition"], row["offset"]): row
        for row in some.select(
            "topic",
            "partition",
            "offset",
            F.substring("key", 1, max_bytes).alias("key"),
            F.substring("value", 1, max_bytes).alias("value"),
        ).collect()
    }
    for reason, samples in result.samples.items():
        for index, sample in enumerate(samples):
            row = contents.get((reason.topic, sample.partition, sample.offset))
            if row is not None:
                samples[index] = Sample(
                    sample.partition, sample.offset, _bytes(row["key"]), _bytes(row["value"])
                )


def _bytes(content: bytearray | None) -> bytes | None:
    return None if content is None else bytes(content)

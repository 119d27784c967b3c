"""Audits stored records: counts what a plan would decide, in one pass, and changes nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.engine.verdict import REJECTED, Outcome
from penstock.spark.verdicts import judge

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame, Row

    from penstock.spark.plan import RecordPlan

OUTCOMES: Final = tuple(outcome.value for outcome in Outcome)
REASONS_MAX: Final = 1000
"""The maximum number of reasons in a report; the others are counted together."""
SAMPLES_MAX: Final = 5
"""The maximum number of sample records for each reason."""
_HINTS_MAX: Final = 50
_PREFIX: Final = r"^[A-Za-z]{1,16}"
_HOUR_MICROS: Final = 3_600_000_000
_GROUPS_MAX: Final = 200_000


class Reason(NamedTuple):
    """A reason for which records were not accepted."""

    outcome: str
    policy: str | None
    code: int
    message: str | None


class Sample(NamedTuple):
    """The position of one of the records."""

    partition: int
    offset: int
    key: bytes | None = None
    value: bytes | None = None


@dataclass
class PartitionCounts:
    """One partition: records by outcome, and where the first and the last refused one is."""

    outcomes: Counter[str] = field(default_factory=Counter)
    first_refused: int | None = None
    last_refused: int | None = None


@dataclass
class Audit:
    """The counts.

    Attributes:
        outcomes: Records by outcome.
        reasons: Records by reason; without those that were accepted.
        samples: Some records for each reason.
        partitions: By partition.
        hours: By hour of the record's time (since the epoch; None without a time), by outcome.
        policies: Records that each policy did not accept.
        header_keys: Records not accepted, by the keys of their headers.
        key_prefixes: Records not accepted, by the prefixes of their keys.
        compared: Records by their outcome under this plan and under the other one.
        newly_refused: Records that only the other plan does not accept, by its reason.
        newly_accepted: Records that only this plan does not accept, by its reason.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[Reason] = field(default_factory=Counter)
    samples: dict[Reason, list[Sample]] = field(default_factory=lambda: defaultdict(list))
    partitions: dict[int, PartitionCounts] = field(
        default_factory=lambda: defaultdict(PartitionCounts)
    )
    hours: dict[int | None, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    policies: Counter[str] = field(default_factory=Counter)
    header_keys: Counter[str] = field(default_factory=Counter)
    key_prefixes: Counter[str] = field(default_factory=Counter)
    compared: Counter[tuple[str, str]] = field(default_factory=Counter)
    newly_refused: Counter[Reason] = field(default_factory=Counter)
    newly_accepted: Counter[Reason] = field(default_factory=Counter)

    @property
    def judged(self) -> int:
        """How many records were judged."""
        return self.outcomes.total()

    @property
    def share(self) -> float:
        """The share of records that were refused or failed; 0 without records."""
        short = sum(self.outcomes[outcome] for outcome in REJECTED)
        return short / self.judged if self.judged else 0.0


def audit(
    df: DataFrame,
    plan: RecordPlan,
    *,
    other: RecordPlan | None = None,
    topic: str | None = None,
) -> Audit:
    """Judge records and count the verdicts, in one pass.

    Args:
        df: Kafka's columns.
        plan: The plan whose verdicts are counted.
        other: A plan to compare it with.
        topic: The one topic of all records, where it is known; see `judge`.

    Returns:
        The counts. Exact, but that reasons beyond the `REASONS_MAX` most frequent ones are
        counted together.
    """
    groups = _grouped(df, plan, other, topic).persist()
    try:
        result = Audit()
        rows = groups.limit(_GROUPS_MAX + 1).collect()
        if len(rows) > _GROUPS_MAX:
            rows = _bounded(groups).collect()
        for row in rows:
            _add(result, row, compared=other is not None)
    finally:
        groups.unpersist()
    return result


def _grouped(
    df: DataFrame, plan: RecordPlan, other: RecordPlan | None, topic: str | None
) -> DataFrame:
    judged = judge(df, plan, topic=topic)
    if other is not None:
        judged = judge(judged.withColumnRenamed("verdict", "first"), other, topic=topic)
        judged = judged.withColumnsRenamed({"verdict": "second", "first": "verdict"})
    verdict = F.col("verdict")
    short = verdict["outcome"] != Outcome.ACCEPTED.value
    keys: dict[str, Column] = {
        "partition": F.col("partition"),
        "hour": F.floor(F.unix_micros("timestamp") / _HOUR_MICROS),
        "outcome": verdict["outcome"],
        "policy": verdict["policy"],
        "code": verdict["code"],
        "message": verdict["message"],
        "header_keys": F.when(short, _header_keys(df)),
        "key_prefix": F.when(short, _key_prefix()),
    }
    if other is not None:
        second = F.col("second")
        keys |= {f"other_{name}": second[name] for name in Reason._fields}
    return judged.groupBy(*(column.alias(name) for name, column in keys.items())).agg(
        F.count(F.lit(1)).alias("count"),
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
    )


def _header_keys(df: DataFrame) -> Column:
    if "headers" not in df.columns:
        return F.lit("")
    keys = F.transform(F.col("headers"), lambda one: one["key"])
    return F.coalesce(F.substring(F.concat_ws(", ", keys), 1, 100), F.lit(""))


def _key_prefix() -> Column:
    """The letters at the start of a key, by which producers often distinguish records."""
    key = F.col("key")
    text = F.regexp_extract(F.decode(F.substring(key, 1, 16), "ISO-8859-1"), _PREFIX, 0)
    return F.when(key.isNull(), F.lit("(no key)")).otherwise(
        F.when(text == "", F.lit("(other)")).otherwise(text)
    )


def _bounded(groups: DataFrame) -> DataFrame:
    """Merge rare reasons, header keys and prefixes, to bound the memory of the driver."""
    reasons = ["outcome", "policy", "code", "message"]
    kept = (
        groups.where(f"outcome != '{Outcome.ACCEPTED}'")
        .groupBy(*reasons)
        .agg(F.sum("count").alias("total"))
        .orderBy(F.desc("total"))
        .limit(REASONS_MAX)
        .select(*reasons, F.lit(True).alias("kept"))
    )
    same = [groups[name].eqNullSafe(kept[name]) for name in reasons]
    known = groups.join(F.broadcast(kept), on=same, how="left").select(
        groups["*"], F.coalesce(kept["kept"], F.lit(False)).alias("kept")
    )
    hints = {"header_keys", "key_prefix", "other_message"} & set(groups.columns)
    others = [name for name in groups.columns if name not in {"message", "count", "first", "last"}]
    return (
        known.withColumn("message", F.when(F.col("kept"), F.col("message")))
        .withColumns({name: F.lit(None).cast("string") for name in hints})
        .groupBy(*others, "message")
        .agg(
            F.sum("count").alias("count"),
            F.min("first").alias("first"),
            F.max("last").alias("last"),
        )
    )


def _add(result: Audit, row: Row, *, compared: bool) -> None:
    count = row["count"]
    outcome = Outcome(row["outcome"])
    result.outcomes[outcome] += count
    result.hours[row["hour"]][outcome] += count
    partition = result.partitions[row["partition"]]
    partition.outcomes[outcome] += count
    reason = _reason(row, "")
    if outcome is not Outcome.ACCEPTED:
        result.reasons[reason] += count
        result.policies[row["policy"] or ""] += count
        if row["header_keys"] is not None:
            result.header_keys[row["header_keys"]] += count
            result.key_prefixes[row["key_prefix"]] += count
        _keep_sample(result.samples[reason], Sample(row["partition"], row["first"]))
    if outcome in REJECTED:
        firsts = [row["first"], *_given(partition.first_refused)]
        lasts = [row["last"], *_given(partition.last_refused)]
        partition.first_refused, partition.last_refused = min(firsts), max(lasts)
    if compared:
        other = _reason(row, "other_")
        result.compared[outcome, other.outcome] += count
        if outcome is Outcome.ACCEPTED and other.outcome != Outcome.ACCEPTED:
            result.newly_refused[other] += count
        if outcome is not Outcome.ACCEPTED and other.outcome == Outcome.ACCEPTED:
            result.newly_accepted[reason] += count


def _reason(row: Row, prefix: str) -> Reason:
    return Reason(*(row[prefix + name] for name in Reason._fields))


def _keep_sample(samples: list[Sample], sample: Sample) -> None:
    samples.append(sample)
    samples.sort(key=lambda one: (one.offset, one.partition))
    del samples[SAMPLES_MAX:]


def _given(value: int | None) -> Iterable[int]:
    return () if value is None else (value,)


def with_payloads(df: DataFrame, result: Audit, max_bytes: int = 256) -> None:
    """Read the contents of the samples; at most `max_bytes` bytes of each key and value."""
    wanted = sorted({(s.partition, s.offset) for some in result.samples.values() for s in some})
    if not wanted:
        return
    position = F.struct(F.col("partition"), F.col("offset"))
    some = df.where(
        position.isin(*(F.struct(F.lit(p), F.lit(o).cast("bigint")) for p, o in wanted))
    )
    contents: dict[tuple[int, int], Any] = {
        (row["partition"], row["offset"]): row
        for row in some.select(
            "partition",
            "offset",
            F.substring("key", 1, max_bytes).alias("key"),
            F.substring("value", 1, max_bytes).alias("value"),
        ).collect()
    }
    for samples in result.samples.values():
        for index, (partition, offset, *_) in enumerate(samples):
            row = contents.get((partition, offset))
            if row is not None:
                samples[index] = Sample(partition, offset, _bytes(row["key"]), _bytes(row["value"]))


def _bytes(given: bytearray | None) -> bytes | None:
    return None if given is None else bytes(given)


def most_common(counts: Counter[str]) -> list[tuple[str, int]]:
    """Return the most frequent ones, and the sum of all others."""
    common = counts.most_common(_HINTS_MAX)
    rest = counts.total() - sum(count for _, count in common)
    return [*common, ("(others)", rest)] if rest else common

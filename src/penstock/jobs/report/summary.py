"""Counts become a report."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from penstock.engine.verdict import REJECTED
from penstock.jobs.report.counts import by_outcome, share
from penstock.jobs.report.document import (
    HINTS_MAX,
    OTHER_HINTS,
    REASONS_MAX,
    ComparedEntry,
    ComparedOutcomes,
    ComparedReason,
    HintEntry,
    HourEntry,
    OutcomeCounts,
    PartitionEntry,
    PathEntry,
    PolicyEntry,
    ReasonEntry,
    Report,
    SampleEntry,
    TopicEntry,
)
from penstock.jobs.report.times import moment

if TYPE_CHECKING:
    from collections import Counter

    from penstock.jobs.report.bounded_counter import BoundedCounter
    from penstock.jobs.report.counts import AuditCounts, PolicyOutcome, Reason, Sample
    from penstock.jobs.report.document import About


def summarize(counts: AuditCounts, about: About) -> Report:
    """Return the report of an audit.

    Args:
        about: What it was about; `written` is now, where it is empty.
    """
    reasons, left_out = counts.reasons.most_common(REASONS_MAX)
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    return Report(
        judged=counts.judged,
        share=counts.share,
        **_outcomes(counts.outcomes),
        topics=tuple(
            TopicEntry(
                topic=topic, judged=outcomes.total(), share=share(outcomes), **_outcomes(outcomes)
            )
            for topic, outcomes in sorted(counts.by_topic().items())
        ),
        reasons=tuple(
            ReasonEntry(
                **_reason(reason),
                outcome=reason.outcome,
                count=count,
                samples=tuple(map(_sample, counts.samples.get(reason, ()))),
            )
            for reason, count in reasons
        ),
        reasons_left_out=left_out,
        policies=policy_entries(counts.policies),
        partitions=tuple(
            PartitionEntry(
                topic=partition.topic,
                partition=partition.number,
                first_refused_offset=partition_counts.first_refused,
                last_refused_offset=partition_counts.last_refused,
                **_outcomes(partition_counts.outcomes),
            )
            for partition, partition_counts in sorted(counts.partitions.items())
        ),
        hours=_hours(counts),
        hours_width=counts.times.width,
        out_of_range=OutcomeCounts(**_outcomes(counts.times.out_of_range)),
        header_keys=_hints(counts.header_keys),
        key_prefixes=_hints(counts.key_prefixes),
        compared=_compared(counts) if about.other else None,
        paths=tuple(PathEntry(**path._asdict()) for path in counts.paths.counts()),
        about=about if about.written else about.model_copy(update={"written": now}),
    )


def _outcomes(counts: Counter[str]) -> dict[str, Any]:
    return dict(by_outcome(counts))


def _reason(reason: Reason) -> dict[str, Any]:
    return {name: getattr(reason, name) for name in ("topic", "policy", "code", "message")}


def _sample(sample: Sample) -> SampleEntry:
    key, value = (
        None if content is None else content.decode("utf-8", "backslashreplace")
        for content in (sample.key, sample.value)
    )
    return SampleEntry(partition=sample.partition, offset=sample.offset, key=key, value=value)


def policy_entries(counts: Counter[PolicyOutcome]) -> tuple[PolicyEntry, ...]:
    """Return the policies that did not accept records, the most frequent first."""
    by_policy: dict[tuple[str, str], list[int]] = {}
    for (topic, policy, outcome), count in counts.items():
        sums = by_policy.setdefault((topic, policy), [0, 0])
        sums[0] += count
        sums[1] += count if outcome in REJECTED else 0
    entries = (
        PolicyEntry(topic=topic, policy=policy, count=count, turned_away=away)
        for (topic, policy), (count, away) in by_policy.items()
    )
    return tuple(sorted(entries, key=lambda entry: (-entry.count, entry.topic or "", entry.policy)))


def _hours(counts: AuditCounts) -> tuple[HourEntry, ...]:
    times = counts.times
    without = times.without_time
    entries = [HourEntry(hour=None, **_outcomes(without))] if without.total() else []
    entries += [
        HourEntry(hour=moment(hour).isoformat(timespec="minutes"), **_outcomes(outcomes))
        for hour, outcomes in sorted(times.bins.items())
    ]
    return tuple(entries)


def _hints(counter: BoundedCounter[str]) -> tuple[HintEntry, ...]:
    hints, rest = counter.most_common(HINTS_MAX)
    return tuple(
        HintEntry(hint=hint, count=count)
        for hint, count in (*hints, *([(OTHER_HINTS, rest)] if rest else []))
    )


def _compared(counts: AuditCounts) -> ComparedEntry:
    return ComparedEntry(
        newly_refused=counts.newly_refused.total(),
        newly_accepted=counts.newly_accepted.total(),
        outcomes=tuple(
            ComparedOutcomes(this=this, other=other, count=count)
            for (this, other), count in sorted(counts.comparison.items())
        ),
        newly_refused_reasons=_compared_reasons(counts.newly_refused),
        newly_accepted_reasons=_compared_reasons(counts.newly_accepted),
    )


def _compared_reasons(counter: BoundedCounter[Reason]) -> tuple[ComparedReason, ...]:
    reasons, _ = counter.most_common(REASONS_MAX)
    return tuple(ComparedReason(**_reason(reason), count=count) for reason, count in reasons)

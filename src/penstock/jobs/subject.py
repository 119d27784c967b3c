"""What an audit is of, for its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.jobs.report.document import About, RangeEntry
from penstock.jobs.report.next_steps import keys_in_force

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.jobs.plan import RecordPlan
    from penstock.jobs.tasks.retention import Coverage
    from penstock.kafka.cluster.ranges import OffsetRange


def subject_of(
    source: str,
    topics: Sequence[str],
    plan: RecordPlan,
    other: RecordPlan | None = None,
    *,
    ranges: Iterable[OffsetRange] = (),
    coverage: Coverage | None = None,
    seconds: float,
) -> About:
    """Return the subject of an audit.

    Args:
        source: The topics as they were named, or the files.
        topics: The names of the topics.
        plan: The plan whose verdicts are counted.
        other: The plan it was compared with.
        ranges: The offsets that were read; none for files.
        coverage: The part of them that was read; None if it is not known.
        seconds: How long it took.
    """
    return About(
        source=source,
        ranges=_entries(sorted(ranges)),
        lost=_entries(coverage.lost if coverage else ()),
        file=str(plan.path),
        fingerprint=plan.fingerprint,
        plans=plan.digests_of(topics),
        keys=keys_in_force(plan.policies.properties, tuple(topics), plan.policies.topic_keys),
        other=None if other is None else str(other.path),
        seconds=round(seconds, 1),
    )


def _entries(ranges: Iterable[OffsetRange]) -> tuple[RangeEntry, ...]:
    return tuple(
        RangeEntry(
            topic=offset_range.topic,
            partition=offset_range.partition,
            start=offset_range.start,
            end=offset_range.end,
        )
        for offset_range in ranges
    )

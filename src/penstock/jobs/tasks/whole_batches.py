"""Counts the verdicts on whole batches, as a gateway does: a bad record costs all of its batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.engine.verdict import FailureCause, Outcome
from penstock.jobs.report.counts import NOT_JUDGED, Blame, Reason, Records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.engine.verdict import PolicyVerdict, Replacement
    from penstock.jobs.report.counts import AuditCounts
    from penstock.jobs.topics.excerpt_reading import ReadBatch

CHANGED: Final = "changed"
"""Beside the outcomes: records of a batch that interceptors would have rewritten."""


def count_batch(
    counts: AuditCounts, batch: ReadBatch, verdict: PolicyVerdict, interceptors: str
) -> None:
    """Count the records of a batch.

    Of a refused batch all records are refused, by the policy that refused it; reasons count the bad
    records, or all where the batch itself is refused. A batch from which only some records would be
    dropped counts as `CHANGED`. Times and hints are not known: workers read the records.

    Args:
        batch: The judged batch.
        interceptors: The names of the topic's interceptors.
    """
    if verdict.cause is FailureCause.NOT_JUDGED:
        count_unjudged(counts, batch)
    elif verdict.outcome is not Outcome.ACCEPTED:
        blame = tuple(_blame(batch, verdict))
        _count(counts, batch, _reason(batch, verdict, verdict.message), blame=blame)
    elif verdict.replacement is None:
        _count(counts, batch, Reason(batch.topic, Outcome.ACCEPTED.value))
    else:
        _count_replaced(counts, batch, verdict.replacement, interceptors)


def count_unjudged(counts: AuditCounts, batch: ReadBatch) -> None:
    """Count a batch that cannot be read, or that no policy is to blame for."""
    _count(counts, batch, Reason(batch.topic, NOT_JUDGED))


def _count(
    counts: AuditCounts, batch: ReadBatch, reason: Reason, *, blame: tuple[Blame, ...] = ()
) -> None:
    counts.batches[reason.outcome] += 1
    counts.add(_records(batch, reason, batch.record_count, blame))


def _count_replaced(
    counts: AuditCounts, batch: ReadBatch, replacement: Replacement, interceptors: str
) -> None:
    # As the gateway counts it: which of the others were changed is not reported.
    count, dropped = batch.record_count, len(replacement.dropped)
    counts.batches[Outcome.DROPPED.value if dropped == count else CHANGED] += 1
    for outcome, some in ((Outcome.DROPPED.value, dropped), (CHANGED, count - dropped)):
        if some:
            counts.add(_records(batch, Reason(batch.topic, outcome, interceptors), some, ()))


def _records(batch: ReadBatch, reason: Reason, count: int, blame: tuple[Blame, ...]) -> Records:
    first, last = batch.offset_of(0), batch.offsets[-1]
    return Records(reason, batch.partition, None, count, first, last, blame=blame)


def _blame(batch: ReadBatch, verdict: PolicyVerdict) -> Iterator[Blame]:
    for error in verdict.record_errors:
        reason = _reason(batch, verdict, error.message, error.policy)
        yield Blame(reason, 1, batch.offset_of(error.index))
    if not verdict.record_errors:
        reason = _reason(batch, verdict, verdict.message)
        yield Blame(reason, batch.record_count, batch.offset_of(0))


def _reason(
    batch: ReadBatch, verdict: PolicyVerdict, message: str | None, policy: str = ""
) -> Reason:
    return Reason(
        batch.topic, verdict.outcome.value, policy or verdict.policy, verdict.code, message
    )

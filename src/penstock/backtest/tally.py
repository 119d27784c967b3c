"""What came of a backtest: by topic, policy and reason, in bounded memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.engine.verdict import REJECTED, FailureCause, Outcome
from penstock.report.bounded_counter import BoundedCounter

if TYPE_CHECKING:
    from penstock.backtest.stored_batches import ReadBatch
    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.engine.verdict import PolicyVerdict

REASONS_KEPT: Final = 200
"""Reasons of one topic."""
CHANGED: Final = "changed"
"""Beside the outcomes: records of a batch that interceptors would have rewritten."""
NOT_JUDGED: Final = "not judged"
"""No policy is to blame: no worker was there, or the batch could not be read."""


class BacktestReason(NamedTuple):
    """Why records would not have been stored as they are.

    Attributes:
        policy: The class.
        outcome: What would have become of them.
        message: In the policy's words.
    """

    policy: str
    outcome: str
    message: str | None


class RecordPosition(NamedTuple):
    """Where one of the records is."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"


@dataclass
class TopicTally:
    """The verdicts about one topic.

    Attributes:
        records: Records by outcome, `CHANGED` or `NOT_JUDGED`; of a refused batch all.
        batches: Batches likewise; a batch from which only some records would be dropped counts as
            `CHANGED`.
        policies: Records that are not accepted, by policy and outcome.
        reasons: Records by reason; of a refused batch the bad records, or all records if
            the batch itself is refused.
        places: The first record of each reason.
    """

    records: Counter[str] = field(default_factory=Counter)
    batches: Counter[str] = field(default_factory=Counter)
    policies: Counter[tuple[str, str]] = field(default_factory=Counter)
    reasons: BoundedCounter[BacktestReason] = field(
        default_factory=lambda: BoundedCounter(REASONS_KEPT)
    )
    places: dict[BacktestReason, RecordPosition] = field(default_factory=dict)

    @property
    def judged(self) -> int:
        """How many records were judged."""
        return self.records.total() - self.records[NOT_JUDGED]

    @property
    def turned_away(self) -> int:
        """How many records would have been refused, for any reason."""
        return sum(self.records[outcome] for outcome in REJECTED)

    @property
    def share(self) -> float:
        """The share of the judged records that would have been refused; 0 without records."""
        return self.turned_away / self.judged if self.judged else 0.0

    def add(self, plan: TopicPlan, batch: ReadBatch, verdict: PolicyVerdict) -> None:
        """Count a verdict.

        Args:
            plan: The policies that judged.
            batch: The judged batch.
            verdict: Their verdict.
        """
        count = batch.record_count
        if verdict.cause is FailureCause.NOT_JUDGED:
            self._count(NOT_JUDGED, count)
            return
        if verdict.outcome is not Outcome.ACCEPTED:
            self._count(verdict.outcome, count)
            self.policies[verdict.policy, verdict.outcome] += count
            self._add_reasons(batch, verdict)
            return
        if verdict.replacement is None:
            self._count(Outcome.ACCEPTED, count)
            return
        # As the gateway counts it: which of the others were changed is not reported.
        dropped = len(verdict.replacement.dropped)
        self.batches[Outcome.DROPPED if dropped == count else CHANGED] += 1
        for outcome, some in ((Outcome.DROPPED, dropped), (CHANGED, count - dropped)):
            if some:
                self.records[outcome] += some
                self.policies[plan.interceptor_names, outcome] += some

    def unreadable(self, batch: ReadBatch) -> None:
        """Count a batch that cannot be read."""
        self._count(NOT_JUDGED, batch.record_count)

    def _count(self, outcome: str, records: int) -> None:
        self.records[outcome] += records
        self.batches[outcome] += 1

    def _add_reasons(self, batch: ReadBatch, verdict: PolicyVerdict) -> None:
        for error in verdict.record_errors:
            policy = error.policy or verdict.policy
            offset = batch.offset_of(error.index)
            self._add_reason(
                BacktestReason(policy, verdict.outcome, error.message), 1, batch, offset
            )
        if not verdict.record_errors:
            reason = BacktestReason(verdict.policy, verdict.outcome, verdict.message)
            self._add_reason(reason, batch.record_count, batch, batch.offset_of(0))

    def _add_reason(
        self, reason: BacktestReason, count: int, batch: ReadBatch, offset: int
    ) -> None:
        if self.reasons.add(reason, count):
            self.places = {
                reason: at for reason, at in self.places.items() if reason in self.reasons
            }
        if reason in self.reasons:
            self.places.setdefault(reason, RecordPosition(batch.partition, offset))


def total(tallies: dict[str, TopicTally]) -> TopicTally:
    """Return the records and batches of all topics together, without policies and reasons."""
    found = TopicTally()
    for tally in tallies.values():
        found.records.update(tally.records)
        found.batches.update(tally.batches)
    return found

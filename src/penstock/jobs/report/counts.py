"""What jobs count: in bounded memory, and so that the counts of tasks can be merged."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from penstock.engine.path_counts import PathTally
from penstock.engine.verdict import OF_RECORDS, REJECTED, Outcome
from penstock.jobs.report.bounded_counter import BoundedCounter
from penstock.jobs.report.times import TimeBins
from penstock.kafka.cluster.ranges import Partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.engine.verdict import PolicyVerdict

NOT_JUDGED: Final = "not judged"
"""Beside the outcomes, of whole batches: no worker was there, or the batch could not be read."""
OUTCOMES: Final = tuple(outcome.value for outcome in OF_RECORDS)
REASONS_KEPT: Final = 2000
"""How many reasons are kept while records are counted: more than a report lists, so that what
it lists is right even where a task left out others."""
HINTS_KEPT: Final = 500
"""How many hints of each kind are kept while records are counted."""
SAMPLES_MAX: Final = 5
"""The maximum number of sample records for each reason."""
_WITHOUT_REASON: Final = frozenset({Outcome.ACCEPTED.value, NOT_JUDGED})


class Reason(NamedTuple):
    """A verdict on records of a topic, and why it is so."""

    topic: str
    outcome: str
    policy: str | None = None
    code: int = 0
    message: str | None = None


def reason_of(topic: str, verdict: PolicyVerdict) -> Reason:
    """Return the reason for a verdict on records of a topic that are not accepted."""
    return Reason(topic, verdict.outcome.value, verdict.policy, verdict.code, verdict.message)


class Sample(NamedTuple):
    """The position of one of the records; with its contents where they are requested."""

    partition: int
    offset: int
    key: bytes | None = None
    value: bytes | None = None


class PolicyOutcome(NamedTuple):
    """A policy that did not accept records of a topic, and the outcome for them."""

    topic: str
    policy: str
    outcome: str


class Blame(NamedTuple):
    """The records of a batch that the verdict on all of it is due to.

    Attributes:
        reason: Why.
        records: How many they are.
        offset: The lowest of their offsets.
    """

    reason: Reason
    records: int
    offset: int


@dataclass(frozen=True, slots=True)
class Records:
    """Records of one partition that have all but their offsets in common.

    Attributes:
        reason: The verdict on them.
        partition: The number of their partition.
        hour: The hour of their timestamps since the epoch, from `times.hour_of`.
        count: How many they are.
        first: The lowest of their offsets.
        last: The highest of their offsets.
        header_keys: From `hints.header_keys`; None where it is not known or they are accepted.
        key_prefix: From `hints.key_prefix`; None likewise.
        other: The verdict under the plan that is compared with; None without such a plan.
        samples: Some of their offsets besides the lowest, to be samples.
        blame: If a batch was judged as a whole, the records to blame; None if the reason is that of
            each record.
    """

    reason: Reason
    partition: int
    hour: int | None
    count: int
    first: int
    last: int
    header_keys: str | None = None
    key_prefix: str | None = None
    other: Reason | None = None
    samples: tuple[int, ...] = ()
    blame: tuple[Blame, ...] | None = None


@dataclass
class PartitionCounts:
    """One partition.

    Attributes:
        outcomes: Its records by outcome.
        removed_offsets: Offsets that retention removed before a job that writes read them.
        first_refused: Where an audit finds the first refused record.
        last_refused: Where it finds the last.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    removed_offsets: int = 0
    first_refused: int | None = None
    last_refused: int | None = None

    def merge(self, other: PartitionCounts) -> None:
        """Add the counts of other records of the same partition."""
        self.outcomes.update(other.outcomes)
        self.removed_offsets += other.removed_offsets
        firsts = [*_given(self.first_refused), *_given(other.first_refused)]
        lasts = [*_given(self.last_refused), *_given(other.last_refused)]
        self.first_refused = min(firsts, default=None)
        self.last_refused = max(lasts, default=None)


@dataclass
class RecordCounts:
    """The records of a job, or of a part of it, by what became of them, and why.

    Attributes:
        partitions: By partition; exact.
        reasons: Records by reason; without those that were accepted.
    """

    partitions: dict[Partition, PartitionCounts] = field(default_factory=dict)
    reasons: BoundedCounter[Reason] = field(default_factory=lambda: BoundedCounter(REASONS_KEPT))

    @property
    def outcomes(self) -> Counter[str]:
        """Records by outcome."""
        total: Counter[str] = Counter()
        for counts in self.partitions.values():
            total.update(counts.outcomes)
        return total

    @property
    def removed(self) -> int:
        """Offsets that retention removed before they were read."""
        return sum(counts.removed_offsets for counts in self.partitions.values())

    def by_topic(self) -> dict[str, Counter[str]]:
        """Return records by topic and outcome."""
        topics: dict[str, Counter[str]] = {}
        for partition, counts in self.partitions.items():
            topics.setdefault(partition.topic, Counter()).update(counts.outcomes)
        return topics

    def removed_by_topic(self) -> dict[str, int]:
        """Return the offsets that retention removed, of topics that have some."""
        topics: Counter[str] = Counter()
        for partition, counts in self.partitions.items():
            topics[partition.topic] += counts.removed_offsets
        return +topics

    def add_outcomes(self, partition: Partition, outcomes: Mapping[str, int]) -> None:
        """Count records of a partition by outcome."""
        self._of(partition).outcomes.update(outcomes)

    def add_verdicts(
        self, partition: Partition, verdicts: Iterable[PolicyVerdict], *, accepted: int
    ) -> None:
        """Count records of a partition by the verdicts on them.

        Args:
            verdicts: On those that are not accepted.
            accepted: How many are.
        """
        outcomes = self._of(partition).outcomes
        outcomes[Outcome.ACCEPTED.value] += accepted
        for verdict in verdicts:
            outcomes[verdict.outcome.value] += 1
            self.reasons.add(reason_of(partition.topic, verdict))

    def add_removed(self, partition: Partition, count: int) -> None:
        """Count offsets of a partition that retention removed."""
        self._of(partition).removed_offsets += count

    def merge(self, other: Self) -> None:
        """Add the counts of other records, such as those of another task."""
        for partition, counts in other.partitions.items():
            self._of(partition).merge(counts)
        self.reasons.merge(other.reasons)

    def plus(self, other: Self) -> Self:
        """Return the sum of two."""
        total = type(self)()
        total.merge(self)
        total.merge(other)
        return total

    def _of(self, partition: Partition) -> PartitionCounts:
        counts = self.partitions.get(partition)
        if counts is None:
            counts = self.partitions[partition] = PartitionCounts()
        return counts


@dataclass
class AuditCounts(RecordCounts):
    """The counts of an audit, or of a part of an audit.

    Bounded, for any records: by the numbers of partitions, policies and paths, and by
    `REASONS_KEPT`, `HINTS_KEPT`, `SAMPLES_MAX` and `times.BINS_MAX`.

    Attributes:
        batches: Batches by outcome, where batches are judged as a whole; exact.
        policies: Records that each policy did not accept; exact.
        times: By time; exact.
        samples: For each of the reasons, the records with the lowest offsets.
        header_keys: Records not accepted, by the keys of their headers.
        key_prefixes: Records not accepted, by the prefixes of their keys.
        comparison: Records by their outcome under this plan and under the other plan; exact.
        newly_refused: Records that only the other plan does not accept, by its reason.
        newly_accepted: Records that only this plan does not accept, by its reason.
        paths: How often the paths of policies led to a field; exact.
    """

    batches: Counter[str] = field(default_factory=Counter)
    policies: Counter[PolicyOutcome] = field(default_factory=Counter)
    times: TimeBins = field(default_factory=TimeBins)
    samples: dict[Reason, list[Sample]] = field(default_factory=dict)
    header_keys: BoundedCounter[str] = field(default_factory=lambda: BoundedCounter(HINTS_KEPT))
    key_prefixes: BoundedCounter[str] = field(default_factory=lambda: BoundedCounter(HINTS_KEPT))
    comparison: Counter[tuple[str, str]] = field(default_factory=Counter)
    newly_refused: BoundedCounter[Reason] = field(
        default_factory=lambda: BoundedCounter(REASONS_KEPT)
    )
    newly_accepted: BoundedCounter[Reason] = field(
        default_factory=lambda: BoundedCounter(REASONS_KEPT)
    )
    paths: PathTally = field(default_factory=PathTally)

    @property
    def judged(self) -> int:
        """How many records were judged."""
        return _judged(self.outcomes)

    @property
    def share(self) -> float:
        """The share of records that were refused or failed; 0 without records."""
        return share(self.outcomes)

    def add(self, records: Records) -> None:
        """Count records."""
        reason, count = records.reason, records.count
        self._of(Partition(reason.topic, records.partition)).merge(_partition_counts(records))
        self.times.add(records.hour, reason.outcome, count)
        if reason.outcome not in _WITHOUT_REASON:
            self._add_reason(records)
        if records.other is not None:
            self._compare(reason, records.other, count)

    def _add_reason(self, records: Records) -> None:
        reason, count = records.reason, records.count
        self.policies[PolicyOutcome(reason.topic, reason.policy or "", reason.outcome)] += count
        if records.header_keys is not None:
            self.header_keys.add(records.header_keys, count)
        if records.key_prefix is not None:
            self.key_prefixes.add(records.key_prefix, count)
        if records.blame is None:
            offsets = (records.first, *records.samples)
            self._blame(reason, count, [Sample(records.partition, offset) for offset in offsets])
        for blame in records.blame or ():
            self._blame(blame.reason, blame.records, [Sample(records.partition, blame.offset)])

    def _blame(self, reason: Reason, count: int, samples: list[Sample]) -> None:
        pruned = self.reasons.add(reason, count)
        self._keep_samples(reason, samples)
        if pruned:
            self._drop_samples()

    def _compare(self, reason: Reason, other: Reason, count: int) -> None:
        self.comparison[reason.outcome, other.outcome] += count
        if reason.outcome == Outcome.ACCEPTED and other.outcome != Outcome.ACCEPTED:
            self.newly_refused.add(other, count)
        if reason.outcome != Outcome.ACCEPTED and other.outcome == Outcome.ACCEPTED:
            self.newly_accepted.add(reason, count)

    def merge(self, other: Self) -> None:
        """Add the counts of other records, such as those of another task."""
        super().merge(other)
        self.batches.update(other.batches)
        self.policies.update(other.policies)
        self.times.merge(other.times)
        for reason, samples in other.samples.items():
            self._keep_samples(reason, samples)
        self._drop_samples()
        self.header_keys.merge(other.header_keys)
        self.key_prefixes.merge(other.key_prefixes)
        self.comparison.update(other.comparison)
        self.newly_refused.merge(other.newly_refused)
        self.newly_accepted.merge(other.newly_accepted)
        self.paths.merge(other.paths)

    def _keep_samples(self, reason: Reason, samples: list[Sample]) -> None:
        all_samples = [*self.samples.get(reason, ()), *samples]
        all_samples.sort(key=lambda sample: (sample.offset, sample.partition))
        self.samples[reason] = all_samples[:SAMPLES_MAX]

    def _drop_samples(self) -> None:
        """Forget the samples of reasons that were left out."""
        self.samples = {
            reason: samples for reason, samples in self.samples.items() if reason in self.reasons
        }


def by_outcome(outcomes: Mapping[str, int]) -> dict[str, int]:
    """Return the number of records of each of `OUTCOMES`, in this order; 0 without records."""
    return {outcome: outcomes.get(outcome, 0) for outcome in OUTCOMES}


def share(outcomes: Counter[str]) -> float:
    """Return the share of records that were refused or failed; 0 without records."""
    judged_count = _judged(outcomes)
    rejected_count = sum(outcomes[outcome] for outcome in REJECTED)
    return rejected_count / judged_count if judged_count else 0.0


def _judged(outcomes: Counter[str]) -> int:
    return outcomes.total() - outcomes[NOT_JUDGED]


def _partition_counts(records: Records) -> PartitionCounts:
    outcome = records.reason.outcome
    counts = PartitionCounts(Counter({outcome: records.count}))
    if outcome in REJECTED:
        counts.first_refused, counts.last_refused = records.first, records.last
    return counts


def _given(value: int | None) -> Iterable[int]:
    return () if value is None else (value,)

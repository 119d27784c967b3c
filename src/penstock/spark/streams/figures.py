"""What a stream has done since it was started, added up."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.verdict import Outcome
from penstock.jobs.report.bounded_counter import BoundedCounter
from penstock.jobs.report.counts import REASONS_KEPT, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.jobs.tasks.writing_task import WritingResult
    from penstock.kafka.cluster.ranges import Partition


class StreamOutcome(NamedTuple):
    """What became of records, and by which policy; its name is empty where it is not known."""

    topic: str
    policy: str
    outcome: str


@dataclass
class StreamFigures:
    """Figures that a single thread writes and any thread may read while it holds `lock`.

    Attributes:
        records: Records by topic, policy and outcome. The sum over the policies is exact; a policy
            is empty where records were accepted, or where there were too many reasons to keep.
        outcomes: Records by outcome.
        reasons: Records that were not accepted, by reason.
        removed: Offsets that were removed before they were read, by topic.
        batches: Micro-batches.
        seconds: What they took, in all.
        last_at: When the last micro-batch was done, in seconds since the epoch; 0 for none.
        looked_at: When new records were last looked for; 0 for never.
        behind: Offsets that partitions are behind.
        unavailable: Partitions that could not be read last time.
    """

    records: Counter[StreamOutcome] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: BoundedCounter[Reason] = field(default_factory=lambda: BoundedCounter(REASONS_KEPT))
    removed: Counter[str] = field(default_factory=Counter)
    batches: int = 0
    seconds: float = 0.0
    last_at: float = 0.0
    looked_at: float = 0.0
    behind: Mapping[Partition, int] = field(default_factory=dict)
    unavailable: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def lag(self) -> int:
        """How many offsets the stream is behind, in all."""
        return sum(self.behind.values())

    def add(self, result: WritingResult, seconds: float, now: float) -> None:
        """Add a micro-batch.

        Args:
            result: What it did.
            seconds: How long it took.
            now: The time, in seconds since the epoch.
        """
        with self.lock:
            for key, count in _by_policy(result):
                self.records[key] += count
            self.outcomes.update(result.counts.outcomes)
            self.reasons.merge(result.counts.reasons)
            self.removed.update(result.removed)
            self.batches += 1
            self.seconds += seconds
            self.last_at = now

    def look(self, behind: Mapping[Partition, int], unavailable: int, now: float) -> None:
        """Record the result of a request to the cluster.

        Args:
            behind: Offsets that partitions are behind.
            unavailable: How many of them could not be read.
            now: The time, in seconds since the epoch.
        """
        with self.lock:
            self.behind, self.unavailable, self.looked_at = behind, unavailable, now


def _by_policy(result: WritingResult) -> Iterator[tuple[StreamOutcome, int]]:
    remaining_counts = {
        (topic, outcome): count
        for topic, outcomes in result.outcomes.items()
        for outcome, count in outcomes.items()
    }
    for reason, count in result.counts.reasons.items():
        if reason.outcome != Outcome.ACCEPTED.value:
            remaining_counts[reason.topic, reason.outcome] -= count
            yield StreamOutcome(reason.topic, reason.policy or "", reason.outcome), count
    for (topic, outcome), count in remaining_counts.items():
        if count:
            yield StreamOutcome(topic, "", outcome), count

"""What a task counts, and how its counts outlast it.

With each position a task commits its counts so far, in the same transaction: as the text that Kafka
keeps with a committed offset. So the counts are those of visible records, without failed
attempts, and a task that continues elsewhere continues with them.

That text has 4,096 bytes. Numbers by outcome always fit. Reasons are written in the order of
their frequency, as many as fit; the sum of the others is kept as one number, `left_out`. So after
a task was interrupted, a reason's count is never too high, and the sum is right.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from penstock.jobs.report.bounded_counter import BoundedCounter
from penstock.jobs.report.counts import REASONS_KEPT, Reason

if TYPE_CHECKING:
    from penstock.engine.verdict import PolicyVerdict

_VERSION: Final = 1
METADATA_MAX: Final = 4096
"""The default of brokers' `offset.metadata.max.bytes`."""
_RESERVED: Final = 64
"""Bytes for the id of the run, which is committed with the text."""


@dataclass
class TaskCounts:
    """Counts of records of one source partition.

    Attributes:
        outcomes: Records by what became of them; exact.
        reasons: Records that were not accepted, by reason.
        removed: Offsets that retention removed before they were read.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: BoundedCounter[Reason] = field(default_factory=lambda: BoundedCounter(REASONS_KEPT))
    removed: int = 0

    def add_reason(self, topic: str, verdict: PolicyVerdict) -> None:
        """Count why a record of a topic was not accepted."""
        self.reasons.add(
            Reason(topic, verdict.outcome.value, verdict.policy, verdict.code, verdict.message)
        )

    def plus(self, other: TaskCounts) -> TaskCounts:
        """Return the sum of two."""
        total = TaskCounts(Counter(self.outcomes), removed=self.removed + other.removed)
        total.outcomes.update(other.outcomes)
        total.reasons.merge(self.reasons)
        total.reasons.merge(other.reasons)
        return total


@dataclass(frozen=True)
class KeptCounts:
    """Counts as they are kept with a position.

    Attributes:
        run: What they belong to: counts of another run are not added to.
        since: The offset from which they count.
    """

    run: str
    since: int
    counts: TaskCounts

    def text(self) -> str:
        """Return them as a text of at most 4,032 ASCII characters."""
        content: dict[str, Any] = {
            "version": _VERSION,
            "run": self.run,
            "since": self.since,
            "outcomes": dict(self.counts.outcomes),
            "removed": self.counts.removed,
            "left_out": self.counts.reasons.total(),
            "reasons": [],
        }
        room = METADATA_MAX - _RESERVED - len(json.dumps(content))
        ordered, _ = self.counts.reasons.most_common(len(self.counts.reasons))
        for reason, count in ordered:
            row = [*reason, count]
            size = len(json.dumps(row)) + 2
            if size <= room:
                room -= size
                content["reasons"].append(row)
                content["left_out"] -= count
        return json.dumps(content)


def read_counts(text: str, run: str) -> KeptCounts | None:
    """Return the counts that were kept with a position; None if there are none of the run.

    Somebody who moves a position with Kafka's tools removes them.

    Args:
        text: The metadata of a committed offset.
        run: The run of the counts.
    """
    try:
        content = json.loads(text)
        if content["version"] != _VERSION or content["run"] != run:
            return None
        counts = TaskCounts(Counter(_numbers(content["outcomes"])), removed=int(content["removed"]))
        for topic, outcome, policy, code, message, count in content["reasons"]:
            counts.reasons.add(Reason(topic, outcome, policy, code, message), int(count))
        counts.reasons.left_out = int(content["left_out"])
        return KeptCounts(run, int(content["since"]), counts)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _numbers(counts: dict[str, Any]) -> dict[str, int]:
    return {name: int(count) for name, count in counts.items()}

"""The counts of a task outlast it: each position is committed with the counts so far.

They are committed in the transaction of the position, as the text that Kafka keeps with a
committed offset. So they are those of visible records, without failed attempts, and a task that
continues elsewhere continues with them.

That text has 4,096 bytes. Numbers by outcome always fit. Reasons are written in the order of
their frequency, as many as fit; the sum of the others is kept as one number, `left_out`. So after
a task was interrupted, a reason's count is never too high, and the sum is right.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.jobs.report.counts import Reason, RecordCounts

if TYPE_CHECKING:
    from penstock.kafka.cluster.ranges import Partition

_VERSION: Final = 1
METADATA_MAX: Final = 4096
"""The default of brokers' `offset.metadata.max.bytes`."""
_RESERVED: Final = 64
"""Bytes for the id of the run, which is committed with the text."""


@dataclass(frozen=True)
class CommittedCounts:
    """Counts as they are committed with a position.

    Attributes:
        run: What they belong to: counts of another run are not added to.
        start: The offset from which they count.
        counts: Of the records of the partition of the position.
    """

    run: str
    start: int
    counts: RecordCounts

    def text(self) -> str:
        """Return them as a text of at most 4,032 ASCII characters."""
        content: dict[str, Any] = {
            "version": _VERSION,
            "run": self.run,
            "since": self.start,
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


def read_counts(text: str, run: str, partition: Partition) -> CommittedCounts | None:
    """Return the counts that were committed with a position; None if there are none of the run.

    Somebody who moves a position with Kafka's tools removes them.

    Args:
        text: The metadata of a committed offset.
        run: The run of the counts.
        partition: The partition of the position.
    """
    try:
        content = json.loads(text)
        if content["version"] != _VERSION or content["run"] != run:
            return None
        counts = RecordCounts()
        counts.add_outcomes(partition, _numbers(content["outcomes"]))
        counts.add_removed(partition, int(content["removed"]))
        for topic, outcome, policy, code, message, count in content["reasons"]:
            counts.reasons.add(Reason(topic, outcome, policy, code, message), int(count))
        counts.reasons.left_out = int(content["left_out"])
        return CommittedCounts(run, int(content["since"]), counts)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _numbers(counts: dict[str, Any]) -> dict[str, int]:
    return {name: int(count) for name, count in counts.items()}

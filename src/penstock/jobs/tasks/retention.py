"""What of the planned offsets was not there any more when it was to be read.

Retention and `kafka-delete-records` remove records while a job runs. A reader reports which offsets
the log did not have any more. Offsets that no task reports are lost as well: nothing counts as
read by default.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.errors import UnavailableError
from penstock.kafka.client.errors import TruncatedError
from penstock.kafka.cluster.ranges import OffsetRange, without

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.kafka.cluster.ranges import Partition

_NAMED_MAX: Final = 3


class RangeResult(NamedTuple):
    """What a task read of a range.

    Attributes:
        offsets: The range, as it was planned.
        gaps: What of the range the log did not have any more.
    """

    offsets: OffsetRange
    gaps: tuple[OffsetRange, ...] = ()


class RecordsLostError(UnavailableError):
    """Records of the range were removed before they were read, and `--strict` was given."""


def log_was_cut(partition: Partition, end: int, position: int) -> TruncatedError:
    """Return the error for a log that ends before the position that a job has come to.

    Args:
        partition: Whose log it is.
        end: The offset after the last of the log.
        position: The position of the job, larger than `end`.
    """
    return TruncatedError(
        f"{partition}: the log ends at offset {end}, before {position}, the position of the job: "
        "an unclean election, or the topic was created again; set the position of its group "
        "with kafka-consumer-groups, or begin again with --job NEW_ID"
    )


@dataclass
class Coverage:
    """The planned ranges, and the parts that were read.

    Attributes:
        ranges: The ranges of the run.
        results: The ranges that its tasks read: a range that is read again counts once.
    """

    ranges: tuple[OffsetRange, ...]
    results: dict[OffsetRange, RangeResult] = field(default_factory=dict)

    def add(self, results: Iterable[RangeResult]) -> None:
        """Count the ranges that a task read; replace an earlier result of a range."""
        self.results |= {result.offsets: result for result in results}

    @property
    def lost(self) -> tuple[OffsetRange, ...]:
        """The planned offsets that were not read, by topic, partition and offset."""
        read_ranges = (without((result.offsets,), result.gaps) for result in self.results.values())
        return without(self.ranges, chain.from_iterable(read_ranges))

    def text(self) -> str | None:
        """Return the lost offsets, as a line for a user; None if there are none."""
        gaps = self.lost
        if not gaps:
            return None
        offsets = sum(gap.offsets for gap in gaps)
        named = ", ".join(map(str, gaps[:_NAMED_MAX]))
        more = len(gaps) - _NAMED_MAX
        return (
            f"{offsets:,} offsets of {len({gap.of for gap in gaps}):,} partitions were removed "
            f"before they were read (retention, or the topic was created again): {named}"
            + (f" and {more:,} more ranges" if more > 0 else "")
        )

    def check(self) -> None:
        """Check that nothing was lost, for `--strict`.

        Raises:
            RecordsLostError: Something was.
        """
        text = self.text()
        if text is not None:
            raise RecordsLostError(f"{text}; run again with a later --from, or without --strict")

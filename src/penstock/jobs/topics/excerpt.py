"""Which offsets are read where there are more than may be: pieces, spread over all of the time.

The newest records alone would leave out records that are produced once a night, and complete
partitions alone the producers of the others.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.kafka.cluster.ranges import OffsetRange

RECORDS_MAX: Final = 1_000_000
"""The default limit of offsets that are read: a few seconds of work."""
PIECE_OFFSETS: Final = 1000
"""A piece is a separate request: larger pieces are read faster, smaller pieces show more."""


class Piece(NamedTuple):
    """Offsets to read.

    Attributes:
        is_first: Whether it begins where the records of its partition do. The first batch counts
            then even if it begins before; others are those of the piece in which they begin, so
            that a batch is never read twice, and large batches are not read more often than others.
    """

    range: OffsetRange
    is_first: bool


class Excerpt(NamedTuple):
    """The ranges to read.

    Attributes:
        pieces: The ranges, in this order.
        is_whole: Whether these are all records.
    """

    pieces: tuple[Piece, ...]
    is_whole: bool


def excerpt(ranges: Sequence[OffsetRange], offsets_max: int) -> Excerpt:
    """Return the excerpt of ranges, one of each partition.

    Each partition has its share, at least one piece. The pieces of an incomplete excerpt
    come in an order without a pattern, the same each time: a reader that stops early has seen
    records of all partitions and all of the time.

    Args:
        ranges: Everything.
        offsets_max: The most offsets that are read, except for a piece of each partition.
    """
    nonempty_ranges = [offset_range for offset_range in sorted(ranges) if offset_range.offsets]
    total = sum(offset_range.offsets for offset_range in nonempty_ranges)
    if total <= offsets_max:
        return Excerpt(
            tuple(Piece(offset_range, is_first=True) for offset_range in nonempty_ranges),
            is_whole=True,
        )
    pieces = []
    for offset_range in nonempty_ranges:
        share = offset_range.offsets * offsets_max // total
        count = max(share // PIECE_OFFSETS, 1)
        size = min(PIECE_OFFSETS, offset_range.offsets)
        for number in range(count):
            start = offset_range.start + (offset_range.offsets - size) * number // max(count - 1, 1)
            part = offset_range._replace(start=start, end=start + size)
            pieces.append(Piece(part, is_first=start == offset_range.start))
    random.Random(0).shuffle(pieces)  # noqa: S311 - a fixed order without a pattern
    return Excerpt(tuple(pieces), is_whole=False)

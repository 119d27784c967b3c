"""Offset ranges: what of a partition is read. Values only, for the driver and the executors."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Partition(NamedTuple):
    """One partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


class OffsetRange(NamedTuple):
    """The offsets of a partition from `start` up to, and without, `end`.

    The number of offsets is the most that there can be of records: compaction, transactions
    and their markers leave gaps.
    """

    topic: str
    partition: int
    start: int
    end: int

    @property
    def of(self) -> Partition:
        """The partition."""
        return Partition(self.topic, self.partition)

    @property
    def offsets(self) -> int:
        """The number of offsets."""
        return max(self.end - self.start, 0)

    def __str__(self) -> str:
        return f"{self.topic} {self.partition}:{self.start}-{self.end}"


def by_topic(ranges: Iterable[OffsetRange]) -> Mapping[str, Mapping[int, tuple[int, int]]]:
    """Return ranges, one of each partition, as start and end by topic and partition."""
    bounds: dict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
    for offset_range in ranges:
        bounds[offset_range.topic][offset_range.partition] = (offset_range.start, offset_range.end)
    return dict(bounds)


def without(whole: Iterable[OffsetRange], parts: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """Return what of some ranges no part covers, in the order of topics, partitions and offsets.

    Args:
        whole: Ranges that do not overlap.
        parts: Ranges that may overlap, and reach beyond.
    """
    covering: dict[Partition, list[OffsetRange]] = defaultdict(list)
    for part in parts:
        covering[part.of].append(part)
    for partition_parts in covering.values():
        partition_parts.sort()
    remainder = []
    for offset_range in sorted(whole):
        position = offset_range.start
        for part in covering[offset_range.of]:
            if part.start >= offset_range.end:
                break
            if part.start > position:
                remainder.append(offset_range._replace(start=position, end=part.start))
            position = max(position, part.end)
        if position < offset_range.end:
            remainder.append(offset_range._replace(start=position))
    return tuple(remainder)

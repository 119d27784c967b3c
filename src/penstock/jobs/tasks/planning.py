"""Cuts offset ranges into tasks: a task is some ranges, about as much work as another task.

A large partition becomes many tasks, and small partitions share a task. If order is promised, a
partition is never cut: complete partitions share tasks. The same ranges always become the same
tasks.

Work is counted in bytes: those of the records, an allowance for each record and for each
range (a separate fetch). If sizes are not known, records count as `Sizes.default_bytes`.
"""

from __future__ import annotations

import heapq
import math
import struct
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.kafka.client.reading.offset_ranges import WantedRange
from penstock.kafka.cluster.ranges import OffsetRange, Partition
from penstock.kafka.wire.names import NO_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from uuid import UUID

TASKS_PER_CORE: Final = 4
"""So many that a slow task does not leave the other cores idle for long at the end."""
WORK_MIN: Final = 8 * 2**20
"""A task of less work would be mostly overhead of Spark."""
WORK_MAX: Final = 256 * 2**20
"""A task of more would be long to repeat, and progress would be seen rarely."""
TASKS_MAX: Final = 20_000
"""Beyond it tasks grow instead: Spark's driver takes about a millisecond for each."""
RECORD_WORK: Final = 100
"""The bytes whose reading takes as long as judging a record takes at least."""
RANGE_WORK: Final = 64 * 2**10
"""The bytes that are read in the time of finding an offset."""
_RANGE: Final = struct.Struct("<IIqq")
_COUNT: Final = struct.Struct("<I")


@dataclass(frozen=True)
class Sizes:
    """How large records are.

    Attributes:
        offset_bytes: Stored bytes of an offset, on average, by partition.
        default_bytes: Those of an offset in other partitions.
    """

    offset_bytes: Mapping[Partition, float] = field(default_factory=dict)
    default_bytes: float = 1000.0

    def bytes_of(self, offset_range: OffsetRange) -> float:
        """Return about how many bytes of records are stored in a range."""
        return offset_range.offsets * self.offset_bytes.get(offset_range.of, self.default_bytes)


@dataclass(frozen=True)
class Limit:
    """The most of a task, or of a micro-batch. A single offset that exceeds it is a task.

    Attributes:
        records: Of records; offsets are counted, so there can be fewer records.
        bytes: Of stored bytes, as far as sizes are known.
    """

    records: int | None = None
    bytes: int | None = None

    def offsets(self, bytes_per_offset: float) -> int | None:
        """Return the most offsets of a partition with records of this size; None: any."""
        limits = [] if self.records is None else [self.records]
        if self.bytes is not None:
            limits.append(int(self.bytes / bytes_per_offset) if bytes_per_offset else 2**63)
        return max(min(limits), 1) if limits else None


class Task(NamedTuple):
    """What one task reads, in this order."""

    ranges: tuple[OffsetRange, ...]

    def wanted(self, topic_ids: Mapping[str, UUID]) -> Iterator[WantedRange]:
        """Yield its ranges as `RangeReader` reads them; a topic that is not named has no id."""
        for offset_range in self.ranges:
            yield WantedRange(*offset_range, topic_ids.get(offset_range.topic, NO_ID))


def plan_tasks(
    ranges: Iterable[OffsetRange],
    *,
    cores: int,
    sizes: Sizes | None = None,
    ordered: bool = False,
    limit: Limit | None = None,
    at_once: bool = False,
) -> tuple[Task, ...]:
    """Cut ranges into tasks.

    Args:
        ranges: The ranges to read; empty ranges are left out.
        cores: How many tasks run at a time.
        sizes: How large the records are, as far as that is known.
        ordered: Keep each partition in one task, in order: where its records are written
            in the order they are read in.
        limit: The most of a task. Not with `ordered`: take a bounded part of the ranges with
            `next_batch` first.
        at_once: Cut for one task on each core, however small: if not reading takes long, but
            for example transactions.

    Returns:
        The tasks, those with the most work first.

    Raises:
        ValueError: `cores` is less than 1, or a limit is given for ordered tasks.
    """
    if cores < 1:
        raise ValueError("cores must be 1 or more")
    if ordered and limit is not None:
        raise ValueError("a partition in order is one task; bound the batch with next_batch")
    sizes, limit = sizes or Sizes(), limit or Limit()
    pieces = sorted(offset_range for offset_range in ranges if offset_range.offsets)
    if not pieces:
        return ()
    total = sum(_work(piece, sizes) for piece in pieces)
    parts, least = (cores, 0) if at_once else (cores * TASKS_PER_CORE, WORK_MIN)
    target = min(max(total / parts, least), WORK_MAX)
    target = max(target, total / TASKS_MAX)
    if not ordered:
        pieces = [part for piece in pieces for part in _cut(piece, sizes, limit, target)]
    tasks = _packed(pieces, sizes, limit, max(math.ceil(total / target), 1), ordered=ordered)
    return tuple(task for _, task in sorted((-work, task) for work, task in tasks))


def next_batch(
    ranges: Iterable[OffsetRange], limit: Limit, *, sizes: Sizes | None = None
) -> tuple[tuple[OffsetRange, ...], tuple[OffsetRange, ...]]:
    """Take the next micro-batch from the beginnings of ranges.

    Every partition with records has a share in proportion to its records, so none starves
    and all come to their end together; at least one offset, so a batch can have one
    offset of each partition more than `limit`.

    Args:
        ranges: The ranges that are left, one of each partition.
        limit: The most of the batch.
        sizes: How large the records are, as far as that is known.

    Returns:
        The batch, and the ranges that are left.
    """
    sizes = sizes or Sizes()
    nonempty_ranges = sorted(offset_range for offset_range in ranges if offset_range.offsets)
    share = 1.0
    if limit.records is not None:
        share = min(
            share,
            limit.records / max(sum(offset_range.offsets for offset_range in nonempty_ranges), 1),
        )
    if limit.bytes is not None:
        share = min(share, limit.bytes / max(sum(map(sizes.bytes_of, nonempty_ranges)), 1.0))
    batch, rest = [], []
    for offset_range in nonempty_ranges:
        middle = offset_range.start + max(int(offset_range.offsets * share), 1)
        batch.append(offset_range._replace(end=middle))
        if middle < offset_range.end:
            rest.append(offset_range._replace(start=middle))
    return tuple(batch), tuple(rest)


class PackedTasks:
    """Tasks as bytes, for the closure of `spark.range(len(tasks)).mapInArrow`.

    A worker gets them once, and decodes the task whose number is in its row.
    """

    def __init__(self, tasks: Sequence[Task]) -> None:
        """Encode tasks: 24 bytes for each range, and each topic's name once."""
        topics: dict[str, int] = {}
        ends, content = [], bytearray()
        for task in tasks:
            for offset_range in task.ranges:
                number = topics.setdefault(offset_range.topic, len(topics))
                content += _RANGE.pack(
                    number, offset_range.partition, offset_range.start, offset_range.end
                )
            ends.append(len(content) // _RANGE.size)
        self._topics = tuple(topics)
        self._ends = b"".join(map(_COUNT.pack, ends))
        self._content = bytes(content)

    def __len__(self) -> int:
        """Return the number of tasks."""
        return len(self._ends) // _COUNT.size

    def __getitem__(self, number: int) -> Task:
        """Decode a task.

        Raises:
            IndexError: There is no task of this number.
        """
        if not 0 <= number < len(self):
            raise IndexError(f"there is no task {number}")
        start = self._end(number - 1) if number else 0
        ranges = []
        for index in range(start, self._end(number)):
            topic, partition, first, end = _RANGE.unpack_from(self._content, index * _RANGE.size)
            ranges.append(OffsetRange(self._topics[topic], partition, first, end))
        return Task(tuple(ranges))

    def _end(self, number: int) -> int:
        end: int = _COUNT.unpack_from(self._ends, number * _COUNT.size)[0]
        return end


def _work(offset_range: OffsetRange, sizes: Sizes) -> float:
    return RANGE_WORK + sizes.bytes_of(offset_range) + offset_range.offsets * RECORD_WORK


def _cut(
    offset_range: OffsetRange, sizes: Sizes, limit: Limit, target: float
) -> Iterator[OffsetRange]:
    """Cut a range into parts of equal numbers of offsets, none with more work than the target."""
    parts = math.ceil((_work(offset_range, sizes) - RANGE_WORK) / target)
    most = limit.offsets(sizes.bytes_of(offset_range) / offset_range.offsets)
    if most is not None:
        parts = max(parts, math.ceil(offset_range.offsets / most))
    parts = min(parts, offset_range.offsets)
    for part in range(parts):
        start = offset_range.start + offset_range.offsets * part // parts
        yield offset_range._replace(
            start=start, end=offset_range.start + offset_range.offsets * (part + 1) // parts
        )


class _Bin:
    """A task that is being packed."""

    def __init__(self) -> None:
        self.work = 0.0
        self.records = 0
        self.bytes = 0.0
        self.ranges: list[OffsetRange] = []

    def takes(self, piece: OffsetRange, sizes: Sizes, limit: Limit) -> bool:
        if not self.ranges:
            return True
        records, size = self.records + piece.offsets, self.bytes + sizes.bytes_of(piece)
        return (limit.records is None or records <= limit.records) and (
            limit.bytes is None or size <= limit.bytes
        )

    def add(self, piece: OffsetRange, sizes: Sizes) -> None:
        self.ranges.append(piece)
        self.work += _work(piece, sizes)
        self.records += piece.offsets
        self.bytes += sizes.bytes_of(piece)


def _packed(
    pieces: Sequence[OffsetRange], sizes: Sizes, limit: Limit, count: int, *, ordered: bool
) -> Iterator[tuple[float, Task]]:
    """Pack ranges, the largest first, each into the task with the least work so far.

    That is at most a third more than the best packing has in its largest task. Where a limit
    forbids the task with the least work, there is one more task.
    """
    groups: dict[object, list[OffsetRange]] = defaultdict(list)
    for piece in pieces:
        groups[piece.of if ordered else piece].append(piece)
    by_work = sorted(groups.values(), key=lambda some: (-sum(_work(o, sizes) for o in some), some))
    bins = [(0.0, number, _Bin()) for number in range(min(count, len(by_work)))]
    full = []
    for some in by_work:
        _, number, lightest = bins[0]
        if not all(lightest.takes(piece, sizes, limit) for piece in some):
            full.append(lightest)
            number, lightest = number + len(by_work), _Bin()
        for piece in some:
            lightest.add(piece, sizes)
        heapq.heapreplace(bins, (lightest.work, number, lightest))
    for packed_bin in [*full, *(load for *_, load in bins)]:
        if packed_bin.ranges:
            yield packed_bin.work, Task(tuple(sorted(packed_bin.ranges)))

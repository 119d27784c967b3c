"""The progress of a stream in its topics, and its next micro-batch. It needs no cluster.

A failed range is tried again with its offsets and with the owner of its counts: its committed
part is then neither written nor counted again. Other partitions continue meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.jobs.tasks.planning import next_batch
from penstock.jobs.tasks.retention import log_was_cut
from penstock.kafka.cluster.ranges import OffsetRange, Partition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from penstock.jobs.tasks.planning import Limit
    from penstock.jobs.tasks.writing_task import WritingResult

KEPT_FOR_S: Final = 43_200.0
"""How long a position is left alone: much shorter than brokers keep it (7 days)."""
KEPT_AT_ONCE: Final = 500
_SHORTER_FOR_S: Final = 60.0
"""After an election the end of a log may be reported too low for a moment."""


class MicroBatch(NamedTuple):
    """A micro-batch.

    Attributes:
        number: Its number, from 0.
        ranges: The ranges to read, one of each partition.
        kept: Empty ranges: positions that are committed again, so that brokers keep them.
        counted_as: What the counts of ranges belong to that an earlier micro-batch began.
    """

    number: int
    ranges: tuple[OffsetRange, ...]
    kept: tuple[OffsetRange, ...]
    counted_as: Mapping[Partition, str]


@dataclass
class _StreamPartition:
    """A partition of a stream.

    Attributes:
        position: The next offset to read.
        end: The offset after the last that can be read, as far as is known.
        until: Where the stream ends; None for a stream that does not.
        kept_at: When the position was committed.
        begun: The range that failed, and the owner of its counts.
        shorter_since: Since when the log ends before the position.
    """

    position: int
    end: int
    kept_at: float
    until: int | None = None
    begun: tuple[OffsetRange, str] | None = None
    shorter_since: float | None = None

    @property
    def last(self) -> int:
        return self.end if self.until is None else min(self.end, self.until)

    @property
    def behind(self) -> int:
        return max(self.last - self.position, 0)


class StreamOffsets:
    """The positions of a stream's partitions."""

    def __init__(self, run: str, *, available_now: bool = False) -> None:
        """Start without partitions.

        Args:
            run: The id of the run.
            available_now: End where the logs end at the first request.
        """
        self._run = run
        self._available_now = available_now
        self._number = 0
        self._partitions: dict[Partition, _StreamPartition] = {}
        self._waiting: set[Partition] = set()

    def add(self, partition: Partition, position: int, *, kept_at: float = float("-inf")) -> None:
        """Add a partition.

        Args:
            position: The next offset to read.
            kept_at: When the position was committed; at no time unless given.
        """
        self._partitions[partition] = _StreamPartition(position, position, kept_at)
        if self._available_now:
            self._waiting.add(partition)

    def drop(self, topic: str) -> None:
        """Forget the partitions of a topic."""
        self._waiting = {partition for partition in self._waiting if partition.topic != topic}
        self._partitions = {
            partition: state
            for partition, state in self._partitions.items()
            if partition.topic != topic
        }

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._partitions

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The partitions."""
        return tuple(self._partitions)

    @property
    def behind(self) -> Mapping[Partition, int]:
        """How many offsets each partition is behind its end."""
        return {partition: state.behind for partition, state in self._partitions.items()}

    @property
    def is_at_end(self) -> bool:
        """Whether a stream that ends has come to its end."""
        return not self._waiting and not any(
            state.behind or state.begun for state in self._partitions.values()
        )

    def learn(self, ends: Mapping[Partition, int], now: float) -> None:
        """Take note of where logs end.

        Args:
            ends: The offset after the last that can be read, by partition.
            now: The time, in seconds.

        Raises:
            TruncatedError: A log has ended before the position for a minute.
        """
        for partition, end in ends.items():
            state = self._partitions[partition]
            if partition in self._waiting:
                self._waiting.discard(partition)
                state.until = end
            state.end = end
            if end >= state.position:
                state.shorter_since = None
            elif state.shorter_since is None:
                state.shorter_since = now
            elif now - state.shorter_since >= _SHORTER_FOR_S:
                raise log_was_cut(partition, end, state.position)

    def pending(self, available: Iterable[Partition]) -> tuple[Partition, ...]:
        """Return those of some partitions that have offsets to read."""
        return tuple(
            partition
            for partition in available
            if self._partitions[partition].behind and not self._partitions[partition].begun
        )

    def next(
        self,
        available: Collection[Partition],
        starts: Mapping[Partition, int],
        limit: Limit,
        now: float,
    ) -> MicroBatch | None:
        """Return the next micro-batch; None if there is nothing to do.

        Args:
            available: The partitions that can be read now.
            starts: Where the logs of pending partitions start. Records that were removed before are
                in the micro-batch, and do not count for its limit.
            limit: The most of new ranges.
            now: The time, in seconds.
        """
        there, gone = [], []
        for partition in self.pending(available):
            state = self._partitions[partition]
            first = max(state.position, starts.get(partition, 0))
            whole = OffsetRange(partition.topic, partition.number, first, state.last)
            if whole.offsets:
                there.append(whole)
            else:
                gone.append(whole._replace(start=state.position))
        next_ranges, _ = next_batch(there, limit)
        ranges = [
            piece._replace(start=self._partitions[piece.of].position) for piece in next_ranges
        ]
        begun_ranges = [
            begun_range
            for partition in available
            if (begun_range := self._partitions[partition].begun)
        ]
        kept_ranges = self._kept(
            available, {offset_range.of for offset_range in (*ranges, *gone)}, now
        )
        ranges = [*(offset_range for offset_range, _ in begun_ranges), *ranges, *gone]
        if not ranges and not kept_ranges:
            return None
        counted_as = {offset_range.of: name for offset_range, name in begun_ranges}
        return MicroBatch(self._number, tuple(ranges), kept_ranges, counted_as)

    def _kept(
        self, available: Iterable[Partition], written_partitions: Collection[Partition], now: float
    ) -> tuple[OffsetRange, ...]:
        due_ranges = []
        for partition in available:
            state = self._partitions[partition]
            is_due = now - state.kept_at >= KEPT_FOR_S
            if is_due and partition not in written_partitions and state.begun is None:
                due_ranges.append(
                    OffsetRange(partition.topic, partition.number, state.position, state.position)
                )
                if len(due_ranges) == KEPT_AT_ONCE:
                    break
        return tuple(due_ranges)

    def first(self) -> MicroBatch:
        """Return a micro-batch that reads nothing, and commits all positions."""
        kept_ranges = (
            OffsetRange(*partition, state.position, state.position)
            for partition, state in self._partitions.items()
        )
        return MicroBatch(self._number, (), tuple(kept_ranges), {})

    def counted_as(self, batch: MicroBatch) -> str:
        """Return the owner of the counts of a micro-batch."""
        return f"{self._run}:{batch.number}"

    def done(self, batch: MicroBatch, result: WritingResult, now: float) -> bool:
        """Take note of what became of a micro-batch; return whether anything of it was done.

        Args:
            batch: The micro-batch that `next` returned last.
            result: The result of the tasks.
            now: The time, in seconds.
        """
        self._number = batch.number + 1
        unfinished = {Partition(entry.topic, entry.partition): entry for entry in result.unfinished}
        is_any = False
        for offset_range in (*batch.ranges, *batch.kept):
            state, unfinished_range = (
                self._partitions[offset_range.of],
                unfinished.get(offset_range.of),
            )
            if unfinished_range is None or unfinished_range.offset is not None:
                state.position = (
                    offset_range.end if unfinished_range is None else unfinished_range.offset or 0
                )
                state.begun, state.kept_at = None, now
                is_any = True
            elif unfinished_range.reason and offset_range.offsets:
                name = batch.counted_as.get(offset_range.of, self.counted_as(batch))
                state.begun = (offset_range, name)
        return is_any

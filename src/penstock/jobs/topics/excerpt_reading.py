"""Reads an excerpt: stored batches, as their producers would send them.

That takes another header: stored batches have an offset, and perhaps the broker's time. Where
compaction left gaps, the records that are left are written as one batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.kafka.client.reading.batches import read_fetched_batch
from penstock.kafka.client.reading.offset_ranges import WantedRange
from penstock.kafka.client.reading.reader import RangeReader
from penstock.kafka.records.errors import UnreadableRecords
from penstock.kafka.records.header import as_produced, is_intact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from uuid import UUID

    from penstock.jobs.topics.excerpt import Piece
    from penstock.kafka.client.reading.batches import FetchedBatch
    from penstock.kafka.client.reading.offset_ranges import LostOffsets
    from penstock.kafka.client.reading.reader import ReadingConnection

    Read = Callable[[Piece], Iterable[FetchedBatch]]


class ReadBatch(NamedTuple):
    """A batch of a topic.

    Attributes:
        data: As a producer sends it; None if it cannot be read.
        record_count: How many records it has.
        stored_bytes: How large it is in the log.
        offsets: Of its records.
    """

    topic: str
    partition: int
    data: bytes | None
    record_count: int
    stored_bytes: int
    offsets: Sequence[int]

    def offset_of(self, index: int) -> int:
        """Return the offset of one of its records."""
        return self.offsets[index] if index < len(self.offsets) else self.offsets[-1]


def reader_of(
    cluster: ReadingConnection,
    topic_ids: Mapping[str, UUID],
    on_lost: Callable[[LostOffsets], None],
) -> Read:
    """Return the reader of the batches of a piece.

    Args:
        cluster: A `penstock.kafka.client.connections.connection.Connection`.
        on_lost: Called with offsets that the log no longer has.
    """

    def read(piece: Piece) -> Iterable[FetchedBatch]:
        offsets = WantedRange(*piece.range, topic_ids[piece.range.topic])
        return RangeReader(cluster, offsets, on_lost=on_lost)

    return read


class Reading:
    """Reads pieces, within a limit of bytes that each has its share of.

    Bytes that a piece does not need are left for later pieces.

    Attributes:
        is_cut: Whether the limit of bytes left anything unread.
    """

    def __init__(
        self, pieces: Sequence[Piece], reader: Read, bytes_max: int, *, max_decompressed_bytes: int
    ) -> None:
        """Prepare; nothing is read.

        Args:
            pieces: The ranges to read.
            reader: See `reader_of`.
            bytes_max: The most stored bytes, but for one batch of each piece.
            max_decompressed_bytes: Of a batch that has to be rewritten.
        """
        self.is_cut = False
        self._pieces = pieces
        self._reader = reader
        self._left_bytes = bytes_max
        self._left_offsets = sum(piece.range.offsets for piece in pieces)
        self._max_decompressed_bytes = max_decompressed_bytes

    def __iter__(self) -> Iterator[ReadBatch]:
        """Return the batches, in the order of the pieces.

        Raises:
            ClientError: The cluster cannot be reached in time, or refuses.
            UnreadableBatchError: The end of a damaged batch is unknown.
        """
        for piece in self._pieces:
            share = self._left_bytes * piece.range.offsets // self._left_offsets
            self._left_offsets -= piece.range.offsets
            piece_bytes = 0
            for fetched in self._reader(piece):
                if fetched.base_offset < piece.range.start and not piece.is_first:
                    continue
                batch = _as_produced(piece, fetched, self._max_decompressed_bytes)
                piece_bytes += batch.stored_bytes
                yield batch
                if piece_bytes >= share:
                    self.is_cut |= fetched.last_offset + 1 < piece.range.end
                    break
            self._left_bytes = max(self._left_bytes - piece_bytes, 0)


def _as_produced(piece: Piece, fetched: FetchedBatch, max_decompressed_bytes: int) -> ReadBatch:
    topic, partition, *_ = piece.range
    size, count = len(fetched.data), fetched.record_count
    offsets: Sequence[int] = range(fetched.base_offset, fetched.last_offset + 1)
    if count == len(offsets) and is_intact(fetched.data):
        data = b"".join(as_produced(fetched.data))
        return ReadBatch(topic, partition, data, count, size, offsets)
    whole = fetched._replace(first=fetched.base_offset, end=fetched.last_offset + 1)
    try:
        batch = read_fetched_batch(whole, max_decompressed_bytes=max_decompressed_bytes)
        data = batch.cut(range(len(batch.records)))
    except (UnreadableRecords, ValueError):
        return ReadBatch(topic, partition, None, max(min(count, len(offsets)), 1), size, offsets)
    return ReadBatch(topic, partition, data, len(batch.records), size, batch.offsets)

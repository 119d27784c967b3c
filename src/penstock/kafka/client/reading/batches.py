"""Which batches of a fetch response belong to a range of offsets, and to a reader.

Left out are control batches, batches of aborted transactions, batches without records, and batches
outside the range. A batch with some records in the range is complete; it marks them, and is
cut to them when it is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.kafka.client.errors import UnreadableBatchError
from penstock.kafka.client.reading.legacy import modern_batches
from penstock.kafka.records.batch import MAX_RECORDS
from penstock.kafka.records.header import (
    CONTROL,
    HEADER,
    LENGTH_AT,
    MAGIC,
    MAGIC_AT,
    PREFIX_BYTES,
    TRANSACTIONAL,
    is_intact,
)
from penstock.kafka.records.merged import SmallBatchReader
from penstock.kafka.records.stored_batch import read_stored_batch
from penstock.kafka.wire.primitives import INT32

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.kafka.client.protocol.fetch import AbortedTransaction
    from penstock.kafka.records.merged import MergedRun
    from penstock.kafka.records.stored_batch import StoredBatch
    from penstock.kafka.records.uncompressed import BatchLimits

_ABORT: Final = 0


class FetchedBatch(NamedTuple):
    """A batch of magic 2 as the broker stores it. Its checksum is not checked yet.

    Attributes:
        data: The batch, header included, in the memory of the response.
        readable_behind: How many bytes follow it in that memory.
        first: The first offset that belongs to the range.
        end: The offset after the last that belongs to the range.
        base_offset: Of the header.
        last_offset: Of the header; after compaction there may be no record with it.
        leader_epoch: Of the leader that wrote it.
        attributes: Of the header: codec, timestamp type, transactional.
        base_timestamp: In ms.
        max_timestamp: In ms.
        producer_id: Or -1.
        producer_epoch: Or -1.
        base_sequence: Or -1.
        record_count: How many records it has.
        merged_batch: Where this is small batches that follow each other, all of them, already read
            and checked; the fields are then those of the merged batch, and `data` has all of them.
        largest: The size of the batch, or of the largest batch that was merged.
    """

    data: memoryview
    readable_behind: int
    first: int
    end: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    largest: int
    merged_batch: StoredBatch | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all of its records belong to the range."""
        return self.first <= self.base_offset and self.last_offset < self.end

    @property
    def merged_bytes(self) -> int:
        """How many bytes of merged records are in memory."""
        return 0 if self.merged_batch is None else len(self.merged_batch.data)


def read_fetched_batch(
    fetched: FetchedBatch, *, max_decompressed_bytes: int, max_records: int = MAX_RECORDS
) -> StoredBatch:
    """Read and check a batch; return it with those of its records that belong to the range.

    Args:
        max_decompressed_bytes: The maximum size of the decompressed records, of the complete batch.
        max_records: The maximum number of records, of the complete batch.
            Batches that were merged have been read within the limits of `select`.

    Raises:
        UnreadableRecords: It cannot be read, or is too large.
    """
    if fetched.merged_batch is not None:
        return fetched.merged_batch
    batch = read_stored_batch(
        fetched.data, max_decompressed_bytes=max_decompressed_bytes, max_records=max_records
    )
    return batch if fetched.is_whole else batch.between(fetched.first, fetched.end)


class Selection(NamedTuple):
    """Batches of a response that belong to the range: all of them, or a part.

    Attributes:
        batches: In order.
        position: The offset to continue at.
        leader_epoch: Of the last batch, also if it is left out; -1 if there is none.
        largest: The size of the largest batch of the response until here, in bytes.
        is_last: Whether the response has no other part.
    """

    batches: list[FetchedBatch]
    position: int
    leader_epoch: int
    largest: int
    is_last: bool


def select(
    records: memoryview,
    position: int,
    end: int,
    aborted: Sequence[AbortedTransaction] | None,
    merged_within: BatchLimits | None = None,
) -> Iterator[Selection]:
    """Select the batches of a response.

    Records that are merged are decompressed. When they take as much memory as the response, the
    selection is returned as a part, and the rest is read when the next part is requested. So the
    memory does not depend on how well records are compressed.

    Args:
        records: Batches in sequence; the last may be incomplete.
        position: The first requested offset.
        end: The offset after the last requested offset.
        aborted: The transactions that were aborted; None to read them, too.
        merged_within: Small batches are merged where that costs less than reading each, if they are
            within these limits; None to return each batch.

    Yields:
        At least one part.

    Raises:
        UnreadableBatchError: A batch cannot be read, or nothing is complete.
    """
    transactions = None if aborted is None else _Transactions(aborted)
    selected: list[FetchedBatch] = []
    reached, leader_epoch, largest, merged_bytes = position, -1, 0, 0
    small = None
    if merged_within is not None:
        small = SmallBatchReader(records, merged_within, with_transactions=not aborted)
    for batch in _split(records, position, end, small):
        if batch.base_offset >= end:
            reached = end
            break
        leader_epoch, largest = batch.leader_epoch, max(largest, batch.largest)
        if batch.last_offset < batch.base_offset or position < reached > batch.base_offset:
            raise UnreadableBatchError(batch.base_offset, "its offsets go back")
        if batch.last_offset < position:
            continue
        reached = batch.last_offset + 1
        if _is_read(batch, transactions):
            selected.append(batch)
        if reached >= end:
            break
        merged_bytes += batch.merged_bytes
        if merged_bytes >= len(records) and _ends_with_batch(records, batch.readable_behind):
            yield Selection(selected, reached, leader_epoch, largest, is_last=False)
            selected, merged_bytes = [], 0
    if reached == position and len(records):
        raise UnreadableBatchError(position, "the response holds no complete batch")
    yield Selection(selected, min(reached, end), leader_epoch, largest, is_last=True)


def _ends_with_batch(records: memoryview, size: int) -> bool:
    """Return whether the last so many bytes begin with a complete batch."""
    if size < PREFIX_BYTES:
        return False
    (length,) = INT32.unpack_from(records, len(records) - size + LENGTH_AT)
    return bool(PREFIX_BYTES + length <= size)


def _is_read(batch: FetchedBatch, transactions: _Transactions | None) -> bool:
    if transactions is None:
        is_read = not batch.attributes & CONTROL
    else:
        is_read = transactions.is_committed(batch)
    return is_read and batch.record_count > 0


def _split(
    records: memoryview, position: int, end: int, small: SmallBatchReader | None
) -> Iterator[FetchedBatch]:
    start, size = 0, len(records)
    while start + MAGIC_AT < size:
        (length,) = INT32.unpack_from(records, start + LENGTH_AT)
        stop = start + PREFIX_BYTES + length
        magic = records[start + MAGIC_AT]
        if length <= MAGIC_AT - PREFIX_BYTES:
            raise UnreadableBatchError(position, "its length is wrong")
        if stop > size:
            return
        run = small.read(start, position, end) if small is not None and magic == MAGIC else None
        if run is not None:
            stop = start + run.stored_bytes
            yield _merged(records[start:stop], size - stop, run)
            start = stop
            continue
        data = records[start:stop]
        if magic == MAGIC:
            yield _read_header(data, size - stop, position, end)
        else:
            for modern in modern_batches(data, magic):
                yield _read_header(modern, 0, position, end)
        start = stop


def _read_header(data: memoryview, behind: int, position: int, end: int) -> FetchedBatch:
    if len(data) < HEADER.size:
        raise UnreadableBatchError(position, "its header is incomplete")
    (base_offset, _, leader_epoch, _, _, attributes, last_delta, base_timestamp, max_timestamp,
     producer_id, producer_epoch, base_sequence, count) = HEADER.unpack_from(data)  # fmt: skip
    last_offset = base_offset + last_delta
    return FetchedBatch(
        data,
        behind,
        max(base_offset, position),
        min(last_offset + 1, end),
        base_offset,
        last_offset,
        leader_epoch,
        attributes,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
        len(data),
    )


def _merged(data: memoryview, behind: int, run: MergedRun) -> FetchedBatch:
    batch = run.batch
    return FetchedBatch(
        data,
        behind,
        batch.base_offset,
        batch.last_offset + 1,
        batch.base_offset,
        batch.last_offset,
        run.leader_epoch,
        batch.attributes,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        len(batch.records),
        run.largest,
        batch,
    )


class _Transactions:
    """Which producers are within an aborted transaction, batch after batch (KIP-98)."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._next = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
        self._producers: set[int] = set()

    def is_committed(self, batch: FetchedBatch) -> bool:
        """Return whether a batch holds records that are not aborted.

        Raises:
            UnreadableBatchError: The batch is not to be read, and is damaged.
        """
        while self._next and self._next[-1].first_offset <= batch.last_offset:
            self._producers.add(self._next.pop().producer_id)
        is_control = bool(batch.attributes & CONTROL)
        if not is_control:
            is_aborted = batch.attributes & TRANSACTIONAL and batch.producer_id in self._producers
            if not is_aborted:
                return True
        if not is_intact(batch.data):
            raise UnreadableBatchError(batch.base_offset, "it does not match its checksum")
        if is_control and _is_abort(batch):
            self._producers.discard(batch.producer_id)
        return False


def _is_abort(batch: FetchedBatch) -> bool:
    """Return whether a control batch holds the marker of an abort.

    Its one record: length, attributes, timestamp delta and offset delta, each of a few bytes;
    the length of the key; the key: version and type.
    """
    if not batch.record_count:
        return False  # compacted
    data = batch.data
    try:
        end = _skip_varint(data, HEADER.size) + 1
        for _ in range(3):
            end = _skip_varint(data, end)
        return int.from_bytes(data[end + 2 : end + 4], "big") == _ABORT and end + 4 <= len(data)
    except IndexError:
        raise UnreadableBatchError(batch.base_offset, "its marker cannot be read") from None


def _skip_varint(data: memoryview, position: int) -> int:
    while data[position] > 0x7F:
        position += 1
    return position + 1

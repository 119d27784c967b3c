"""Small batches that are judged together: the cost of judging a batch is paid once for many.

Each record is judged separately, so it does not matter which records are judged with it.
Where records are read natively, most small batches are merged while they are read
(`SmallBatchReader`). The others, and in Python all, are read and then merged (`MergedBatches`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.kafka.records import native
from penstock.kafka.records.encoder import NewHeader, encode
from penstock.kafka.records.header import CODEC, LENGTH_AT, PREFIX_BYTES
from penstock.kafka.records.stored import SmallBatches
from penstock.kafka.records.stored_batch import StoredBatch, read_stored_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.kafka.records.stored import StoredBatches
    from penstock.kafka.records.uncompressed import BatchLimits

_SMALL_BYTES: Final = 16 * 1024
_SMALL_RECORDS: Final = 100
_BYTES: Final = 64 * 1024
_RECORDS: Final = 400
_NEVER: Final = -(2**63)


class MergedRun(NamedTuple):
    """Small batches of a response that follow each other, merged.

    Attributes:
        batch: Their records. Each has the offset, the timestamp and the bytes that it had.
        stored_bytes: How many bytes the batches take in the response.
        largest: How many bytes the largest batch takes.
        leader_epoch: Of the last batch.
    """

    batch: StoredBatch
    stored_bytes: int
    largest: int
    leader_epoch: int


class SmallBatchReader:
    """Reads the small batches of a fetch response as larger batches, where that is possible.

    Only complete batches are merged that can be read, and whose offsets follow each other: there is
    a record for each offset of their headers.
    """

    def __init__(
        self, response: memoryview, limits: BatchLimits, *, with_transactions: bool
    ) -> None:
        """Prepare.

        Args:
            response: Batches in sequence; the last may be incomplete.
            limits: The largest batch that may be read.
            with_transactions: Whether batches of transactions are merged, too.
        """
        self._response = response
        self._limits = SmallBatches(
            min(_SMALL_BYTES, limits.decompressed_bytes),
            min(_SMALL_RECORDS, limits.records),
            min(_BYTES, limits.decompressed_bytes),
            _RECORDS,
        )
        self._with_transactions = with_transactions
        self._merge: StoredBatches | None = None

    def read(self, position: int, first: int, end: int) -> MergedRun | None:
        """Merge the small batches that follow each other from a position on.

        Args:
            position: Of the first batch, in bytes; its length is in the response.
            first: The first batch begins with this offset, or behind it.
            end: The last record is before this offset.

        Returns:
            None where fewer than two batches can be merged.

        Raises:
            MemoryError: There is no memory for the records.
        """
        if self._merge is None:
            small_bytes = self._limits.small_bytes
            length = self._response[position + LENGTH_AT : position + PREFIX_BYTES]
            if int.from_bytes(length, "big") > small_bytes:
                return None  # a response of large batches is not copied
            self._merge = native.stored_batches(self._response)
        merge_result = self._merge(position, first, end, self._limits, self._with_transactions)
        if merge_result is None:
            return None
        ((base, last, base_timestamp, max_timestamp), epoch, codec, sizes), section, records = (
            merge_result
        )
        data = encode(NewHeader(0, base_timestamp, max_timestamp), section, len(records))
        batch = StoredBatch(
            memoryview(data), base, last, codec, base_timestamp, max_timestamp, -1, -1, -1, records
        )
        return MergedRun(batch, *sizes, epoch)


class MergedBatches:
    """Batches of one partition, in their order, with small batches merged into larger batches.

    Only batches whose offsets follow each other are merged: the records have the offsets, the
    timestamps, the bytes and the codec that they had.
    """

    def __init__(self) -> None:
        self._batches: list[StoredBatch] = []
        self._sections: list[bytes] = []
        self._base = self._end = self._count = self._bytes = 0
        self._latest = _NEVER

    def add(self, batch: StoredBatch) -> Iterator[StoredBatch]:
        """Take a batch; return the batches that are to be judged now.

        Args:
            batch: With at least one record.
        """
        count = len(batch.records)
        is_small = count <= _SMALL_RECORDS and len(batch.data) <= _SMALL_BYTES and batch.is_whole
        if not is_small or (self._batches and self._end != batch.base_offset):
            yield from self.rest()
        if not is_small:
            yield batch
            return
        timestamp = batch.max_timestamp if batch.is_log_append_time else None
        if not self._batches:
            self._base = batch.base_timestamp if timestamp is None else timestamp
        section, latest = batch.section(
            range(count), self._base, first=self._count, timestamp=timestamp
        )
        if len(section) > _BYTES:  # small only as it is compressed
            yield from self.rest()
            yield batch
            return
        self._batches.append(batch)
        self._sections.append(section)
        self._latest = max(self._latest, latest)
        self._count += count
        self._bytes += len(section)
        self._end = batch.last_offset + 1
        if self._count >= _RECORDS or self._bytes >= _BYTES:
            yield from self.rest()

    def rest(self) -> Iterator[StoredBatch]:
        """Return the batches that were taken and not yet returned."""
        batches, section, count = self._batches, b"".join(self._sections), self._count
        header = NewHeader(0, self._base, self._latest)
        self.forget()
        if len(batches) < 2:
            yield from batches
            return
        data = encode(header, section, count)
        merged = read_stored_batch(data, max_decompressed_bytes=len(data))
        first, last = batches[0], batches[-1]
        yield replace(
            merged,
            base_offset=first.base_offset,
            last_offset=last.last_offset,
            attributes=last.attributes & CODEC,
        )

    def forget(self) -> None:
        """Drop the batches that were taken and not yet returned."""
        self._batches = []
        self._sections = []
        self._base = self._end = self._count = self._bytes = 0
        self._latest = _NEVER

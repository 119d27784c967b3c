"""Small batches that are judged together: the cost of judging a batch is paid once for many.

Each record is judged separately, so it does not matter which records are judged with it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.records.encoder import NewHeader, encode
from penstock.records.header import CODEC
from penstock.records.stored_batch import read_stored_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.records.stored_batch import StoredBatch

_SMALL_BYTES: Final = 16 * 1024
_SMALL_RECORDS: Final = 100
_BYTES: Final = 64 * 1024
_RECORDS: Final = 400
_NEVER: Final = -(2**63)


class MergedBatches:
    """Batches of one partition, in their order, with small batches merged into larger batches.

    Only batches whose offsets follow each other are merged: the records have the offsets, the
    timestamps, the bytes and the codec that they had.
    """

    def __init__(self) -> None:
        self._waiting: list[StoredBatch] = []
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
        if not is_small or (self._waiting and self._end != batch.base_offset):
            yield from self.rest()
        if not is_small:
            yield batch
            return
        timestamp = batch.max_timestamp if batch.is_log_append_time else None
        if not self._waiting:
            self._base = batch.base_timestamp if timestamp is None else timestamp
        section, latest = batch.section(
            range(count), self._base, first=self._count, timestamp=timestamp
        )
        if len(section) > _BYTES:  # small only as it is compressed
            yield from self.rest()
            yield batch
            return
        self._waiting.append(batch)
        self._sections.append(section)
        self._latest = max(self._latest, latest)
        self._count += count
        self._bytes += len(section)
        self._end = batch.last_offset + 1
        if self._count >= _RECORDS or self._bytes >= _BYTES:
            yield from self.rest()

    def rest(self) -> Iterator[StoredBatch]:
        """Return the batches that were taken and not yet returned."""
        waiting, section, count = self._waiting, b"".join(self._sections), self._count
        header = NewHeader(0, self._base, self._latest)
        self.forget()
        if len(waiting) < 2:
            yield from waiting
            return
        data = encode(header, section, count)
        merged = read_stored_batch(data, max_decompressed_bytes=len(data))
        first, last = waiting[0], waiting[-1]
        yield replace(
            merged,
            base_offset=first.base_offset,
            last_offset=last.last_offset,
            attributes=last.attributes & CODEC,
        )

    def forget(self) -> None:
        """Drop the batches that were taken and not yet returned."""
        self._waiting = []
        self._sections = []
        self._base = self._end = self._count = self._bytes = 0
        self._latest = _NEVER

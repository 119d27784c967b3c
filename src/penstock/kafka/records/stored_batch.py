"""Reads a batch as a broker stores it, and makes a batch of it that a producer may send.

A stored batch differs from a batch that a producer sends (`penstock.kafka.records.batch`):

- Its base offset is not 0. Where compaction removed records, or all of them, the offset deltas of
  the others stay and ascend, and so does the last offset delta in the header.
- With the timestamp type LogAppendTime the timestamp of all records is the header's largest; what
  the producer sent is still in the records.
- With a delete horizon (KIP-534, attribute bit 6) the base timestamp is that horizon. Timestamps of
  records are relative to any base timestamp (MemoryRecordsBuilder), so nothing
  changes for readers.
- It may be a control batch, or have content that a producer's check would refuse, because it was
  written without a gateway: every batch that a consumer reads is read here, too. That includes
  header keys that are not UTF-8: their wrong parts are U+FFFD, as for a Java consumer. Where
  consumers differ (a record whose attributes are above 0x7F, numbers of more bits than they may
  have, offset deltas that do not ascend) nothing is read.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import crc32c

from penstock.kafka.error_codes import CORRUPT_MESSAGE
from penstock.kafka.records import native
from penstock.kafka.records.batch import MAX_RECORDS
from penstock.kafka.records.compression import NAMES
from penstock.kafka.records.encoder import NewHeader, encode
from penstock.kafka.records.errors import UnreadableRecords
from penstock.kafka.records.header import (
    CODEC,
    CONTROL,
    CRC_FROM,
    HEADER,
    LENGTH_AT,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_AT,
    PREFIX_BYTES,
    as_produced,
    wrapped,
)
from penstock.kafka.records.uncompressed import BatchLimits, check_size, uncompressed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.kafka.records.stored import KeysAndValues, StoredRecords

_MAX_OFFSET: Final = 2**63 - 2
"""The offset after it is a number of 64 bits, too."""


@dataclass(frozen=True)
class StoredBatch:
    """A stored batch, or some of its consecutive records, each of which has been checked.

    Attributes:
        data: The batch as it is stored, in the memory that it was read from.
        base_offset: Of the header. The first record may have a larger offset.
        last_offset: Of the header. The last record may have a smaller offset.
        attributes: The header's attribute bits.
        base_timestamp: What the timestamps in the records are relative to.
        max_timestamp: Of the header: the timestamp of all records for LogAppendTime.
        producer_id: Or -1.
        producer_epoch: Or -1.
        base_sequence: Or -1.
        records: Their timestamps are those that a consumer reads.
    """

    data: memoryview
    base_offset: int
    last_offset: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: StoredRecords

    @property
    def codec(self) -> str:
        """Name the compression."""
        return NAMES[self.attributes & CODEC]

    @property
    def is_log_append_time(self) -> bool:
        """Whether the timestamps are the broker's."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_control(self) -> bool:
        """Whether its records are markers of a transaction, which no consumer is given."""
        return bool(self.attributes & CONTROL)

    @cached_property
    def offsets(self) -> Sequence[int]:
        """The offset of each record: a `range` where there are no gaps."""
        return self.records.offsets(self.base_offset)

    @property
    def is_whole(self) -> bool:
        """Whether there is a record for each offset of the header, so that `whole` can be called.

        Not so for control batches, which are not written again.
        """
        return len(self.records) == self.last_offset - self.base_offset + 1 and not self.is_control

    def between(self, first: int, end: int) -> StoredBatch:
        """Return only the records of a range of offsets; they are not copied.

        Args:
            first: The first offset.
            end: The offset after the last.
        """
        offsets = self.offsets
        start, stop = bisect_left(offsets, first), bisect_left(offsets, max(first, end))
        if stop - start == len(offsets):
            return self
        return replace(self, records=self.records.part(start, stop))

    def whole(self) -> tuple[bytes, memoryview]:
        """Return the batch as a producer sends it, with the bytes of its records.

        See `penstock.kafka.records.header.as_produced`, which sets a producer, too, for this
        batch's `data` or what `cut` returns.

        Returns:
            The header and the records.

        Raises:
            ValueError: It has gaps, or it is a part of the stored batch, or a control batch.
        """
        if not self.is_whole:
            raise ValueError("a batch with gaps, a part of a batch or a control batch")
        return as_produced(self.data)

    def cut(
        self,
        positions: Sequence[int],
        *,
        replaced: KeysAndValues | None = None,
        appended: Sequence[Sequence[tuple[str, bytes | None]]] | None = None,
        without: Sequence[str] = (),
        timestamp: int | None = None,
    ) -> bytes:
        """Write some of the records as a producer sends them, without a producer id.

        Other parts keep their bytes, and are compressed again, with the same codec at its fastest
        level. Timestamps are those of the producer, as in `whole`,
        for LogAppendTime as well.

        Args:
            positions: The positions of the records, ascending; at least one.
            replaced: The keys and the values of all records of this batch, not only of those kept,
                as of `RecordVerdicts`; None where they stay as they are.
            appended: For each record that is kept, headers that follow its own.
            without: Headers whose keys begin with any of these are left out.
            timestamp: Of all records, in ms; None to keep theirs.

        Returns:
            A batch of magic 2 with base offset 0.

        Raises:
            ValueError: No record is kept, `appended` is not for as many, a record does not fit a
                batch, or it is a control batch.
            IndexError: There is no record with such a position.
        """
        base_timestamp = self.base_timestamp if timestamp is None else timestamp
        section, latest = self.section(
            positions,
            base_timestamp,
            replaced=replaced,
            appended=appended,
            without=without,
            timestamp=timestamp,
        )
        header = NewHeader(self.attributes & CODEC, base_timestamp, latest)
        return encode(header, section, len(positions), fast=True)

    def section(
        self,
        positions: Sequence[int],
        base_timestamp: int,
        *,
        first: int = 0,
        replaced: KeysAndValues | None = None,
        appended: Sequence[Sequence[tuple[str, bytes | None]]] | None = None,
        without: Sequence[str] = (),
        timestamp: int | None = None,
    ) -> tuple[bytes, int]:
        """Write some of the records for a batch that may have others before them; see `cut`.

        Args:
            positions: As for `cut`, and so are those that are not named here.
            base_timestamp: Of that batch.
            first: How many records are before them in it.
            replaced: See `cut`.
            appended: See `cut`.
            without: See `cut`.
            timestamp: See `cut`.

        Returns:
            The records, uncompressed, and their largest timestamp.

        Raises:
            ValueError: As for `cut`.
            IndexError: As for `cut`.
        """
        if self.is_control or not len(positions):
            raise ValueError("a control batch" if self.is_control else "no record is kept")
        if appended is not None and len(appended) != len(positions):
            raise ValueError("not as many headers as records")
        retimed = timestamp is not None
        shift = wrapped((self.base_timestamp if timestamp is None else timestamp) - base_timestamp)
        section, latest = self.records.cut(
            positions, replaced, appended, without, retimed, first, shift
        )
        return section, latest if timestamp is None else timestamp


def read_stored_batch(
    data: bytes | memoryview, *, max_decompressed_bytes: int, max_records: int = MAX_RECORDS
) -> StoredBatch:
    """Read and check a batch of a broker's log.

    Args:
        data: The batch, header included, without other bytes. It is kept; the records are copied.
        max_decompressed_bytes: The maximum size of the decompressed records.
        max_records: The maximum number of records.

    Raises:
        UnreadableRecords: It cannot be read, or consumers might read it differently (2); or it is
            larger than allowed (87). The text names the fault and the record.
        MemoryError: There is no memory for the records.
    """
    view = memoryview(data)
    _check_frame(view)
    (base_offset, _, _, _, crc, attributes, last_delta, base_timestamp, max_timestamp,
     producer_id, producer_epoch, base_sequence, count) = HEADER.unpack_from(view)  # fmt: skip
    computed = crc32c.crc32c(view[CRC_FROM:])
    if computed != crc:
        raise _corrupt(f"Record is corrupt (stored crc = {crc}, computed crc = {computed})")
    codec = attributes & CODEC
    if codec >= len(NAMES):
        raise _corrupt(f"Unknown compression type id: {codec}")
    last_offset = base_offset + last_delta
    if base_offset < 0 or last_delta < 0 or last_offset > _MAX_OFFSET:
        raise _corrupt(f"Batch has an invalid offset range: [{base_offset}, {last_offset}]")
    if count < 0:
        raise _corrupt(f"Found invalid record count {count} in magic v2 batch")
    limits = BatchLimits(max_decompressed_bytes, max_records)
    log_append_time = max_timestamp if attributes & LOG_APPEND_TIME else None
    return StoredBatch(
        view,
        base_offset,
        last_offset,
        attributes,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        _records(view, codec, count, last_delta, log_append_time, limits),
    )


def _check_frame(view: memoryview) -> None:
    if len(view) <= MAGIC_AT:
        raise _corrupt(f"{len(view)} bytes are not a record batch")
    magic = int.from_bytes(view[MAGIC_AT : MAGIC_AT + 1], signed=True)
    if magic != MAGIC:
        raise _corrupt(f"A batch of magic {magic}, not of {MAGIC}")
    length = int.from_bytes(view[LENGTH_AT:PREFIX_BYTES], "big", signed=True)
    if length + PREFIX_BYTES != len(view) or len(view) < HEADER.size:
        raise _corrupt(
            f"Record batch is corrupt (its size is {length + PREFIX_BYTES}, and {len(view)} bytes "
            f"are there; the minimum is {HEADER.size})"
        )


def _records(
    view: memoryview,
    codec: int,
    count: int,
    last_delta: int,
    log_append_time: int | None,
    limits: BatchLimits,
) -> StoredRecords:
    check_size(view, codec, count, limits)
    if codec:
        view = uncompressed(view, codec, limits.decompressed_bytes)
    if not count:
        # Compaction removed all of them. Consumers open what is compressed, and read no record.
        return native.read_stored(view[: HEADER.size], 0, last_delta, log_append_time)
    try:
        return native.read_stored(view, count, last_delta, log_append_time)
    except UnreadableRecords as wrong:
        raise _corrupt(wrong.message) from None


def _corrupt(message: str) -> UnreadableRecords:
    return UnreadableRecords(CORRUPT_MESSAGE, message)

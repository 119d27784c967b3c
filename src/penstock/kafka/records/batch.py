"""Reads the records of a partition of a Produce request: exactly one batch of magic 2.

The checks and their texts are those of a broker (ProduceRequest.validateRecords,
LogValidator.validateBatch, DefaultRecordBatch); where a broker is lenient and a reader could
see other records than a policy did, this is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

import crc32c

from penstock.kafka.error_codes import (
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    UNSUPPORTED_COMPRESSION_TYPE,
)
from penstock.kafka.records import native
from penstock.kafka.records.compression import NAMES
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
    ZSTD,
    ZSTD_FROM_VERSION,
)
from penstock.kafka.records.uncompressed import BatchLimits, check_size, uncompressed

if TYPE_CHECKING:
    from penstock.kafka.records.stored import StoredRecords

MAX_RECORDS: Final = 500_000
"""The default of `decompressed.batch.max.records`."""
_RECORD_OVERHEAD_V0: Final = 14
"""The size that a broker checks first, before it knows the format of the records."""
_NOT_PRODUCED: Final = LOG_APPEND_TIME | CONTROL


class RecordBatch(NamedTuple):
    """A batch whose every record has been checked.

    Attributes:
        attributes: The header's attribute bits.
        base_timestamp: Of the first record, in ms.
        max_timestamp: The largest, in ms.
        producer_id: Or -1.
        producer_epoch: Or -1.
        base_sequence: Or -1.
    """

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


def read_batch(
    data: bytes | memoryview,
    *,
    api_version: int,
    max_decompressed_bytes: int,
    max_records: int = MAX_RECORDS,
) -> RecordBatch:
    """Read and check a partition's records.

    Args:
        data: What the request carries for the partition; not kept.
        api_version: The version of the Produce request, 3 or later.
        max_decompressed_bytes: The maximum size of the decompressed records.
        max_records: The maximum number of records.

    Raises:
        UnreadableRecords: They cannot be read, or a broker or a consumer might read them
            differently. Carries the error code for the client.
    """
    view = memoryview(data)
    if len(view) < HEADER.size:
        _refuse_structure(view, api_version)
    (base_offset, length, _, magic, crc, attributes, last_delta, base_timestamp, max_timestamp,
     producer_id, producer_epoch, base_sequence, count) = HEADER.unpack_from(view)  # fmt: skip
    if magic != MAGIC or length + PREFIX_BYTES != len(view):
        _refuse_structure(view, api_version)
    codec = attributes & CODEC
    if codec == ZSTD and api_version < ZSTD_FROM_VERSION:
        raise UnreadableRecords(
            UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests with version {api_version} are not allowed to use ZStandard "
            "compression",
        )
    computed = crc32c.crc32c(view[CRC_FROM:])
    if computed != crc:
        raise UnreadableRecords(
            CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {crc}, computed crc = {computed})"
        )
    if (
        base_offset
        or not 0 < count == last_delta + 1
        or attributes & _NOT_PRODUCED
        or (producer_id >= 0 > base_sequence)
        or codec >= len(NAMES)
    ):
        _refuse_header(
            codec, base_offset, last_delta, count, attributes, producer_id, base_sequence
        )
    if count > max_records or (not codec and len(view) - HEADER.size > max_decompressed_bytes):
        check_size(view, codec, count, BatchLimits(max_decompressed_bytes, max_records))
    if codec:
        view = uncompressed(view, codec, max_decompressed_bytes)
    return RecordBatch(
        attributes,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        native.read(view, count),
    )


def _refuse_structure(view: memoryview, api_version: int) -> NoReturn:
    """Raise the error for bytes that are not exactly one batch of magic 2."""
    request = f"Produce requests with version {api_version}"
    none = f"{request} must have at least one record batch per partition"
    if len(view) < PREFIX_BYTES:
        raise _invalid(none)
    length = int.from_bytes(view[LENGTH_AT:PREFIX_BYTES], "big", signed=True)
    if length < _RECORD_OVERHEAD_V0:
        raise UnreadableRecords(
            CORRUPT_MESSAGE,
            f"Record size {length} is less than the minimum record overhead "
            f"({_RECORD_OVERHEAD_V0})",
        )
    if len(view) < MAGIC_AT + 1:
        raise _invalid(none)
    magic = int.from_bytes(view[MAGIC_AT : MAGIC_AT + 1], signed=True)
    if not 0 <= magic <= 2:
        raise UnreadableRecords(CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}")
    if length + PREFIX_BYTES > len(view):
        raise _invalid(none)
    if magic != 2:
        raise _invalid(f"{request} are only allowed to contain record batches with magic version 2")
    if length < HEADER.size - PREFIX_BYTES:
        raise UnreadableRecords(
            CORRUPT_MESSAGE,
            f"Record batch is corrupt (the size {length + PREFIX_BYTES} is smaller than the "
            f"minimum allowed overhead {HEADER.size})",
        )
    raise _invalid(f"{request} are only allowed to contain exactly one record batch per partition")


def _refuse_header(
    codec: int,
    base_offset: int,
    last_delta: int,
    count: int,
    attributes: int,
    producer_id: int,
    base_sequence: int,
) -> NoReturn:
    """Raise the error for a wrong header, in a broker's order."""
    if codec >= len(NAMES):
        raise _invalid(f"Unknown compression type id: {codec}")
    if base_offset != 0:
        raise _invalid(f"The baseOffset of the record batch should be 0, but it is {base_offset}")
    if last_delta < 0:
        raise _invalid(f"Batch has an invalid offset range: [0, {last_delta}]")
    if count <= 0:
        raise _invalid(f"Invalid reported count for record batch: {count}")
    if last_delta + 1 != count:
        raise _invalid(
            f"Inconsistent batch offset range [0, {last_delta}] and count of records {count}"
        )
    if attributes & CONTROL:
        raise _invalid("Clients are not allowed to write control records")
    if producer_id >= 0 > base_sequence:
        raise _invalid(
            f"Invalid sequence number {base_sequence} in record batch with producerId {producer_id}"
        )
    raise UnreadableRecords(
        INVALID_TIMESTAMP, "Invalid timestamp type in the batch: a producer sets CreateTime only"
    )


def _invalid(message: str) -> UnreadableRecords:
    return UnreadableRecords(INVALID_RECORD, message)

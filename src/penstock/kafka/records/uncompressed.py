"""The records of a batch, uncompressed and within limits, for the readers of records."""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.kafka.error_codes import INVALID_RECORD
from penstock.kafka.records.compression import Scratch, decompress
from penstock.kafka.records.errors import UnreadableRecords
from penstock.kafka.records.header import CRC_FROM, HEADER

_MIN_RECORD_BYTES: Final = 7
_NO_OFFSET: Final = bytes(8)
_NO_ATTRIBUTES: Final = bytes(2)


class BatchLimits(NamedTuple):
    """The limits of a decompressed batch.

    Attributes:
        decompressed_bytes: The maximum size of its records, uncompressed.
        records: Their maximum number.
    """

    decompressed_bytes: int
    records: int


def check_size(view: memoryview, codec: int, count: int, limits: BatchLimits) -> None:
    """Check the limits that can be checked before a batch is decompressed.

    Args:
        codec: Of its records.
        count: How many records its header announces.
        limits: The largest allowed sizes.

    Raises:
        UnreadableRecords: There is too much (87).
    """
    if count > limits.records and (codec or count * _MIN_RECORD_BYTES <= len(view)):
        raise UnreadableRecords(
            INVALID_RECORD,
            f"The batch has {count} records, more than {limits.records} "
            "(decompressed.batch.max.records)",
        )
    limit = limits.decompressed_bytes
    if not codec and len(view) - HEADER.size > limit:
        raise UnreadableRecords(
            INVALID_RECORD,
            f"The records take more than {limit} bytes (decompressed.batch.max.bytes)",
        )


def uncompressed(view: memoryview, codec: int, limit: int) -> memoryview:
    """Return a compressed batch with its records uncompressed.

    Args:
        codec: Of its records.
        limit: The maximum size of the decompressed records.

    Returns:
        A copy, in memory that the next batch of this thread is copied to. Base offset and
        attributes of its header are zero.

    Raises:
        UnreadableRecords: Too much comes out (87), or the data is damaged (2).
    """
    size = HEADER.size
    length = decompress(codec, view[size:], limit, _SCRATCH)
    buffer = _SCRATCH.buffer
    buffer[:size] = view[:size]
    buffer[: len(_NO_OFFSET)] = _NO_OFFSET
    buffer[CRC_FROM : CRC_FROM + len(_NO_ATTRIBUTES)] = _NO_ATTRIBUTES
    return memoryview(buffer)[: size + length]


_SCRATCH: Final = Scratch(ahead=HEADER.size)

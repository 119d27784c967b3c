"""The fields of a record batch's header, without its records.

They are only trustworthy once `read_batch` has read the complete batch.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

import crc32c

if TYPE_CHECKING:
    from collections.abc import Sequence

HEADER: Final = Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and max
timestamp, producer id and epoch, base sequence, count (DefaultRecordBatch.java)."""
BASE_TIMESTAMP: Final = Struct(">q")
BASE_TIMESTAMP_AT: Final = 27
CRC_AT: Final = 17
CRC_FROM: Final = 21
PREFIX_BYTES: Final = 12
"""Base offset and length: the bytes that the length does not count."""
CODEC: Final = 0x07
ZSTD: Final = 4
ZSTD_FROM_VERSION: Final = 7
"""The first version of Produce requests whose batches may be compressed with zstd."""
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
MAGIC: Final = 2
MAGIC_AT: Final = 16
ATTRIBUTES_AT: Final = 21
LAST_DELTA_AT: Final = 23
_ATTRIBUTES: Final = Struct(">h")
LENGTH_AT: Final = 8
_START: Final = Struct(">qii")
_PRODUCER_AT: Final = 43
_PRODUCER: Final = Struct(">qhii")
_SEQUENCE: Final = Struct(">qhi")
_CRC: Final = Struct(">I")
_COUNT: Final = Struct(">i")
COUNT_AT: Final = 57
_INT64: Final = 2**64


class BatchProducer(NamedTuple):
    """The producer of a batch, and its place in the sequence of that producer's batches (KIP-98).

    Attributes:
        producer_id: Or -1, where the producer is not idempotent.
        epoch: Of the producer id; or -1.
        base_sequence: Of the first record; or -1.
        record_count: How many records the batch announces.
        transactional: Whether the batch belongs to a transaction.
    """

    producer_id: int
    epoch: int
    base_sequence: int
    record_count: int
    transactional: bool


def read_producer(data: bytes | memoryview) -> BatchProducer | None:
    """Return a batch's producer, or None if it is not a batch of magic 2."""
    if len(data) < HEADER.size or data[MAGIC_AT] != MAGIC:
        return None
    producer_id, epoch, base_sequence, count = _PRODUCER.unpack_from(data, _PRODUCER_AT)
    transactional = bool(data[ATTRIBUTES_AT + 1] & TRANSACTIONAL)
    return BatchProducer(producer_id, epoch, base_sequence, count, transactional)


def record_count(data: bytes | memoryview) -> int:
    """Return how many records a batch announces; 0 if it has no header, or announces none."""
    return max(0, _COUNT.unpack_from(data, COUNT_AT)[0]) if len(data) >= HEADER.size else 0


def codec_of(data: bytes | memoryview) -> int:
    """Return Kafka's number of what a batch is compressed with; 0 if it has no header."""
    return data[ATTRIBUTES_AT + 1] & CODEC if len(data) >= HEADER.size else 0


def checksum(data: bytes | memoryview) -> int:
    """Return the checksum in a batch, computed by its sender; 0 if there is none."""
    return int(_CRC.unpack_from(data, CRC_AT)[0]) if len(data) >= HEADER.size else 0


def is_intact(data: bytes | memoryview) -> bool:
    """Return whether a batch matches its checksum."""
    return checksum(data) == crc32c.crc32c(data[CRC_FROM:])


def with_sequence(
    data: bytes | memoryview, producer_id: int, epoch: int, base_sequence: int
) -> Sequence[bytes | memoryview]:
    """Return a batch with another producer id, epoch and base sequence.

    Args:
        data: A batch that is known to be intact; its checksum is computed again.
        producer_id: Or -1.
        epoch: Or -1.
        base_sequence: Or -1.

    Returns:
        Two buffers that together are the batch; the records are not copied.
    """
    header = bytearray(data[: HEADER.size])
    _SEQUENCE.pack_into(header, _PRODUCER_AT, producer_id, epoch, base_sequence)
    records = memoryview(data)[HEADER.size :]
    _CRC.pack_into(header, CRC_AT, crc32c.crc32c(records, crc32c.crc32c(header[CRC_FROM:])))
    return [bytes(header), records]


def as_produced(
    data: bytes | memoryview,
    *,
    producer_id: int = -1,
    epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> tuple[bytes, memoryview]:
    """Return a stored batch as a producer sends it: only the header is new.

    Base offset 0 and no leader epoch, and of the attributes only the codec:

    - *LogAppendTime* is cleared, since a broker refuses it. It had written its time into the header
      only, so the records have the timestamps of their producer again. The largest timestamp stays:
      the broker that receives the batch computes it again (LogValidator).
    - *A delete horizon* (KIP-534) is cleared, or the next cleaner would take the base timestamp for
      it. Timestamps are relative to that field either way (MemoryRecordsBuilder).

    Args:
        data: A batch that is known to be intact, since its checksum is computed again; its offsets
            have no gaps.
        producer_id: Or -1.
        epoch: Or -1.
        base_sequence: Or -1.
        transactional: Whether it belongs to a transaction.

    Returns:
        The header and the records; the latter are not copied.
    """
    header = bytearray(data[: HEADER.size])
    length = int.from_bytes(header[LENGTH_AT:PREFIX_BYTES], "big")
    _START.pack_into(header, 0, 0, length, -1)
    codec = header[ATTRIBUTES_AT + 1] & CODEC
    _ATTRIBUTES.pack_into(header, ATTRIBUTES_AT, codec | (TRANSACTIONAL if transactional else 0))
    _SEQUENCE.pack_into(header, _PRODUCER_AT, producer_id, epoch, base_sequence)
    records = memoryview(data)[HEADER.size :]
    _CRC.pack_into(header, CRC_AT, crc32c.crc32c(records, crc32c.crc32c(header[CRC_FROM:])))
    return bytes(header), records


def wrapped(number: int) -> int:
    """Return a sum or a difference of 64-bit numbers as a 64-bit number, as readers add it."""
    return (number + _INT64 // 2) % _INT64 - _INT64 // 2

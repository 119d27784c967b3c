"""Message sets of magic 0 and 1, which brokers before 0.11 wrote, as batches of magic 2.

Brokers return them as they are stored. They have neither headers nor producers.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

import crc32c
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatch

from penstock.kafka.client.errors import UnreadableBatchError
from penstock.kafka.records import header
from penstock.kafka.records.header import HEADER

if TYPE_CHECKING:
    from collections.abc import Iterator

_NO_LIMIT: Final = 2**31 - 1
_LOG_APPEND_TIME: Final = 0x08
_NO_TIMESTAMP: Final = -1
_ATTRIBUTES_AT: Final = 17
_CRC_AT, _CRC_FROM = 12, 16
_MAX_DELTA: Final = 2**31 - 1


def modern_batches(data: memoryview, magic: int) -> Iterator[memoryview]:
    """Write a message, or a compressed set of messages, as a batch of magic 2, uncompressed.

    Raises:
        UnreadableBatchError: It is damaged, or of another magic.
    """
    offset = int.from_bytes(data[:8], "big", signed=True)
    if magic not in {0, 1}:
        raise UnreadableBatchError(offset, f"its magic is {magic}")
    if zlib.crc32(data[_CRC_FROM:]) != int.from_bytes(data[_CRC_AT:_CRC_FROM], "big"):
        raise UnreadableBatchError(offset, "it does not match its checksum")
    try:
        batch = LegacyRecordBatch(bytes(data), magic)
        messages = [
            (message.offset, message.timestamp, message.key, message.value) for message in batch
        ]
    except Exception as error:
        raise UnreadableBatchError(
            offset, f"a message set of magic {magic}: {type(error).__name__}"
        ) from None
    if messages:
        yield _batch(messages, data[_ATTRIBUTES_AT] & _LOG_APPEND_TIME if magic else 0)


def _batch(
    records: list[tuple[int, int | None, bytes | None, bytes | None]], attributes: int
) -> memoryview:
    base_offset = records[0][0]
    if records[-1][0] - base_offset > _MAX_DELTA:
        raise UnreadableBatchError(base_offset, "its offsets are too far apart")
    timestamps = [_NO_TIMESTAMP if record[1] is None else record[1] for record in records]
    base = timestamps[0]
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, _NO_LIMIT)
    # The builder takes -1 for "no record yet", so timestamps are written relative to the first.
    for (offset, _, key, value), timestamp in zip(records, timestamps, strict=True):
        builder.append(offset - base_offset, timestamp - base, key, value, [])
    batch = bytearray(builder.build())
    fields = list(HEADER.unpack_from(batch))
    fields[0], fields[2], fields[5] = base_offset, -1, attributes
    fields[7], fields[8] = base, max(timestamps)
    HEADER.pack_into(batch, 0, *fields)
    crc = crc32c.crc32c(memoryview(batch)[header.CRC_FROM :])
    batch[header.CRC_AT : header.CRC_FROM] = crc.to_bytes(4, "big")
    return memoryview(batch)

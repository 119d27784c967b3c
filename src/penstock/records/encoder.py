"""Rebuilds a batch after interceptors changed or dropped some of its records.

The records themselves are written by aiokafka's builder; header and compression are done
here, because the builder leaves out the compression where it does not pay, and an original
keeps its codec.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import crc32c
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from penstock.records.compression import compress
from penstock.records.header import CRC_AT, CRC_FROM, HEADER, PREFIX_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.records.batch import RecordBatch

_MAGIC: Final = 2
_NO_LIMIT: Final = 2**31 - 1
_CODEC: Final = 0x07
_NO_TIMESTAMP: Final = -1


def rebuild(
    original: RecordBatch,
    kept: Sequence[int],
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
) -> bytes:
    """Write a batch of some of an original's records with other keys and values.

    Codec, transaction bit, timestamp type, producer and base sequence stay as they are, and
    so do each record's timestamp and headers.

    Args:
        original: The batch of the client.
        kept: Positions in it of the records to write, ascending; at least one.
        keys: For each of them.
        values: For each of them.

    Returns:
        A batch of magic 2.
    """
    some = original.records
    if len(kept) != len(some):
        some = [some[position] for position in kept]
    timestamps = [record.timestamp for record in some]
    first = timestamps[0]
    builder = DefaultRecordBatchBuilder(_MAGIC, 0, 0, -1, -1, -1, _NO_LIMIT)
    # The builder takes -1 for "no record yet"; only differences are written.
    shifted = [t + 1 for t in timestamps] if first == _NO_TIMESTAMP else timestamps
    headers = [record.headers for record in some]
    written = map(builder.append, range(len(some)), shifted, keys, values, headers)
    if not all(written):
        raise ValueError("records that do not fit a batch")
    body = memoryview(builder.build())[HEADER.size :]
    codec = original.attributes & _CODEC
    data: bytes | memoryview = compress(codec, body) if codec else body
    head = bytearray(HEADER.size)
    HEADER.pack_into(
        head,
        0,
        0,
        HEADER.size - PREFIX_BYTES + len(data),
        -1,
        _MAGIC,
        0,
        original.attributes,
        len(some) - 1,
        first,
        max(timestamps),
        original.producer_id,
        original.producer_epoch,
        original.base_sequence,
        len(some),
    )
    crc = crc32c.crc32c(data, crc32c.crc32c(head[CRC_FROM:]))
    head[CRC_AT : CRC_AT + 4] = crc.to_bytes(4, "big")
    return b"".join((head, data))

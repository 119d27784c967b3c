"""Rebuilds a batch after interceptors changed or dropped some of its records.

The records are written by what has read them; header and compression are done here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import crc32c

from penstock.records.compression import compress
from penstock.records.header import CRC_AT, CRC_FROM, HEADER, PREFIX_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.records.batch import RecordBatch

_MAGIC: Final = 2
_CODEC: Final = 0x07


def rebuild(
    original: RecordBatch,
    kept: Sequence[int],
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
) -> bytes:
    """Write a batch of some of an original's records with other keys and values.

    Codec, transaction bit, timestamp type, base timestamp, producer and base sequence stay as
    they are, and so do each record's timestamp and headers.

    Args:
        original: The batch of the client.
        kept: Positions in it of the records to write, ascending; at least one.
        keys: For each of them.
        values: For each of them.

    Returns:
        A batch of magic 2.

    Raises:
        ValueError: A record does not fit a batch.
    """
    body, max_timestamp = original.records.rewritten(kept, keys, values)
    codec = original.attributes & _CODEC
    data = compress(codec, memoryview(body)) if codec else body
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
        len(kept) - 1,
        original.base_timestamp,
        max_timestamp,
        original.producer_id,
        original.producer_epoch,
        original.base_sequence,
        len(kept),
    )
    crc = crc32c.crc32c(data, crc32c.crc32c(head[CRC_FROM:]))
    head[CRC_AT : CRC_AT + 4] = crc.to_bytes(4, "big")
    return b"".join((head, data))

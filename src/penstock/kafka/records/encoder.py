"""Writes a batch of records that were read from another batch.

The records are written by their reader; header and compression are done here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import crc32c

from penstock.kafka.records.compression import compress
from penstock.kafka.records.header import CODEC, CRC_AT, CRC_FROM, HEADER, MAGIC, PREFIX_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.kafka.records.batch import RecordBatch
    from penstock.kafka.records.stored import KeysAndValues


class NewHeader(NamedTuple):
    """The fields of the header of a batch that is written.

    Attributes:
        attributes: With the codec to compress with.
        base_timestamp: What the records' timestamps are relative to.
        producer_id: Or -1.
        producer_epoch: Or -1.
        base_sequence: Or -1.
    """

    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1


def encode(header: NewHeader, section: bytes, count: int, *, fast: bool = False) -> bytes:
    """Write a batch as a producer sends it.

    Args:
        header: Some of the fields of its header.
        section: Its records, uncompressed.
        count: How many they are.
        fast: Whether to compress at the fastest level of the codec.

    Returns:
        A batch of magic 2.
    """
    codec = header.attributes & CODEC
    data = compress(codec, memoryview(section), fast=fast) if codec else section
    head = bytearray(HEADER.size)
    HEADER.pack_into(
        head,
        0,
        0,
        HEADER.size - PREFIX_BYTES + len(data),
        -1,
        MAGIC,
        0,
        header.attributes,
        count - 1,
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        count,
    )
    crc = crc32c.crc32c(data, crc32c.crc32c(head[CRC_FROM:]))
    head[CRC_AT : CRC_AT + 4] = crc.to_bytes(4, "big")
    return b"".join((head, data))


def rebuild(
    original: RecordBatch,
    positions: Sequence[int],
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
) -> bytes:
    """Write a batch of some of an original's records with other keys and values.

    Codec, transaction bit, timestamp type, base timestamp, producer and base sequence stay as
    they are, and so do each record's timestamp and headers.

    Args:
        original: The batch of the client.
        positions: The positions in it of the records to write, ascending; at least one.

    Returns:
        A batch of magic 2.

    Raises:
        ValueError: A record does not fit a batch.
    """
    section, max_timestamp = original.records.rewritten(positions, keys, values)
    return encode(_header_of(original, max_timestamp), section, len(positions))


def rebuild_with_headers(
    original: RecordBatch,
    positions: Sequence[int],
    appended: Sequence[Sequence[tuple[str, bytes | None]]] | None,
    *,
    without: Sequence[str] = (),
    replaced: KeysAndValues | None = None,
) -> bytes:
    """Write a batch of some of an original's records with other headers.

    All else stays as it is, as for `rebuild`.

    Args:
        original: The batch of the client.
        positions: The positions in it of the records to write, ascending; at least one.
        appended: For each of them, headers that follow its own; None for none.
        without: Headers whose keys begin with any of these are left out.
        replaced: The keys and the values of all records of the original; None where they stay.

    Returns:
        A batch of magic 2.

    Raises:
        ValueError: A record does not fit a batch.
    """
    section, latest = original.records.cut(positions, replaced, appended, without, False)
    return encode(_header_of(original, latest), section, len(positions))


def _header_of(original: RecordBatch, max_timestamp: int) -> NewHeader:
    return NewHeader(
        original.attributes,
        original.base_timestamp,
        max_timestamp,
        original.producer_id,
        original.producer_epoch,
        original.base_sequence,
    )

"""Writes valid and invalid record batches, independently of the code under test."""

import struct
from collections.abc import Sequence

import cramjam
import crc32c

from penstock.policy import Header, Record

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
NOW = 1_700_000_000_000
RECORDS = [
    Record(NOW, b"key", b"value", (Header("name", b"x"), Header("name", None), Header("", b""))),
    Record(NOW - 5, None, b"v" * 100),
    Record(NOW + 70_000, b"k", None),
    Record(NOW, b"", b"", (Header("schlüssel", b"\xff"),)),
]
"""With and without keys, values and headers."""


def zigzag(number: int) -> bytes:
    """A signed varint."""
    value = (number << 1) ^ (number >> 63)
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


def _bytes(data: bytes | None) -> bytes:
    return zigzag(-1) if data is None else zigzag(len(data)) + data


def encode_record(record: Record, delta: int, base_timestamp: int, attributes: int = 0) -> bytes:
    """One record of a batch."""
    headers = b"".join(
        _bytes(header.key.encode()) + _bytes(header.value) for header in record.headers
    )
    body = (
        bytes([attributes])
        + zigzag(record.timestamp - base_timestamp)
        + zigzag(delta)
        + _bytes(record.key)
        + _bytes(record.value)
        + zigzag(len(record.headers))
        + headers
    )
    return zigzag(len(body)) + body


def compress(codec: int, data: bytes, *, xerial: bool = True) -> bytes:
    """Compress as Kafka's clients do."""
    if codec == 2:
        raw = bytes(cramjam.snappy.compress_raw(data))
        if not xerial:
            return raw
        return b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(raw)) + raw
    if codec == 3:  # Kafka reads no frames whose blocks depend on each other
        compressor = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
        compressor.compress(data)
        return bytes(compressor.finish())
    modules = {1: cramjam.gzip, 4: cramjam.zstd}
    return bytes(modules[codec].compress(data)) if codec else data


def zstd_frame(*blocks: tuple[int, int, bytes], start: bytes) -> bytes:
    """A zstd frame: what follows the magic, and blocks by type, size and bytes."""
    frame = bytearray(b"\x28\xb5\x2f\xfd" + start)
    for number, (kind, size, data) in enumerate(blocks, 1):
        header = (number == len(blocks)) | kind << 1 | size << 3
        frame += header.to_bytes(3, "little") + data
    return bytes(frame)


def encode_batch(
    records: Sequence[Record],
    *,
    codec: str | int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    xerial: bool = True,
    body: bytes | None = None,
    payload: bytes | None = None,
    **overrides: int,
) -> bytes:
    """A batch of magic 2.

    Args:
        records: What it holds.
        codec: A name or number of `CODECS`.
        producer_id: And epoch and sequence, of an idempotent producer.
        producer_epoch: See producer_id.
        base_sequence: See producer_id.
        transactional: Sets the bit.
        xerial: Whether snappy is framed.
        body: The records' bytes before compression, instead of those of `records`.
        payload: The same, after compression.
        overrides: Header fields to be wrong: base_offset, length, magic, crc, attributes,
            last_offset_delta, count.
    """
    number = CODECS[codec] if isinstance(codec, str) else codec
    base = records[0].timestamp if records else 0
    largest = max((record.timestamp for record in records), default=-1)
    if body is None:
        body = b"".join(encode_record(r, i, base) for i, r in enumerate(records))
    if payload is None:
        payload = compress(number, body, xerial=xerial)
    tail = struct.pack(
        ">hiqqqhii",
        overrides.get("attributes", number | (0x10 if transactional else 0)),
        overrides.get("last_offset_delta", len(records) - 1),
        base,
        largest,
        producer_id,
        producer_epoch,
        base_sequence,
        overrides.get("count", len(records)),
    )
    tail += payload
    crc = overrides.get("crc", crc32c.crc32c(tail))
    length = overrides.get("length", 4 + 1 + 4 + len(tail))
    head = struct.pack(
        ">qiibI", overrides.get("base_offset", 0), length, -1, overrides.get("magic", 2), crc
    )
    return head + tail


def encode_stored(
    records: Sequence[Record],
    deltas: Sequence[int] | None = None,
    *,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    body: bytes | None = None,
    **fields: int,
) -> bytes:
    """A batch as a broker stores it.

    Args:
        records: What it holds.
        deltas: Their offset deltas; 0, 1, ... by default.
        base_timestamp: That of the first record by default.
        max_timestamp: The largest by default.
        body: The records' bytes before compression, instead of those of `records`.
        fields: Of the header: base_offset, epoch, attributes (with the codec), last_offset_delta,
            producer_id, producer_epoch, base_sequence, count, crc, magic, length.
    """
    deltas = range(len(records)) if deltas is None else deltas
    stamps = [record.timestamp for record in records]
    base = (stamps or [-1])[0] if base_timestamp is None else base_timestamp
    latest = max(stamps, default=-1) if max_timestamp is None else max_timestamp
    if body is None:
        pairs = zip(records, deltas, strict=True)
        body = b"".join(encode_record(record, delta, base) for record, delta in pairs)
    attributes = fields.get("attributes", 0)
    last_delta = fields.get("last_offset_delta", max(deltas, default=0))
    producer = [fields.get(name, -1) for name in ("producer_id", "producer_epoch", "base_sequence")]
    count = fields.get("count", len(records))
    tail = struct.pack(">hiqqqhii", attributes, last_delta, base, latest, *producer, count)
    codec = attributes & 7
    tail += compress(codec, body) if codec in CODECS.values() else body
    length = fields.get("length", 9 + len(tail))
    crc = fields.get("crc", crc32c.crc32c(tail))
    head = (fields.get("base_offset", 0), length, fields.get("epoch", 3), fields.get("magic", 2))
    return struct.pack(">qiibI", *head, crc) + tail


def values(*given: bytes | None, key: bytes | None = b"k", timestamp: int = 1_700_000_000_000):
    """Records with these values."""
    return [Record(timestamp + i, key, value) for i, value in enumerate(given)]

"""A slow reader of record batches that follows the Java classes, for comparison.

DefaultRecordBatch and DefaultRecord (varints of 32 bits, attributes of one byte),
Lz4BlockInputStream (ends with the first frame), SnappyInputStream (xerial or bare).
"""

import gzip
import struct

import cramjam

Decoded = tuple[int, bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.position:
            raise ValueError("past the end")
        self.position += size
        return self.data[self.position - size : self.position]

    def varint(self, bits: int) -> int:
        value = 0
        for shift in range(0, bits + 3, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                value &= (1 << bits) - 1
                return value >> 1 ^ -(value & 1)
        raise ValueError("too long")

    def nullable(self) -> bytes | None:
        size = self.varint(32)
        return None if size < 0 else self.take(size)


def read(batch: bytes) -> list[Decoded]:
    """Timestamp, key, value and headers of every record."""
    attributes, _, base_timestamp = struct.unpack_from(">hiq", batch, 21)
    (count,) = struct.unpack_from(">i", batch, 57)
    data = _Bytes(_DECOMPRESS[attributes & 7](batch[61:]))
    records = [_record(data, i, base_timestamp) for i in range(count)]
    if data.position != len(data.data):
        raise ValueError("records remain")
    return records


def _record(data: _Bytes, index: int, base_timestamp: int) -> Decoded:
    size = data.varint(32)
    if size < 0:
        raise ValueError("negative size")
    body = _Bytes(data.take(size))
    body.take(1)
    timestamp = (base_timestamp + body.varint(64) + 2**63) % 2**64 - 2**63
    if body.varint(32) != index:
        raise ValueError("offset delta")
    key, value = body.nullable(), body.nullable()
    headers = []
    number = body.varint(32)
    if number < 0 or number > len(body.data) - body.position:
        raise ValueError("number of headers")
    for _ in range(number):
        name = body.nullable()
        if name is None:
            raise ValueError("header without a key")
        headers.append((name, body.nullable()))
    if body.position != size:
        raise ValueError("size")
    return timestamp, key, value, headers


def _lz4(data: bytes) -> bytes:
    largest = 1 << (8 + 2 * (data[5] >> 4 & 7))
    position = 7 + (8 if data[4] & 0x08 else 0)
    result = b""
    while size := struct.unpack_from("<I", data, position)[0] & 0x7FFFFFFF:
        block = data[position + 4 : position + 4 + size]
        if not data[position + 3] & 0x80:
            room = bytearray(largest)
            block = bytes(room[: cramjam.lz4.decompress_block_into(block, room)])
        result += block
        position += 4 + size + (4 if data[4] & 0x10 else 0)
    return result


def _snappy(data: bytes) -> bytes:
    if data[:8] != b"\x82SNAPPY\x00" or len(data) < 16:
        return bytes(cramjam.snappy.decompress_raw(data))
    result, blocks = b"", _Bytes(data[16:])
    while blocks.position < len(blocks.data):
        size = struct.unpack(">i", blocks.take(4))[0]
        result += bytes(cramjam.snappy.decompress_raw(blocks.take(size)))
    return result


_DECOMPRESS = {
    0: bytes,
    1: gzip.decompress,
    2: _snappy,
    3: _lz4,
    4: lambda data: bytes(cramjam.zstd.decompress(data)),
}

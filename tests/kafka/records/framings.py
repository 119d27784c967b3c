"""Record sections in every framing of each codec that a writer may choose, with what no client writes.

Independent of the code under test. `FRAMINGS` are valid by their formats, though Kafka's readers may
refuse them.
"""

import zlib
from collections.abc import Callable
from random import Random

import cramjam

from tests.kafka.records.encoding import compress, zstd_frame

Framing = Callable[[bytes, Random], bytes]

_PRIMES = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
_MASK = 0xFFFF_FFFF


def _rotated(number: int, by: int) -> int:
    number &= _MASK
    return (number << by | number >> 32 - by) & _MASK


def xxh32(data: bytes) -> int:
    """The checksum of lz4 frames."""
    first, second, third, fourth, fifth = _PRIMES
    end = len(data) // 16 * 16
    result = fifth
    if end:
        lanes = [first + second, second, 0, -first]
        for at in range(0, end, 4):
            lane = at // 4 % 4
            word = int.from_bytes(data[at : at + 4], "little")
            lanes[lane] = _rotated(lanes[lane] + word * second, 13) * first
        result = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
    result += len(data)
    for at in range(end, len(data) - 3, 4):
        word = int.from_bytes(data[at : at + 4], "little")
        result = _rotated(result + word * third, 17) * fourth
    for byte in data[len(data) // 4 * 4 :]:
        result = _rotated(result + byte * fifth, 11) * first
    result &= _MASK
    for shift, prime in ((15, second), (13, third)):
        result = (result ^ result >> shift) * prime & _MASK
    return result ^ result >> 16


def _little(number: int, size: int = 4) -> bytes:
    return number.to_bytes(size, "little")


def lz4_block(data: bytes, *, stored: bool = False, checksum: bool = False) -> bytes:
    """A block of an lz4 frame; an empty one is a compressed block of nothing."""
    block = data if stored else bytes(cramjam.lz4.compress_block(data, store_size=False))
    size = len(block) | (0x8000_0000 if stored else 0)
    return _little(size) + block + (_little(xxh32(block)) if checksum else b"")


def lz4_frame(
    *blocks: bytes,
    flags: int = 0x60,
    sizes: int = 0x40,
    content: bytes = b"",
    described: bytes = b"",
    end: bytes = bytes(4),
) -> bytes:
    """An lz4 frame.

    Args:
        blocks: Of `lz4_block`.
        flags: The first byte of its descriptor.
        sizes: The second byte.
        content: For its size and checksum, where the flags say so.
        described: Follows in the descriptor, such as the id of a dictionary.
        end: Follows the blocks.
    """
    descriptor = bytes([flags, sizes])
    if flags & 0x08:
        descriptor += _little(len(content), 8)
    descriptor += described
    header = b"\x04\x22\x4d\x18" + descriptor + bytes([xxh32(descriptor) >> 8 & 0xFF])
    checksum = _little(xxh32(content)) if flags & 0x04 else b""
    return header + b"".join(blocks) + end + checksum


def _parts(data: bytes, most: int, chance: Random) -> list[bytes]:
    """Cut data in some places, and at each maximum size."""
    size = chance.choice((most, most, max(1, min(most, len(data) // 2)), max(1, len(data) - 1)))
    size = min(size, most)
    return [data[at : at + size] for at in range(0, len(data), size)]


def _lz4(data: bytes, chance: Random) -> bytes:
    """Any flags and sizes, blocks of any size, some of them empty."""
    flags = 0x60 | chance.choice((0, 0, 0x04, 0x08, 0x10, 0x1C))
    sizes, most = chance.choice(((0x40, 1 << 16), (0x50, 1 << 18), (0x70, 1 << 22)))
    checksum = bool(flags & 0x10)
    blocks = [
        lz4_block(part, stored=chance.random() < 0.3, checksum=checksum)
        for part in _parts(data, most, chance)
    ]
    if chance.random() < 0.3:
        empty = lz4_block(b"", stored=chance.random() < 0.3, checksum=checksum)
        blocks.insert(chance.choice((0, len(blocks), chance.randrange(len(blocks) + 1))), empty)
    return lz4_frame(*blocks, flags=flags, sizes=sizes, content=data)


def _lz4_odd(data: bytes, chance: Random) -> bytes:
    """What the format knows and Java does not, or says otherwise."""
    block = lz4_block(data[: 1 << 16], stored=chance.random() < 0.5) + (
        lz4_block(data[1 << 16 :]) if len(data) > 1 << 16 else b""
    )
    return chance.choice(
        (
            lambda: lz4_frame(block, flags=0x40),
            lambda: lz4_frame(block, flags=0x61, described=_little(7)),
            lambda: lz4_frame(block, flags=0x62),
            lambda: lz4_frame(block, sizes=0x30),
            lambda: lz4_frame(block, sizes=0x41),
            lambda: lz4_frame(block, sizes=0xC0),
            lambda: lz4_frame(block, flags=0x68, content=data + b"x"),
            lambda: lz4_frame(block, end=b""),
            lambda: lz4_frame(block, end=_little(0x8000_0000)),
            lambda: lz4_frame(block) + lz4_frame(),
            lambda: lz4_frame(lz4_block(data[:9])) + lz4_frame(lz4_block(data[9:])),
            lambda: b"\x50\x2a\x4d\x18" + _little(3) + b"abc" + lz4_frame(block),
            lambda: lz4_frame(block) + b"\x5f\x2a\x4d\x18" + _little(0),
            lambda: b"\x02\x21\x4c\x18" + lz4_block(data),
            lambda: lz4_frame(block) + chance.randbytes(chance.randrange(1, 40)),
        )
    )()


def _lz4_library(data: bytes, chance: Random) -> bytes:
    compressor = cramjam.lz4.Compressor(
        level=chance.choice((0, 1, 9)),
        content_checksum=chance.random() < 0.5,
        block_linked=chance.random() < 0.2,
    )
    for part in _parts(data, 1 << 22, chance):
        compressor.compress(part)
    return bytes(compressor.finish())


def gzip_member(data: bytes, chance: Random, flags: int = 0) -> bytes:
    """A gzip member with the optional fields of its header."""
    head = b"\x1f\x8b\x08" + bytes([flags]) + bytes(4) + b"\0" + bytes([chance.choice((0, 3, 255))])
    if flags & 0x04:
        head += b"\3\0abc"
    if flags & 0x08:
        head += b"name\0"
    if flags & 0x10:
        head += b"a comment\0"
    if flags & 0x02:
        head += _little(zlib.crc32(head) & 0xFFFF, 2)
    writer = zlib.compressobj(
        chance.randrange(10), zlib.DEFLATED, -chance.randrange(9, 16), 8, chance.randrange(5)
    )
    body = b""
    for part in _parts(data, 1 << 20, chance):
        body += writer.compress(part)
        if chance.random() < 0.2:
            body += writer.flush(chance.choice((zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH)))
    body += writer.flush()
    return head + body + _little(zlib.crc32(data)) + _little(len(data))


def _gzip(data: bytes, chance: Random) -> bytes:
    return gzip_member(data, chance, chance.choice((0, 0, 1, 2, 4, 8, 16, 30)))


def _gzip_odd(data: bytes, chance: Random) -> bytes:
    at = chance.choice((0, 9, len(data) // 2, len(data)))
    return chance.choice(
        (
            lambda: gzip_member(data[:at], chance) + gzip_member(data[at:], chance),
            lambda: gzip_member(data, chance, chance.choice((0x20, 0x40, 0x80))),
            lambda: gzip_member(data, chance) + bytes(chance.randrange(1, 40)),
            lambda: gzip_member(data, chance) + chance.randbytes(chance.randrange(1, 40)),
            lambda: zlib.compress(data),
        )
    )()


def xerial(*blocks: bytes, versions: tuple[int, int] = (1, 1)) -> bytes:
    """Snappy's blocks behind the header of snappy-java."""
    head = b"\x82SNAPPY\x00" + b"".join(number.to_bytes(4, "big") for number in versions)
    return head + b"".join(len(block).to_bytes(4, "big") + block for block in blocks)


def snappy_block(data: bytes) -> bytes:
    """A bare stream of snappy."""
    return bytes(cramjam.snappy.compress_raw(data))


def _snappy(data: bytes, chance: Random) -> bytes:
    if chance.random() < 0.3:
        return snappy_block(data)
    return xerial(*map(snappy_block, _parts(data, 32_768, chance)))


def _snappy_odd(data: bytes, chance: Random) -> bytes:
    blocks = [snappy_block(part) for part in _parts(data, 32_768, chance)]
    version = chance.choice((0, 1, 2, 0x0100_0000, 0x7FFF_FFFF, 0xFFFF_FFFF))
    empty = list(blocks)
    empty.insert(chance.randrange(len(blocks) + 1), snappy_block(b""))
    return chance.choice(
        (
            lambda: xerial(*blocks, versions=(version, 1)),
            lambda: xerial(*blocks, versions=(1, version)),
            lambda: xerial(*empty),
            lambda: xerial(*blocks[:1]) + xerial(*blocks[1:]),
            lambda: xerial(*blocks) + bytes(chance.randrange(1, 9)),
            lambda: xerial(*blocks) + chance.randbytes(chance.randrange(1, 9)),
            lambda: bytes(cramjam.snappy.compress(data)),
        )
    )()


def _zstd(data: bytes, chance: Random) -> bytes:
    level = chance.choice((-5, 1, 3, 9, 19))
    if chance.random() < 0.5:
        return bytes(cramjam.zstd.compress(data, level))
    compressor = cramjam.zstd.Compressor(level=level)
    for part in _parts(data, 1 << 22, chance):
        compressor.compress(part)
        if chance.random() < 0.3:
            compressor.flush()
    return bytes(compressor.finish())


def _zstd_odd(data: bytes, chance: Random) -> bytes:
    parts = _parts(data, 1 << 17, chance)
    blocks = [(0, len(part), part) for part in parts]
    empty = list(blocks)
    empty.insert(chance.randrange(len(blocks) + 1), (0, 0, b""))
    window = bytes([chance.choice((0, 8, 0x38, 0x40, 0x88, 0x90))])
    whole = bytes(cramjam.zstd.compress(data))
    skipped = _little(0x184D2A50 + chance.randrange(16)) + _little(3) + b"abc"
    return chance.choice(
        (
            lambda: zstd_frame(*blocks, start=b"\0" + window),
            lambda: zstd_frame(*empty, start=b"\0" + window),
            lambda: zstd_frame(*blocks, start=b"\xa0" + _little(len(data))),
            lambda: zstd_frame(*blocks, start=b"\xa0" + _little(len(data) + 1)),
            lambda: zstd_frame(*blocks, start=b"\x80" + window + _little(len(data))),
            lambda: zstd_frame(*blocks, start=b"\1" + window + b"\0"),
            lambda: zstd_frame(*blocks, start=b"\1" + window + b"\7"),
            lambda: zstd_frame(*blocks, start=b"\x08" + window),
            lambda: zstd_frame(*blocks, start=b"\x10" + window),
            lambda: skipped + whole,
            lambda: whole + skipped,
            lambda: whole + bytes(cramjam.zstd.compress(b"")),
            lambda: bytes(cramjam.zstd.compress(b"")) + whole,
            lambda: bytes(cramjam.zstd.compress(data[:9])) + bytes(cramjam.zstd.compress(data[9:])),
            lambda: whole + chance.randbytes(chance.randrange(1, 20)),
            lambda: whole + bytes(chance.randrange(1, 20)),
        )
    )()


def _usual(codec: int) -> Framing:
    return lambda data, _: compress(codec, data)


FRAMINGS: dict[int, list[Framing]] = {
    0: [_usual(0)],
    1: [_usual(1), _gzip, _gzip_odd],
    2: [_usual(2), _snappy, _snappy_odd],
    3: [_usual(3), _lz4, _lz4_odd, _lz4_library],
    4: [_usual(4), _zstd, _zstd_odd],
}
"""By Kafka's number of a codec."""

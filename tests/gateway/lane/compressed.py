"""Records that are compressed as clients do it, in all forms, and damaged."""

import zlib

import cramjam

from penstock.kafka.records.compression import compress
from tests.kafka.records.encoding import CODECS
from tests.kafka.records.encoding import compress as compress_otherwise

COMPRESSED = [number for number in CODECS.values() if number]


def lz4(data, **how):
    compressor = cramjam.lz4.Compressor(**{"block_linked": False, **how})
    compressor.compress(data)
    return bytes(compressor.finish())


def gzip(data, level):
    writer = zlib.compressobj(level, zlib.DEFLATED, 31)
    return writer.compress(data) + writer.flush()


def zstd(data, level):
    """Return a frame that does not announce its size."""
    compressor = cramjam.zstd.Compressor(level=level)
    compressor.compress(data)
    return bytes(compressor.finish())


WAYS = [
    *((codec, lambda data, c=codec: compress(c, memoryview(data))) for codec in COMPRESSED),
    (1, lambda data: compress(1, memoryview(data), fast=True)),
    *((codec, lambda data, c=codec: compress_otherwise(c, data)) for codec in COMPRESSED),
    (1, lambda data: gzip(data, 0)),
    (1, lambda data: gzip(data, 9)),
    (2, lambda data: compress_otherwise(2, data, xerial=False)),
    (3, lambda data: lz4(data, content_checksum=True)),
    (3, lambda data: lz4(data, level=9)),
    (4, lambda data: zstd(data, 1)),
    (4, lambda data: zstd(data, 12)),
    (4, lambda data: bytes(cramjam.zstd.compress(data, 9))),
]
"""Codecs, and functions that compress as clients do."""


def damaged(data, chance):
    """Change, remove or insert bytes, most of them in the fields of a format."""
    data = bytearray(data)
    for _ in range(chance.randrange(1, 3)):
        at = chance.randrange(len(data) + 1)
        if chance.random() < 0.5:
            at = min(at % 24, len(data))
        kind = chance.randrange(5)
        if kind == 0 and at < len(data):
            data[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        elif kind == 1 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 2:
            del data[at : at + chance.randrange(1, 9)]
        elif kind == 3:
            data[at:at] = chance.randbytes(chance.randrange(1, 9))
        else:
            data += chance.choice((b"\0", bytes(data), data[: len(data) // 2], b"\0\0\0\0"))
    return bytes(data)

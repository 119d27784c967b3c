"""The limit applies during decompression; damage is distinguished from size."""

import gzip
import subprocess
import sys
import zlib

import cramjam
import pytest

from penstock.kafka.records.compression import Scratch, compress, decompress, is_buffer_too_small
from penstock.kafka.records.errors import UnreadableRecords

TEXT = b"".join(b"line %d\n" % i for i in range(20_000))
CODES = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def opened(codec, data, limit):
    scratch = Scratch(ahead=3)
    size = decompress(codec, memoryview(data), limit, scratch)
    assert len(scratch.buffer) >= 3 + size
    return bytes(scratch.buffer[3 : 3 + size])


def xerial(*blocks):
    header = b"\x82SNAPPY\x00" + (1).to_bytes(4, "big") * 2
    return header + b"".join(len(block).to_bytes(4, "big") + block for block in blocks)


def snappy(data):
    return bytes(cramjam.snappy.compress_raw(data))


def lz4(data):
    writer = cramjam.lz4.Compressor(block_linked=False)
    writer.compress(data)
    return bytes(writer.finish())


COMPRESSED = [
    (1, gzip.compress(TEXT)),
    (1, gzip.compress(TEXT[:50]) + gzip.compress(TEXT[50:])),
    (1, gzip.compress(TEXT) + gzip.compress(b"")),
    (1, gzip.compress(b"") + gzip.compress(TEXT)),
    (2, snappy(TEXT)),
    (2, xerial(snappy(TEXT))),
    (2, xerial(*(snappy(TEXT[i : i + 32768]) for i in range(0, len(TEXT), 32768)))),
    (3, lz4(TEXT)),
    (4, bytes(cramjam.zstd.compress(TEXT))),
]


@pytest.mark.parametrize(("codec", "data"), COMPRESSED)
def test_the_limit_is_inclusive(codec, data):
    assert opened(codec, data, 1 << 24) == TEXT
    assert opened(codec, data, len(TEXT)) == TEXT
    for limit in (len(TEXT) - 1, 17_000, 100, 1):
        with pytest.raises(UnreadableRecords, match=r"decompressed\.batch\.max\.bytes") as refused:
            opened(codec, data, limit)
        assert refused.value.code == 87


@pytest.mark.parametrize(("codec", "data"), COMPRESSED)
def test_damaged_data_is_corrupt(codec, data):
    for damaged in (data[:-1], data[: len(data) // 2], data[1:], b"", data + b"rest", b"\xff" * 40):
        with pytest.raises(UnreadableRecords) as refused:
            opened(codec, damaged, 1 << 24)
        assert refused.value.code == 2


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (1, zlib.compress(TEXT)),
        (3, bytes(cramjam.lz4.compress(TEXT))),
        (3, lz4(TEXT) * 2),
        (2, xerial(snappy(TEXT)) + b"\0\0"),
        (2, xerial(snappy(TEXT)) + b"\xff\xff\xff\xff"),
        (2, xerial(snappy(TEXT)) + bytes(4)),
        (2, xerial(snappy(TEXT), b"\xff\xff\xff\xff\x0f")),
        (2, xerial(snappy(TEXT)) * 2),
        (4, b"\x28\xb5\x2f\xfd" + bytes(10)),
    ],
)
def test_the_error_about_an_invalid_stream_does_not_contain_the_stream(codec, data):
    with pytest.raises(UnreadableRecords) as refused:
        opened(codec, data, 1 << 24)
    assert refused.value.code in {2, 87}
    assert b"line".decode() not in refused.value.message


BOMB = """
import resource, sys, zlib
import cramjam
from penstock.kafka.records.compression import Scratch, decompress
from penstock.kafka.records.errors import UnreadableRecords
codec, limit = int(sys.argv[1]), 32 << 20
module = {1: cramjam.gzip, 3: cramjam.lz4, 4: cramjam.zstd}.get(codec)
zeros = bytes(1 << 20)
if module:
    writer = module.Compressor(**({"block_linked": False} if codec == 3 else {}))
    for _ in range(256):
        writer.compress(zeros)
    data = bytes(writer.finish())
else:
    block = bytes(cramjam.snappy.compress_raw(zeros))
    data = b"\\x82SNAPPY\\x00" + bytes([0, 0, 0, 1] * 2)
    data += (len(block).to_bytes(4, "big") + block) * 256
scratch = Scratch(ahead=61)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(codec, memoryview(data), limit, scratch)
except UnreadableRecords as error:
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    print(error.code, grown / limit)
"""


@pytest.mark.parametrize("version", [1, 2, 2**31 - 1, 0, -1, -(2**31)])
def test_xerial_framing_of_any_version_is_read(version):
    data = xerial(snappy(TEXT))
    data = data[:8] + version.to_bytes(4, "big", signed=True) + data[12:]
    assert opened(2, data, 1 << 24) == TEXT


@pytest.mark.system
@pytest.mark.parametrize("codec", CODES)
def test_a_decompression_bomb_uses_no_more_memory_than_the_limit(codec):
    """256 MiB from a few bytes, with a limit of 32 MiB."""
    done = subprocess.run(
        [sys.executable, "-c", BOMB, str(CODES[codec])], capture_output=True, text=True, check=True
    )
    code, grown = done.stdout.split()
    assert code == "87"
    assert float(grown) < 2


@pytest.mark.thorough
def test_very_many_blocks_are_refused():
    block = snappy(b"x")
    most = xerial(*[block] * 65_536)
    assert opened(2, most, 10**6) == b"x" * 65_536
    with pytest.raises(UnreadableRecords, match="more than 65536 snappy blocks") as refused:
        opened(2, xerial(*[block] * 65_537), 10**6)
    assert refused.value.code == 87


@pytest.mark.parametrize("module", [cramjam.gzip, cramjam.lz4, cramjam.zstd])
def test_the_error_text_of_cramjam_2_14_for_a_buffer_that_is_too_small(module):
    whole = bytes(module.compress(TEXT))
    for data, expected in ((whole, True), (b"\x00" + whole[1:], False)):
        with pytest.raises(cramjam.DecompressionError) as raised:
            module.decompress_into(data, bytearray(len(TEXT) - 1))
        assert is_buffer_too_small(raised.value) is expected


class TestCompress:
    """Records as Kafka's clients compress them."""

    LONG = bytes(range(256)) * 300

    @pytest.mark.parametrize("fast", [False, True])
    @pytest.mark.parametrize("codec", range(1, 5))
    def test_compressed_data_is_read_again(self, codec, fast):
        written = compress(codec, memoryview(self.LONG), fast=fast)
        assert len(written) < len(self.LONG)
        assert opened(codec, written, len(self.LONG)) == self.LONG

    def test_snappy_has_the_header_and_the_blocks_of_the_java_client(self):
        written = compress(2, memoryview(self.LONG))
        assert written[:16] == b"\x82SNAPPY\x00" + bytes([0, 0, 0, 1, 0, 0, 0, 1])
        blocks, at = [], 16
        while at < len(written):
            size = int.from_bytes(written[at : at + 4], "big")
            blocks.append(bytes(cramjam.snappy.decompress_raw(written[at + 4 : at + 4 + size])))
            at += 4 + size
        assert at == len(written)
        assert list(map(len, blocks)) == [32_768, 32_768, len(self.LONG) - 65_536]
        assert b"".join(blocks) == self.LONG

    @pytest.mark.parametrize("fast", [False, True])
    def test_blocks_of_lz4_do_not_depend_on_each_other(self, fast):
        flags = compress(3, memoryview(self.LONG), fast=fast)[4]
        assert flags & 0x20, "Kafka reads independent blocks only (KIP-57)"
        assert not flags & 0x04, "no checksum of the content"

"""Native threads decompress batches to the same bytes as Python.

Bounded in `make test`; `make fuzz` for more.
"""

import random

import cramjam
import pytest

from penstock import _native
from penstock.kafka.records.compression import Scratch, compress, decompress
from penstock.kafka.records.errors import UnreadableRecords
from tests.gateway.lane.compressed import COMPRESSED, WAYS, damaged, zstd
from tests.kafka.records.encoding import compress as compress_otherwise
from tests.kafka.records.encoding import zstd_frame
from tests.kafka.records.framings import lz4_block, lz4_frame, snappy_block, xerial
from tests.kafka.records.lz4_samples import READ, REFUSED

native = _native
pytestmark = pytest.mark.skipif(not hasattr(native, "Lane"), reason="native threads need Linux")
LIMIT = 40_000
SCRATCH = Scratch(ahead=0)


def in_python(codec, data, limit=LIMIT):
    try:
        count = decompress(codec, memoryview(data), limit, SCRATCH)
    except UnreadableRecords:
        return None
    return bytes(SCRATCH.buffer[:count])


def zstd_runs(*lengths, window=0, flags=0):
    """Return a zstd frame whose blocks are runs of one byte; a window of 0 is 1 KiB."""
    runs = [(1, length, bytes([number])) for number, length in enumerate(lengths, 1)]
    return zstd_frame(*runs, start=bytes([flags, window]))


def zstd_matches(length):
    """Return a compressed block of two literals, after each of which a match is so long."""
    literals = b"\x10AA"
    tables = bytes(
        (2, 0x54, 1, 2, 52)
    )  # two sequences, each of one literal, offset 1, long matches
    bits = (length - 65_539) * (1 + 2**18) | 1 << 36
    data = literals + tables + bits.to_bytes(5, "little")
    return 2, len(data), data


def some_data(chance):
    """Return random bytes of records: like text, like noise, of one byte, or empty."""
    size = chance.choice((0, 1, 20, 200, 2_000, 20_000, LIMIT - 1, LIMIT))
    kind = chance.randrange(4)
    if kind == 0:
        return chance.randbytes(size)
    if kind == 1:
        return bytes([chance.randrange(256)]) * size
    words = [chance.randbytes(chance.randrange(1, 12)) for _ in range(chance.randrange(1, 40))]
    text = b"".join(chance.choices(words, k=max(1, size // 6)))
    return text[:size]


def test_random_inputs_are_decompressed_natively_as_in_python(pytestconfig, chance):
    count = pytestconfig.getoption("fuzz_inputs")
    found = 0
    for number in range(count // 8):
        codec, compressed = chance.choice(WAYS)
        data = compressed(some_data(chance))
        for given in (data, *(damaged(data, chance) for _ in range(7))):
            out = native.decompressed(codec, given, LIMIT)
            if out is not None:
                assert out == in_python(codec, given), (number, codec, given.hex())
                found += 1
    assert found > count // 10


@pytest.mark.parametrize("way", range(len(WAYS)))
def test_compressed_data_of_clients_is_decompressed_up_to_the_limit(way):
    codec, compressed = WAYS[way]
    chance = random.Random(way)
    for _ in range(40):
        content = some_data(chance)
        data = compressed(content)
        assert in_python(codec, data) == content
        assert native.decompressed(codec, data, LIMIT) == content
        assert native.decompressed(codec, data, len(content)) == content
        if content:
            assert native.decompressed(codec, data, len(content) - 1) is None


@pytest.mark.parametrize("way", range(len(WAYS)))
@pytest.mark.parametrize("size", [127 * 1024, 129 * 1024, 1_000_000, 4 * 2**20])
def test_large_data_is_decompressed_in_steps_up_to_the_limit(way, size):
    codec, compressed = WAYS[way]
    chance = random.Random(f"{way} {size}")
    words = [chance.randbytes(chance.randrange(1, 12)) for _ in range(40)]
    content = b"".join(chance.choices(words, k=size // 5))[:size].ljust(size)
    data = compressed(content)
    limit = 16 * 2**20
    found = native.decompressed(codec, data, limit)
    assert in_python(codec, data, limit) == content
    # What a copy from before the window is depends on the buffers of a reader.
    assert found == content or (codec == 4 and size >= 1_000_000 and found is None)
    if found is not None:
        assert native.decompressed(codec, data, size) == content
        assert native.decompressed(codec, data, size - 1) is None
    for _ in range(6):
        given = damaged(data, chance)
        found = native.decompressed(codec, given, limit)
        assert found is None or found == in_python(codec, given, limit)


def test_blocks_that_cannot_be_left_in_their_middle_are_left_to_python():
    content = bytes(4 * 2**20 + 1)
    assert native.decompressed(2, compress_otherwise(2, content, xerial=False), 2**24) is None
    assert native.decompressed(4, bytes(cramjam.zstd.compress(content)), 2**24) is None
    for codec in (1, 2, 3):
        assert native.decompressed(codec, compress(codec, memoryview(content)), 2**24) == content


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_decompression_bomb_is_stopped_at_the_limit(codec):
    data = compress(codec, memoryview(bytes(50_000_000)))
    assert native.decompressed(codec, data, LIMIT) is None


@pytest.mark.parametrize("codec", [0, 5, 6, 7])
def test_unknown_codecs_are_left_to_python(codec):
    data = compress(4, memoryview(b"records"))
    assert native.decompressed(codec, data, LIMIT) is None


def test_zstd_frames_with_more_than_their_window_are_left_to_python():
    """What a copy from before the window is depends on the buffers of a reader."""
    for lengths in ((1024,), (1024, 0), (1000, 24)):
        frame = zstd_runs(*lengths)
        assert native.decompressed(4, frame, LIMIT) == in_python(4, frame)
        assert len(in_python(4, frame)) == 1024
    longer = zstd_runs(1024, 1)
    assert in_python(4, longer) == b"\1" * 1024 + b"\2"
    assert native.decompressed(4, longer, LIMIT) is None
    assert native.decompressed(4, zstd_runs(1024, 1, window=1), LIMIT) == in_python(4, longer)


SIZE = (200_000).to_bytes(4, "little")
LARGER_BLOCKS = {
    "a run": zstd_runs(131_073, window=64),
    "stored": zstd_frame((0, 131_073, bytes(131_073)), start=b"\0\x40"),
    "matches": zstd_frame(zstd_matches(65_540), start=b"\0\x40"),
    "a size": zstd_frame((1, 200_000, b"x"), start=b"\x80\x40" + SIZE),
    "one segment": zstd_frame((1, 200_000, b"x"), start=b"\xa0" + SIZE),
}
"""Frames whose windows are as large as their content."""


@pytest.mark.parametrize("frame", LARGER_BLOCKS.values(), ids=LARGER_BLOCKS)
def test_zstd_blocks_that_readers_of_pieces_refuse_are_left_to_python(frame):
    assert in_python(4, frame, 2**18) is None
    assert native.decompressed(4, frame, 2**18) is None


def test_zstd_blocks_of_the_largest_size_are_read():
    runs = zstd_runs(131_072, 131_072, window=64)
    assert native.decompressed(4, runs, 2**18) == in_python(4, runs, 2**18)
    assert len(in_python(4, runs, 2**18)) == 2**18


@pytest.mark.parametrize("size", [131_071, 131_072, 131_073, 2**18 - 1, 2**18])
def test_zstd_frames_of_several_blocks_are_read(size):
    chance = random.Random(size)
    words = [chance.randbytes(9) for _ in range(50)]
    content = b"".join(chance.choices(words, k=size // 9 + 1))[:size]
    for data in (zstd(content, 1), bytes(cramjam.zstd.compress(content, 3)), zstd(bytes(size), 1)):
        assert native.decompressed(4, data, 2**18) == in_python(4, data, 2**18)
        assert len(native.decompressed(4, data, size)) == size
        assert native.decompressed(4, data[:-1], 2**18) is None


@pytest.mark.parametrize(
    "frame",
    [zstd_runs(9, window=17 << 3 | 1), zstd_runs(9, window=18 << 3), zstd_runs(9, flags=1), zstd_runs(9, flags=8), b"", b"\x28\xb5\x2f\xfd"],
    ids=["a window of 144 MiB", "a large window", "a dictionary", "the reserved bit", "no frame", "no header"],
)  # fmt: skip
def test_zstd_frames_that_readers_refuse_are_left_to_python(frame):
    assert native.decompressed(4, frame, LIMIT) is None
    assert native.decompressed(4, zstd_runs(9, window=17 << 3), LIMIT) == b"\1" * 9


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_second_stream_after_the_first_is_left_to_python(codec):
    data = compress(codec, memoryview(b"records"))
    assert native.decompressed(codec, data, LIMIT) == b"records"
    assert native.decompressed(codec, data + data, LIMIT) is None


@pytest.mark.parametrize("frame", READ.values(), ids=READ)
def test_an_lz4_frame_that_java_reads_is_read(frame):
    assert native.decompressed(3, frame, LIMIT) == in_python(3, frame)
    assert in_python(3, frame) is not None


@pytest.mark.parametrize("frame", REFUSED.values(), ids=REFUSED)
def test_an_lz4_frame_that_java_does_not_read_to_its_end_is_left_to_python(frame):
    assert native.decompressed(3, frame, LIMIT) is None


def test_lz4_frames_of_very_many_blocks_are_left_to_python():
    block = lz4_block(b"x", stored=True)
    assert native.decompressed(3, lz4_frame(*[block] * 65_536), 1 << 20) == b"x" * 65_536
    assert native.decompressed(3, lz4_frame(*[block] * 65_537), 1 << 20) is None


@pytest.mark.parametrize("version", [0, 1, 2, 2**32 - 1])
def test_xerial_framing_of_any_version_is_read(version):
    data = xerial(snappy_block(b"records"), versions=(version, 1))
    assert native.decompressed(2, data, LIMIT) == in_python(2, data) == b"records"

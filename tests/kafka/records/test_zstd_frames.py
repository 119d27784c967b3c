"""Frames that readers with other buffers read differently are refused; others are read."""

import random

import cramjam
import pytest

from penstock.kafka.records.compression import Scratch, decompress
from penstock.kafka.records.errors import UnreadableRecords
from penstock.kafka.records.zstd_frames import with_larger_windows
from tests.kafka.records.encoding import zstd_frame

LIMIT = 2**22
WINDOW = 1024
CHECKSUM = 4
SKIPPABLE = b"\x5a\x2a\x4d\x18\x03\0\0\0abc"
START = bytes((0, 0))
"""Of a frame with the smallest window."""


def opened(data):
    scratch = Scratch(ahead=0)
    size = decompress(4, memoryview(data), LIMIT, scratch)
    return bytes(scratch.buffer[:size])


def stored(count):
    """Return blocks of random bytes, and the bytes."""
    parts = [random.Random(number).randbytes(WINDOW) for number in range(count)]
    return [(0, WINDOW, part) for part in parts], b"".join(parts)


def copy(offset):
    """Return a compressed block: the letter A, and 35 bytes from so far back."""
    code = (offset + 3).bit_length() - 1
    # They are read from the highest, which is their end.
    bits = 1 << code + 1 | (offset + 3 - (1 << code)) << 1
    data = b"\x08A" + bytes((1, 0x54, 1, code, 32))
    data += bits.to_bytes((bits.bit_length() + 7) // 8, "little")
    return 2, len(data), data


def streamed(data, level):
    compressor = cramjam.zstd.Compressor(level=level)
    compressor.compress(data)
    return bytes(compressor.finish())


@pytest.mark.parametrize("offset", [1, 500, WINDOW])
def test_copies_from_the_window_are_read(offset):
    blocks, content = stored(7)
    content += b"A"
    content += (content[len(content) - offset :] * 35)[:35]
    assert opened(zstd_frame(*blocks, copy(offset), start=START)) == content


@pytest.mark.parametrize(
    "before",
    [b"", SKIPPABLE, zstd_frame((1, 9, b"x"), start=START)],
    ids=["alone", "skippable", "frame"],
)
@pytest.mark.parametrize("count", [4, 5, 7])
def test_a_copy_from_bytes_that_a_window_no_longer_has_is_refused(count, before):
    """librdkafka, which has all content at once, copies others than readers of pieces."""
    blocks, _ = stored(count)
    with pytest.raises(UnreadableRecords) as caught:
        opened(before + zstd_frame(*blocks, copy(4000), start=START))
    assert caught.value.code == 2


@pytest.mark.parametrize("level", [1, 3])
def test_content_that_is_larger_than_its_window_is_read(level):
    chance = random.Random(level)
    words = [chance.randbytes(9) for _ in range(90)]
    content = b"".join(chance.choices(words, k=LIMIT // 9))
    data = streamed(content, level)
    assert with_larger_windows(memoryview(data), len(content)) is not None
    assert opened(data) == content


def test_windows_are_found_behind_other_frames():
    run = (1, 9, b"x")
    small = zstd_frame(run, start=START)
    checked = zstd_frame(run, start=bytes((CHECKSUM, 0))) + bytes(4)
    segment = zstd_frame(run, start=bytes((0x20, 9)))
    sized = zstd_frame(run, start=bytes((0x80, 8, 9, 0, 0, 0)))
    data = checked + segment + SKIPPABLE + sized + small
    assert with_larger_windows(memoryview(data), WINDOW) is None
    larger = with_larger_windows(memoryview(data), WINDOW + 1)
    at = [position for position, byte in enumerate(data) if larger[position] != byte]
    assert at == [5, len(data) - len(small) + 5]
    assert {larger[position] for position in at} == {1 << 3}


@pytest.mark.parametrize(
    "data", [b"\0", SKIPPABLE + b"legacy", zstd_frame((1, 9, b"x"), start=START)[:7]]
)
def test_other_bytes_are_an_error(data):
    with pytest.raises(ValueError):
        with_larger_windows(memoryview(data), 9)


@pytest.mark.parametrize("frames", [1, 2])
def test_blocks_are_limited(frames):
    count = 2**18 // frames
    runs = [(1, 0, b"x")] * (count - 1)
    data = zstd_frame(*runs, (1, 4, b"x"), start=START) * frames
    assert opened(data) == b"x" * 4 * frames
    with pytest.raises(UnreadableRecords):
        opened(data + zstd_frame((1, 4, b"x"), start=START))


def test_no_window_is_larger_than_readers_have():
    frame = zstd_frame((1, 9, b"x"), start=START)
    assert with_larger_windows(memoryview(frame), 2**27)[5] == 17 << 3
    with pytest.raises(ValueError):
        with_larger_windows(memoryview(frame), 2**27 + 1)

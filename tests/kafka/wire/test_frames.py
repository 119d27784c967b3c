"""Frames are cut the same, however the bytes arrive."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.frames import FrameReader


class Seen:
    """Receives frames; frames whose first byte after the length is "h" are held."""

    def __init__(self, most: int = 1000) -> None:
        self.frames: list[bytes] = []
        self._pieces: list[bytes] = []
        self.reader = FrameReader(
            head_bytes=8,
            max_bytes=most,
            on_head=lambda head: head[4:5] == b"h",
            on_frame=self.frames.append,
            on_piece=self._piece,
        )

    def _piece(self, piece, last: bool) -> None:
        self._pieces.append(bytes(piece))
        if last:
            self.frames.append(b"".join(self._pieces))
            self._pieces = []


def frame(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


contents = st.binary(min_size=4, max_size=60) | st.binary(min_size=3).map(lambda b: b"h" + b)


@pytest.mark.thorough
@given(st.lists(contents, max_size=6), st.lists(st.integers(1, 40), min_size=1))
def test_frames_are_the_same_for_any_chunks(given_contents, sizes):
    stream = b"".join(map(frame, given_contents))
    seen = Seen()
    position = turn = 0
    while position < len(stream):
        size = sizes[turn % len(sizes)]
        seen.reader.feed(stream[position : position + size])
        position, turn = position + size, turn + 1

    assert seen.frames == [frame(content) for content in given_contents]
    assert seen.reader.between_frames


@pytest.mark.parametrize("length", [-1, 0, 3, 1001, 2**31 - 1])
def test_an_invalid_length_is_an_error_before_any_byte_is_held(length):
    seen = Seen()
    with pytest.raises(WireError):
        seen.reader.feed(length.to_bytes(4, "big", signed=True) + bytes(4))
    assert seen.reader.held_bytes == 0


def test_reading_can_stop_in_the_middle_of_a_chunk():
    seen = Seen()
    seen.frames = []
    reader = FrameReader(
        head_bytes=8,
        max_bytes=100,
        on_head=lambda _: True,
        on_frame=lambda frame: (seen.frames.append(frame), reader.stop()),
        on_piece=lambda *_: None,
    )
    reader.feed(frame(b"first") + frame(b"second"))

    assert seen.frames == [frame(b"first")]


def test_a_stopped_reader_misses_no_bytes():
    seen = Seen()
    seen.reader.feed(frame(b"half of this")[:10])
    assert seen.reader.missing_bytes == 6

    seen.reader.stop()
    assert seen.reader.missing_bytes == 0


def test_a_complete_long_frame_is_not_copied():
    part, size = 2**16, 2**24
    seen, long = Seen(most=size), frame(b"h" * size)
    tracemalloc.start()
    try:
        for start in range(0, len(long), part):
            seen.reader.feed(long[start : start + part])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert seen.frames == [long]
    assert peak < 1.3 * size


def test_it_is_known_how_much_of_a_frame_or_of_its_head_is_missing():
    seen = Seen()
    assert seen.reader.left_bytes is None
    whole = frame(b"h" + bytes(9))
    for position in range(1, len(whole)):
        seen.reader.feed(whole[position - 1 : position])
        assert seen.reader.left_bytes == (8 if position < 8 else len(whole)) - position
        assert not seen.reader.missing_streamed_bytes
    seen.reader.feed(whole[-1:])
    assert seen.reader.left_bytes is None
    seen.reader.feed(frame(b"s" + bytes(9))[:10])
    assert seen.reader.missing_streamed_bytes == seen.reader.left_bytes == 4
    seen.reader.stop()
    assert seen.reader.left_bytes is None


@pytest.mark.parametrize("size", [3, 10, 1000])
@pytest.mark.parametrize("kind", [b"h", b"s"])
def test_a_reader_can_stop_after_its_frame_whatever_follows_in_a_chunk(kind, size):
    seen, first = Seen(), frame(kind + b"first frame")
    sent = first + frame(kind + b"second frame")
    seen.reader.feed(sent[:9])
    seen.reader.stop_after_frame()
    for start in range(9, len(sent), size):
        seen.reader.feed(sent[start : start + size])
    assert seen.frames == [first]

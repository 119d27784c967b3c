"""Output that nobody reads, that fails, and that works again: every line is written or counted."""

import contextlib
import errno
import fcntl
import os
import select
import socket
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.queued_output import HELD_MAX_BYTES, TEXT_BYTES, QueuedOutput

LINE = "x" * 99
PIPE_BYTES = 4096


@dataclass
class Pipe:
    """A pipe of 4 KiB, and an output to it."""

    reading: int
    writing: int
    output: QueuedOutput

    def read(self) -> list[str]:
        """Return the lines until the output has nothing to write any more."""
        read = bytearray()
        while not self.output.drain(0) or _has_bytes(self.reading, 0):
            if _has_bytes(self.reading, 0.05):
                read += os.read(self.reading, PIPE_BYTES)
        return read.decode().splitlines()


def _has_bytes(descriptor: int, timeout_s: float) -> bool:
    return bool(select.select([descriptor], [], [], timeout_s)[0])


@pytest.fixture
def made():
    """Makes outputs, and ends their threads, which would write to other files of the same number."""
    every = []

    def make(descriptor, **options):
        every.append(QueuedOutput(descriptor, **options))
        return every[-1]

    yield make
    for output in every:
        output.close()
        if output._thread is not None:
            output._thread.join(30)


@pytest.fixture
def pipe(made):
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb"), os.fdopen(writing, "wb"):
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        pipe = Pipe(reading, writing, made(writing))
        yield pipe
        pipe.read()


def reported(lines: list[str]) -> int:
    """Return how many lines are lost, by what the output says."""
    return sum(int(line.split()[1]) for line in lines if line.endswith("lines were lost"))


def test_lines_are_written_in_order(pipe):
    print("one", file=pipe.output)
    pipe.output.write("two\nthr")
    pipe.output.write("ee\n")
    print("four", end="", file=pipe.output, flush=True)
    assert pipe.output.drain(30)
    assert os.read(pipe.reading, 100) == b"one\ntwo\nthree\nfour"
    assert pipe.output.lines_lost == 0


def test_pieces_of_threads_make_whole_lines(pipe):
    parts = threading.Barrier(8)

    def write(number):
        for _ in range(3):
            parts.wait(30)
            pipe.output.write(f"{number}")
        pipe.output.write("\n")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(pipe.read()) == [str(number) * 3 for number in range(8)]


def test_nobody_waits_for_a_reader_and_each_line_is_written_or_counted(pipe):
    count = 3 * HELD_MAX_BYTES // (len(LINE) + 1)
    for number in range(count):
        pipe.output.write(f"{number:06}{LINE[6:]}\n")
    assert not pipe.output.drain(0.01)
    lost = pipe.output.lines_lost
    held = HELD_MAX_BYTES // (len(LINE) + 1 + TEXT_BYTES)
    assert held <= count - lost <= held + PIPE_BYTES // len(LINE) + 2
    lines = pipe.read()
    assert pipe.output.lines_lost == lost
    assert reported(lines) == lost
    written = [int(line[:6]) for line in lines if line.endswith("x")]
    assert len(written) == count - lost
    # The pipe may take a line, and so make room, while others are being lost.
    assert written == sorted(set(written))
    assert written[:held] == list(range(held))
    print("again", file=pipe.output)
    assert pipe.read() == ["again"]


@contextlib.contextmanager
def without_reader():
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb"):
        yield writing


@contextlib.contextmanager
def full_disk():
    with Path("/dev/full").open("wb", buffering=0) as full:
        yield full.fileno()


@contextlib.contextmanager
def closed():
    with Path(os.devnull).open() as opened:  # not for writing, as open_standard_streams has it
        yield opened.fileno()


@pytest.mark.parametrize("stream", [without_reader, full_disk, closed])
def test_a_stream_that_fails_loses_each_line_and_raises_nothing(made, stream):
    with stream() as descriptor:
        output = made(descriptor)
        for _ in range(7):
            print("one\ntwo", file=output, flush=True)
        assert output.drain(30)
        assert output.lines_lost == 14
        output.close()
        output._thread.join(30)


def test_lost_lines_are_reported_when_the_output_works_again_without_another_line(made, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reading = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    with fifo.open("wb", buffering=0) as writing:
        output = made(writing.fileno())
        output.lost_line = lambda count: f"lost: {count}"
        print("one", file=output)
        assert output.drain(30)
        assert os.read(reading, 100) == b"one\n"
        os.close(reading)
        for _ in range(3):
            print("two", file=output)
        assert output.drain(30)
        with os.fdopen(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as again:
            assert _has_bytes(again.fileno(), 30)
            assert again.read(100) == b"lost: 3\n"
            print("three", file=output)
            assert output.drain(30)
            assert again.read(100) == b"three\n"
        assert output.lines_lost == 3
        output.close()
        output._thread.join(30)


class Disk:
    """Stands for os.write to a disk that is full after some bytes, until it has space again."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.content = b""

    def write(self, _, data):
        if not self.free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = bytes(data[: self.free])
        self.free -= len(taken)
        self.content += taken
        return len(taken)


def test_a_line_that_is_written_in_part_is_lost_and_the_next_begins_on_its_own(made, monkeypatch):
    disk = Disk(free=6)
    monkeypatch.setattr("penstock.queued_output.os.write", disk.write)
    output = made(2, clock=lambda: 0.0)
    output.lost_line = lambda count: f"lost {count}"
    output.write("one\ntwo\n")
    assert output.drain(30)
    assert output.lines_lost == 1
    disk.free = 1000
    output.write("three\n")
    assert output.drain(30)
    assert disk.content == b"one\ntw\nthree\nlost 1\n"


def test_a_stream_that_is_not_blocking_is_waited_for_by_the_thread_alone(made):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        output = made(theirs.fileno())
        text = ("y" * 1000 + "\n") * 50
        output.write(text)
        assert not output.drain(0.01)
        read = b""
        while len(read) < len(text):
            read += ours.recv(65536)
        assert read.decode() == text
        assert output.drain(30)
        assert output.lines_lost == 0


def test_characters_that_cannot_be_encoded_are_escaped(pipe):
    print("\udcff ü", file=pipe.output)
    assert pipe.read() == ["\\udcff ü"]


def test_it_is_text_output_like_another(pipe):
    assert pipe.output.fileno() == pipe.writing
    assert not pipe.output.isatty()
    assert pipe.output.writable()
    assert (pipe.output.encoding, pipe.output.errors) == ("utf-8", "backslashreplace")


def test_an_endless_line_is_not_held(pipe):
    for _ in range(200):
        pipe.output.write("z" * 1000)
    assert len(pipe.output._begun.text) <= 64 * 1024
    assert pipe.output._held_bytes > 100_000


def test_text_that_fits_is_written_at_once_and_the_rest_waits(made, pipe):
    os.set_blocking(pipe.writing, False)
    output = made(pipe.writing, directly=True)
    print("at once", file=output)
    assert output._thread is None
    assert os.read(pipe.reading, 100) == b"at once\n"
    lines = [f"{number:06}{LINE}" for number in range(100)]
    output.buffer.write("".join(f"{line}\n" for line in lines).encode())
    pipe.output = output
    assert pipe.read() == lines
    print("at once", file=output)
    assert os.read(pipe.reading, 100) == b"at once\n"
    assert output.lines_lost == 0


def test_a_line_that_is_too_long_to_wait_is_lost_with_its_beginning(made, pipe):
    os.set_blocking(pipe.writing, False)
    pipe.output = output = made(pipe.writing, directly=True)
    print("x" * 2 * HELD_MAX_BYTES, file=output)
    assert output.lines_lost == 1
    print("next", file=output)
    lines = pipe.read()
    assert lines[0] == "x" * PIPE_BYTES
    assert sorted(lines[1:]) == ["... 1 lines were lost", "next"]


@pytest.mark.system
def test_a_forked_child_has_a_thread_of_its_own(made, pipe):
    print("parent", file=pipe.output)
    assert pipe.read() == ["parent"]
    child = os.fork()
    if not child:
        print("child", file=pipe.output)
        os._exit(not pipe.output.drain(30))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert pipe.read() == ["child"]

"""The output of policies is logged, within a limit."""

import asyncio
import os

import pytest
import structlog

from penstock.engine.workers.processes.output import (
    LINE_MAX,
    LINES_A_SECOND,
    OutputLines,
    OutputPipe,
)


class Clock:
    """A clock that stands still."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def logged():
    with structlog.testing.capture_logs() as lines:
        yield lines


def texts(logged):
    return [event["text"] for event in logged if event["event"] == "policy output"]


def left_out(logged):
    return [event["lines"] for event in logged if event["event"] == "policy output left out"]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_lines_come_in_any_pieces(logged, size):
    lines = OutputLines(7)
    data = "one\ntwo ü \r\n\nlast".encode()
    for start in range(0, len(data), size):
        lines.take(data[start : start + size])
    lines.end()
    assert texts(logged) == ["one", "two ü", "", "last"]
    assert not left_out(logged)


@pytest.mark.parametrize("size", [100, 10_000, 10_000_000])
def test_so_many_lines_a_second_are_logged_and_the_others_counted(logged, size):
    clock = Clock()
    lines = OutputLines(7, clock=clock)
    data = b"".join(b"%d\n" % number for number in range(200_000))
    for start in range(0, len(data), size):
        lines.take(data[start : start + size])
    assert texts(logged) == [str(number) for number in range(LINES_A_SECOND)]
    clock.now += 1
    lines.take(b"again\n")
    assert texts(logged)[-1] == "again"
    assert left_out(logged) == [200_000 - LINES_A_SECOND]


def test_a_line_without_an_end_is_not_kept(logged):
    lines = OutputLines(7)
    for _ in range(1_000):
        lines.take(b"x" * 10_000)
    assert len(lines._line_start) <= 4 * LINE_MAX
    lines.take(b"\nnext\n")
    assert texts(logged) == ["x" * LINE_MAX, "next"]


async def test_a_pipe_is_read_until_its_writers_have_closed_it(logged):
    pipe = OutputPipe()
    reading = asyncio.ensure_future(pipe.log(7))
    await asyncio.sleep(0)
    count = 3_000
    for number in range(count):
        await asyncio.to_thread(os.write, pipe.write_end, b"%d\n" % number)
    pipe.started()
    await reading
    assert len(texts(logged)) + sum(left_out(logged)) == count
    assert texts(logged)[:LINES_A_SECOND] == [str(line) for line in range(LINES_A_SECOND)]


async def test_the_loop_reads_seldom_however_often_is_written(logged):
    """Each print was a turn of the event loop; 200,000 of them held up all others for seconds."""
    pipe = OutputPipe()
    reads = 0
    read = pipe._read

    async def counting(lines):
        nonlocal reads
        data = await read(lines)
        reads += 1
        return data

    pipe._read = counting
    reading = asyncio.ensure_future(pipe.log(7))

    def write():
        for _ in range(200_000):
            os.write(pipe.write_end, b"x\n")
        pipe.started()

    await asyncio.to_thread(write)
    await reading
    assert reads < 10_000
    assert len(texts(logged)) + sum(left_out(logged)) == 200_000

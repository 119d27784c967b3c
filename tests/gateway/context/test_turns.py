"""Long work is done in slices, a slice in each turn of the event loop."""

import asyncio
import gc
import itertools
import weakref
from collections import deque

import pytest

from penstock.gateway.context.turns import Turns
from penstock.kafka.wire.slices import finish


class Loop:
    """The callbacks of the next turns."""

    def __init__(self):
        self.calls = deque()

    def turn(self):
        self.calls.popleft()()


@pytest.fixture
def loop():
    return Loop()


def work(name, count, log):
    for number in range(count):
        log.append((name, number))
        yield
    return name


def never(error):
    raise AssertionError(error)


def test_each_turn_runs_a_single_slice_of_alternating_work(loop):
    turns, log, done = Turns(loop.calls.append), [], []
    for name, count in (("a", 3), ("b", 2)):
        turns.begin(work(name, count, log), done.append, never)
    assert log == [("a", 0), ("b", 0)]
    seen = [2]
    while loop.calls:
        assert len(loop.calls) == 1
        loop.turn()
        seen.append(len(log))
    assert log[2:] == [("a", 1), ("b", 1), ("a", 2)]
    assert all(after - before <= 1 for before, after in itertools.pairwise(seen))
    assert done == ["b", "a"]


def test_work_that_begins_when_other_work_ends_runs_a_slice_in_each_turn(loop):
    turns, log, done = Turns(loop.calls.append), [], []

    def begin_another(name):
        done.append(name)
        turns.begin(work("b", 3, log), done.append, never)

    turns.begin(work("a", 2, log), begin_another, never)
    while loop.calls:
        assert len(loop.calls) == 1
        loop.turn()
    assert log == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2)]
    assert done == ["a", "b"]


def test_short_work_is_done_at_once(loop):
    done = []
    assert Turns(loop.calls.append).begin(work("a", 0, []), done.append, never) is None
    assert (done, loop.calls) == (["a"], deque())


def test_cancelled_work_does_not_continue(loop):
    turns, log = Turns(loop.calls.append), []
    first = turns.begin(work("a", 9, log), never, never)
    turns.begin(work("b", 2, log), [].append, never)
    first.cancel()
    while loop.calls:
        loop.turn()
    assert log == [("a", 0), ("b", 0), ("b", 1)]


def failing(after):
    for _ in range(after):
        yield
    raise ValueError


def test_an_error_ends_only_its_own_work(loop):
    turns, errors, done = Turns(loop.calls.append), [], []
    with pytest.raises(ValueError):
        turns.begin(failing(0), never, never)
    turns.begin(failing(1), never, errors.append)
    turns.begin(work("a", 2, []), done.append, never)
    while loop.calls:
        loop.turn()
    assert [type(error) for error in errors] == [ValueError]
    assert done == ["a"]


def test_run_returns_results_raises_errors_and_can_be_cancelled():
    async def run():
        turns = Turns(asyncio.get_running_loop().call_soon)
        results = await asyncio.gather(
            turns.run(work("a", 0, [])), turns.run(work("b", 5, [])), turns.run(failing(2)),
            return_exceptions=True,
        )  # fmt: skip
        assert results[:2] == ["a", "b"]
        assert isinstance(results[2], ValueError)
        cancelled = asyncio.ensure_future(turns.run(work("c", 10**9, [])))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled

    asyncio.run(run())


@pytest.mark.parametrize("slices", [lambda: work("a", 3, []), lambda: failing(3)])
@pytest.mark.parametrize("after", range(6))
def test_work_that_ends_before_its_cancelled_task_runs_affects_no_other_work(slices, after):
    async def run():
        errors = []
        asyncio.get_running_loop().set_exception_handler(lambda _, error: errors.append(error))
        turns = Turns(asyncio.get_running_loop().call_soon)
        cancelled = asyncio.ensure_future(turns.run(slices()))
        for _ in range(after):
            await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        assert await turns.run(work("b", 2, [])) == "b"
        assert errors == []

    asyncio.run(run())


def test_finish_runs_all_slices_at_once():
    assert finish(work("a", 3, [])) == "a"


async def test_an_error_of_work_is_freed_without_the_collector():
    class BrokenError(Exception):
        pass

    def failing():
        yield
        raise BrokenError

    turns = Turns(asyncio.get_running_loop().call_soon)
    gc.disable()
    try:
        try:
            await turns.run(failing())
        except BrokenError as error:
            ended = weakref.ref(error)
        await asyncio.sleep(0)  # the loop has the future until then
        assert ended() is None
    finally:
        gc.enable()

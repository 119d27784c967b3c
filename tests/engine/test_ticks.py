"""Ticks of workers: when, and until when."""

import asyncio
import gc
import weakref

import pytest

from penstock.engine.workers.ticks import IDLE_TICK_S, TICK_S, Ticks


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only when a timer is due."""

    def __init__(self):
        super().__init__()
        self.now = 100.0

    def time(self):
        return self.now

    def _run_once(self):
        if not self._ready and self._scheduled:
            self.now = max(self.now, self._scheduled[0].when())
        super()._run_once()


@pytest.fixture
def loop():
    made = Loop()
    yield made
    made.close()


class Work:
    """Work that is done at each tick; notes when it is called."""

    def __init__(self, loop, idle=()):
        self.loop, self.idle, self.at = loop, list(idle), []

    def __call__(self):
        self.at.append(round(self.loop.time() - 100, 3))
        return self.idle.pop(0) if self.idle else False


def test_intervals_are_longer_while_there_is_nothing_to_do(loop):
    work = Work(loop, [False, True, True, False])

    async def run():
        ticks = Ticks(work)
        ticks.start()
        await asyncio.sleep(0.2)
        ticks.stop()
        await asyncio.sleep(0.2)

    loop.run_until_complete(run())
    first, idle = TICK_S, IDLE_TICK_S
    assert work.at[:6] == pytest.approx(
        [first, 2 * first, 2 * first + idle, 2 * (first + idle), 3 * first + 2 * idle,
         4 * first + 2 * idle]
    )  # fmt: skip
    assert max(work.at) <= 0.2


def test_after_work_has_come_the_next_tick_is_soon_and_only_once(loop):
    work = Work(loop, [True, True])

    async def run():
        ticks = Ticks(work)
        ticks.start()
        await asyncio.sleep(TICK_S + 0.01)
        ticks.wake()
        await asyncio.sleep(0.005)
        ticks.wake()
        await asyncio.sleep(0.03)
        ticks.stop()

    loop.run_until_complete(run())
    assert work.at == pytest.approx([TICK_S, TICK_S + 0.01 + TICK_S])


def test_ticks_that_are_not_idle_are_not_delayed_by_work(loop):
    work = Work(loop)

    async def run():
        ticks = Ticks(work)
        ticks.start()
        for _ in range(30):
            await asyncio.sleep(0.003)
            ticks.wake()
        ticks.stop()

    loop.run_until_complete(run())
    assert work.at == pytest.approx([TICK_S, 2 * TICK_S, 3 * TICK_S, 4 * TICK_S])


def test_it_may_be_stopped_by_the_tick_itself_and_before_it_has_begun(loop):
    work = Work(loop)

    async def run():
        def once():
            work()
            ticks.stop()
            return True

        ticks = Ticks(once)
        ticks.start()
        never = Ticks(work)
        never.stop()
        await asyncio.sleep(0.2)
        ticks.wake()

    loop.run_until_complete(run())
    assert work.at == pytest.approx([TICK_S])


def test_stopped_ticks_keep_nothing_alive(loop):
    class Owner:
        def __init__(self):
            self.ticks = Ticks(self.tick)

        def tick(self):
            return True

    async def run():
        owner = Owner()
        owner.ticks.start()
        await asyncio.sleep(0.1)
        owner.ticks.stop()
        return weakref.ref(owner)

    gc.disable()
    try:
        assert loop.run_until_complete(run())() is None
    finally:
        gc.enable()


def test_an_error_of_a_call_ends_no_later_call(loop):
    calls = []
    loop.set_exception_handler(lambda *_: None)

    def work():
        calls.append(loop.time())
        raise MemoryError

    async def run():
        ticks = Ticks(work)
        ticks.start()
        await asyncio.sleep(4.5 * TICK_S)
        ticks.stop()

    loop.run_until_complete(run())
    assert len(calls) == 4

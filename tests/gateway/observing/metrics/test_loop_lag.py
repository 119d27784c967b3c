"""The lag of the event loop: measured by a timer."""

import asyncio
import contextlib
import time

import pytest

from penstock.gateway.observing.metrics import loop_lag
from penstock.gateway.observing.metrics.loop_lag import LoopLag


async def test_the_longest_block_of_the_loop_is_reported(monkeypatch):
    monkeypatch.setattr(loop_lag, "EVERY_S", 0.01)
    lag = LoopLag()
    assert lag.longest_s == 0.0
    task = asyncio.create_task(lag.run())
    await asyncio.sleep(0.02)
    time.sleep(0.3)  # what must not happen in an event loop
    await asyncio.sleep(0.05)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert lag.longest_s >= 0.25


async def test_a_clock_that_goes_back_is_not_a_lag(monkeypatch):
    monkeypatch.setattr(loop_lag, "EVERY_S", 0.0)
    times = iter([10.0, 5.0, 5.0, 5.0])
    lag = LoopLag()
    with pytest.raises(RuntimeError):  # the clock has stopped
        await lag.run(lambda: next(times))
    assert lag.longest_s == 0.0

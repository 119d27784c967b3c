"""Idle connections are closed, and all connections are checked within a second."""

import asyncio
from types import SimpleNamespace

import pytest

from penstock.gateway import connection_checks
from penstock.gateway.connection_checks import (
    FIRST_REQUEST_S,
    ConnectionChecks,
    check_once,
    close_idle,
    idle_interval,
)


class Connection:
    def __init__(self, last_active=0.0, since=0.0, is_established=True):
        self.last_active, self.since, self.is_established = last_active, since, is_established
        self.closed = self.checked = 0

    def close(self):
        self.closed += 1

    def check(self):
        self.checked += 1


@pytest.mark.parametrize(
    ("connection", "is_closed"),
    [
        (Connection(last_active=40.0), False),
        (Connection(last_active=39.9), True),
        (Connection(last_active=99.0, since=100 - FIRST_REQUEST_S, is_established=False), False),
        (Connection(last_active=99.0, since=99.9 - FIRST_REQUEST_S, is_established=False), True),
        (Connection(last_active=99.0, since=0.0), False),
    ],
    ids=["just used", "idle", "may still begin", "does not begin", "long established"],
)
def test_idle_connections_and_connections_that_never_begin_are_closed(connection, is_closed):
    close_idle([connection], now=100.0, max_idle_s=60.0)
    assert connection.closed == is_closed


def test_a_connection_may_leave_the_set_while_others_are_closed():
    connections = set()

    class Leaving(Connection):
        def close(self):
            super().close()
            connections.discard(self)

    connections |= {Leaving() for _ in range(3)}
    close_idle(connections, now=100.0, max_idle_s=60.0)
    assert connections == set()


@pytest.mark.parametrize(("max_idle_s", "interval_s"), [(600.0, 5.0), (2.0, 0.5)])
def test_short_idle_times_are_checked_more_often(max_idle_s, interval_s):
    assert idle_interval(max_idle_s) == interval_s


@pytest.mark.parametrize(
    ("count", "pauses"),
    [(0, [1.0]), (1, [1.0]), (100, [1.0]), (250, [1 / 3] * 3), (5000, [0.1] * 10)],
)
def test_each_connection_is_checked_once_in_parts_of_a_second(count, pauses, monkeypatch):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr(connection_checks, "asyncio", SimpleNamespace(sleep=sleep))
    connections = [Connection() for _ in range(count)]
    asyncio.run(check_once(connections))
    assert all(connection.checked == 1 for connection in connections)
    assert slept == pytest.approx(pauses)


class Lane:
    def __init__(self):
        self.short, self.looks = [], 0

    def set_short(self, is_short):
        self.short.append(is_short)

    def look_again(self):
        self.looks += 1


class Memory:
    def __init__(self):
        self.ticks = self.looks = 0

    def tick(self):
        self.ticks += 1

    def look(self):
        self.looks += 1


@pytest.fixture
async def checked(monkeypatch):
    """The parts of a gateway with a connection, and the checks of it, which run fast."""
    monkeypatch.setattr(connection_checks, "_CHECK_EVERY_S", 0.001)
    monkeypatch.setattr(connection_checks, "_CHECK_IDLE_EVERY_S", 0.001)
    monkeypatch.setattr(connection_checks, "LOOK_EVERY_S", 0.001)
    expired, tasks = [], []
    parts = SimpleNamespace(
        connections={Connection()},
        lane=Lane(),
        budget=Memory(),
        producers=SimpleNamespace(expire=lambda: expired.append(1)),
        expired=expired,
        loop=SimpleNamespace(time=lambda: 100.0),
        run=lambda coroutine: tasks.append(asyncio.ensure_future(coroutine)),
    )
    yield parts, ConnectionChecks(parts, 60.0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def until(condition):
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("has_lane", [True, False])
async def test_connections_are_checked_again_and_again(checked, has_lane):
    parts, checks = checked
    lane = parts.lane
    if not has_lane:
        parts.lane = None
    (connection,) = parts.connections
    checks.begin()
    await until(lambda: connection.checked > 1 and connection.closed > 1)

    assert parts.budget.ticks > 1
    assert len(parts.expired) > 1
    assert (lane.looks > 1) == has_lane
    assert parts.budget.looks == 0


@pytest.mark.parametrize("has_lane", [True, False])
async def test_stalled_connections_are_looked_for_only_while_memory_is_short(checked, has_lane):
    parts, checks = checked
    lane = parts.lane
    if not has_lane:
        parts.lane = None
    checks.begin()
    checks.memory_is_short(True)
    await until(lambda: parts.budget.looks > 2)
    checks.memory_is_short(False)
    await asyncio.sleep(0.01)
    looks = parts.budget.looks
    await asyncio.sleep(0.02)

    assert parts.budget.looks == looks
    assert lane.short == ([True, False] if has_lane else [])

"""The rate of a request: which clients are too slow, and which have stalled while others wait."""

import pytest

from penstock.gateway.sessions.request_rate import STALL_S, WINDOW_S, RequestRate

LEAST = 4096
SIZE = 2**30
BEGAN = 10_000.0


def rated(chunks, *, every_s=0.1, until_s=60.0, ready=lambda now: now, least=LEAST):
    """Return when a request is first too slow, and when it has first stalled; None if never.

    Args:
        chunks: When so many more bytes come.
        every_s: The time between looks.
        until_s: How long they are made.
        ready: For how long the gateway was ready to read, at a time.
        least: The least rate.
    """
    rate = RequestRate(least, BEGAN)
    too_slow = stalled = None
    looks = int(until_s / every_s)
    for number in range(1, looks + 1):
        now = number * every_s
        received = sum(size for at, size in chunks if at <= now)
        rate.look(BEGAN + now, ready(now), received, SIZE)
        if too_slow is None and rate.is_too_slow:
            too_slow = now
        if stalled is None and rate.has_stalled:
            stalled = now
    return too_slow, stalled


def steadily(rate, *, every_s, until_s=60.0):
    return [(every_s * number, rate * every_s) for number in range(int(until_s / every_s))]


@pytest.mark.parametrize("looks_every_s", [0.1, 1.0])
@pytest.mark.parametrize(
    "chunks",
    [
        [(0.0, 300_000)],
        steadily(1, every_s=1),
        steadily(4000, every_s=0.5),
        [(0.0, 300_000), *steadily(4000, every_s=0.5)],
    ],
    ids=["silent", "a byte a second", "just below", "much, then just below"],
)
def test_a_request_below_the_least_rate_is_too_slow_after_the_window(chunks, looks_every_s):
    too_slow, _ = rated(chunks, every_s=looks_every_s)
    assert too_slow == pytest.approx(WINDOW_S, abs=2.01)


@pytest.mark.parametrize("every_s", [0.05, 0.5, 1.0])
def test_a_client_that_sends_steadily_is_neither_too_slow_nor_has_stalled(every_s):
    assert rated(steadily(16 * 1024, every_s=every_s)) == (None, None)
    assert rated(steadily(2**20, every_s=0.1)) == (None, None)


def test_a_client_that_the_gateway_has_paused_is_not_slow():
    assert rated([(0.0, 300_000)], ready=lambda _: 0.1) == (None, None)
    too_slow, stalled = rated([(0.0, 300_000)], ready=lambda now: now / 2)
    assert too_slow == pytest.approx(2 * WINDOW_S, abs=0.5)
    assert stalled == pytest.approx(2 * STALL_S, abs=0.35)


def test_a_client_whose_bytes_come_together_after_a_pause_has_not_stalled():
    """It has sent 16 KiB a second, which waited in the socket for 4 s."""
    rest = [(5.0 + number, 16 * 1024) for number in range(55)]
    pause = (1.0, 4.0)
    chunks = [(0.0, 16 * 1024), (4.0, 4 * 16 * 1024), *rest]
    assert rated(chunks, ready=lambda now: now - min(max(now - pause[0], 0), 3.0)) == (None, None)


@pytest.mark.parametrize("trickle", [0, 4200, 16 * 1024])
def test_a_request_that_comes_at_once_and_then_trickles_has_stalled(trickle):
    chunks = [(0.05, 300_000), *((0.5 + 0.1 * number, trickle / 10) for number in range(600))]
    _, stalled = rated(chunks)
    assert stalled <= STALL_S + 0.3


@pytest.mark.parametrize("round_trip_s", [0.3, 0.65])
def test_a_client_far_away_whose_windows_come_one_by_one_has_not_stalled(round_trip_s):
    """TCP sends ten packets in a round trip, then twice as many in each; the link may be idle."""
    windows = [(0.05 + round_trip_s * turn, 14_600 << min(turn, 4)) for turn in range(210)]
    assert rated(windows) == (None, None)


def test_without_a_least_rate_nobody_is_too_slow():
    assert rated([(0.0, 300_000)], least=0)[0] is None


def test_each_request_has_its_own_time():
    rate = RequestRate(LEAST, 0.0)
    for second in range(100):
        end = 100 * (second // 8 + 1)
        rate.look(second, second, end - 100 + second % 8, end)
        assert not rate.is_too_slow
        rate.look(second + 0.5, second + 0.5, end - 100 + second % 8, end)
    for second in range(100, 150):
        rate.look(second, second, 5000, None)
        assert not rate.is_too_slow

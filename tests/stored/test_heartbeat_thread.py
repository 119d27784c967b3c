"""Work in a thread, shown while it goes on."""

import threading
import time
from concurrent.futures import CancelledError

import pytest

from penstock.stored.tasks.heartbeat_thread import HeartbeatThread

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    for thread in threading.enumerate():
        if thread.name == "penstock-task":
            thread.join(60)


def ended(generator):
    """Return what a generator yields, and what it returns."""
    seen = []
    while True:
        try:
            seen.append(next(generator))
        except StopIteration as end:
            return seen, end.value


@pytest.mark.thorough
def test_work_that_goes_on_is_shown():
    heartbeat = HeartbeatThread()

    def work():
        for _ in range(20):
            heartbeat.beat()
            time.sleep(0.05)
        return "done"

    seen, result = ended(heartbeat.run(work))
    assert result == "done"
    assert 2 <= len(seen) <= 20


def test_work_that_hangs_is_not_shown():
    heartbeat = HeartbeatThread()
    assert ended(heartbeat.run(lambda: time.sleep(0.7))) == ([], None)


def test_errors_are_those_of_the_work():
    with pytest.raises(ZeroDivisionError):
        ended(HeartbeatThread().run(lambda: 1 / 0))


def test_work_that_is_not_wanted_any_more_ends():
    heartbeat, ends = HeartbeatThread(), []

    def work():
        try:
            while True:
                heartbeat.beat()
                time.sleep(0.01)
        except CancelledError:
            ends.append(True)
            raise

    running = heartbeat.run(work)
    next(running)
    running.close()
    until = time.monotonic() + 60
    while not ends and time.monotonic() < until:
        time.sleep(0.01)
    assert ends

"""Work in a thread, with heartbeats while it makes progress."""

import threading
import time
from concurrent.futures import CancelledError

import pytest

from penstock.jobs.tasks.heartbeat_thread import HeartbeatThread

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    for thread in threading.enumerate():
        if thread.name == "penstock-task":
            thread.join(60)


def ended(generator, seen=None):
    """Return the values that a generator yields, and its result."""
    seen = [] if seen is None else seen
    while True:
        try:
            seen.append(next(generator))
        except StopIteration as end:
            return seen, end.value


@pytest.mark.thorough
def test_progress_of_work_is_reported():
    heartbeat, seen, beats = HeartbeatThread(), [], 0

    def work():
        nonlocal beats
        while len(seen) < 2:
            beats += 1
            heartbeat.beat()
            time.sleep(0.05)
        return "done"

    assert ended(heartbeat.run(work), seen)[1] == "done"
    assert len(seen) <= beats


def test_work_that_hangs_has_no_progress():
    heartbeat = HeartbeatThread()
    assert ended(heartbeat.run(lambda: time.sleep(0.7))) == ([], None)


def test_errors_of_the_work_are_raised():
    with pytest.raises(ZeroDivisionError):
        ended(HeartbeatThread().run(lambda: 1 / 0))


def test_cancelled_work_ends():
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

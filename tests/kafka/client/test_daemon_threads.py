"""Threads for calls that may block for long."""

import subprocess
import sys
import threading
from concurrent.futures import CancelledError

import pytest

from penstock.kafka.client.connections.daemon_threads import DaemonThreads

BLOCKED = """
import threading
from penstock.kafka.client.connections.daemon_threads import DaemonThreads
DaemonThreads("blocked", 1).submit(threading.Event().wait)
print("the end")
"""


def test_results_and_errors():
    threads = DaemonThreads("x", 2)
    assert threads.submit(max, 1, 2).result(30) == 2
    assert threads.submit(sorted, [1, 2], reverse=True).result(30) == [2, 1]
    with pytest.raises(ZeroDivisionError):
        threads.submit(divmod, 1, 0).result(30)


def test_a_call_that_blocks_does_not_hold_up_the_next():
    ends = threading.Event()
    threads = DaemonThreads("x", 2)
    blocked = threads.submit(ends.wait, 30)
    try:
        assert threads.submit(max, 1, 2).result(30) == 2
        assert not blocked.done()
    finally:
        ends.set()
    assert blocked.result(30)


def test_calls_above_the_limit_wait_and_may_be_cancelled():
    ends = threading.Event()
    threads = DaemonThreads("limited", 2)
    blocked = [threads.submit(ends.wait, 30) for _ in range(2)]
    ran = []
    cancelled, waiting = (threads.submit(ran.append, number) for number in range(2))
    assert [thread.name for thread in threading.enumerate()].count("limited") == 2
    assert cancelled.cancel()
    assert not waiting.done()
    ends.set()
    assert [call.result(30) for call in blocked] == [True, True]
    waiting.result(30)
    assert ran == [1]
    with pytest.raises(CancelledError):
        cancelled.result(30)
    assert threads.submit(max, 1, 2).result(30) == 2


@pytest.mark.system
def test_a_process_ends_while_a_call_blocks():
    command = [sys.executable, "-c", BLOCKED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "the end\n"

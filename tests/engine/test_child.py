"""What a worker's socket brings, in pieces of any size."""

import subprocess
import sys

import pytest

from penstock.engine.verdict import ACCEPTED, refused
from penstock.engine.workers import messages
from penstock.engine.workers.processes.child import Child


class Heard:
    """Receives the messages of a worker."""

    def __init__(self):
        self.verdicts = []
        self.garbage = 0

    def on_verdicts(self, worker, verdicts):
        self.verdicts += verdicts

    def on_protocol_error(self, worker):
        self.garbage += 1


@pytest.fixture
def heard():
    return Heard()


@pytest.mark.parametrize("size", [1, 2, 5, 7, 64, 10_000])
def test_pieces_of_any_size(heard, size):
    child = Child(None, heard)
    data = b"".join(
        messages.verdict(n, ACCEPTED if n % 2 else refused(44, "x" * n, "P")) for n in range(1, 40)
    )
    for start in range(0, len(data), size):
        child.data_received(data[start : start + size])
    assert [number for number, _, _ in heard.verdicts] == list(range(1, 40))
    assert heard.garbage == 0


def test_a_large_message_is_not_joined_before_its_last_piece(heard):
    """Joined with each piece, 100 MiB in pieces of 64 KiB cost 80 GB of copies."""
    child = Child(None, heard)
    data = messages.PREFIX.pack(100 * 2**20 + 1, messages.VERDICT) + bytes(100 * 2**20)
    for start in range(0, len(data) - 65_536, 65_536):
        child.data_received(data[start : start + 65_536])
    assert sum(map(len, child._pieces)) > 99 * 2**20
    assert len(child._pieces) > 1_000


def test_an_invalid_length_is_reported_at_once(heard):
    child = Child(None, heard)
    child.data_received(messages.PREFIX.pack(2**32 - 1, messages.VERDICT))
    assert heard.garbage == 1


FORKED = """
import asyncio, os, sys
import uvloop
from penstock.engine.workers.processes.child import Child
from penstock.engine.workers.processes.worker import Worker

os.register_at_fork(after_in_child=lambda: os.write(1, b"forked "))

async def main():
    child = Child(Worker(1), None)
    await child.start()
    child.kill()
    await child.ended()
    print("ended")

uvloop.run(main())
"""


@pytest.mark.system
def test_no_python_runs_in_a_copy_of_the_gateway():
    """It has threads that a copy lacks."""
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "ended\n", done

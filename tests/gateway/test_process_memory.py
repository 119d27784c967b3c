"""`penstock.gateway.process_memory`."""

import gc
import os
import subprocess
import sys

import pytest

from penstock.gateway.process_memory import collect_seldom

_COUNT_ARENAS = """
import ctypes, os, sys, threading
from penstock.gateway.process_memory import share_arenas
share_arenas()
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fdopen.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
all_run = threading.Barrier(17)
def allocate():
    libc.malloc(100_000)
    all_run.wait(60)
threads = [threading.Thread(target=allocate) for _ in range(16)]
for thread in threads:
    thread.start()
all_run.wait(60)
stdout = ctypes.c_void_p(libc.fdopen(os.dup(1), b"w"))
libc.malloc_info(0, stdout)
libc.fflush(stdout)
"""


def test_many_new_objects_do_not_cause_a_full_garbage_collection():
    """A full collection with a request of 20,000 entries took 0.1 s, with 60,000 objects 30 ms.

    It blocks the event loop.
    """
    thresholds, seen = gc.get_threshold(), []

    def collected(phase, info):
        if phase == "start":
            seen.append((info["generation"], len(gc.get_objects(info["generation"]))))

    collect_seldom()
    gc.callbacks.append(collected)
    try:
        assert gc.get_freeze_count() > 10_000
        kept = [[number] for number in range(200_000)]
    finally:
        gc.callbacks.remove(collected)
        gc.set_threshold(*thresholds)
    assert kept
    assert len(seen) >= 15
    assert 2 not in {generation for generation, _ in seen}
    assert max(count for _, count in seen) < 8_000


@pytest.mark.system
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc has arenas")
@pytest.mark.parametrize(
    ("environment", "least", "most"),
    [({}, 1, max(2, os.cpu_count() or 1)), ({"MALLOC_ARENA_MAX": "5"}, 3, 5)],
)
def test_threads_share_arenas_unless_the_environment_sets_their_number(environment, least, most):
    without = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
    report = subprocess.run(
        [sys.executable, "-c", _COUNT_ARENAS],
        env={**without, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    assert least <= report.count("<heap nr=") <= most

"""The resource usage of processes that run and of processes that have ended."""

import os
import subprocess
import sys

import pytest

from penstock.gateway.observing.metrics import process_usage
from penstock.gateway.observing.metrics.process_usage import (
    Usage,
    WorkerUsage,
    most_descriptors,
    open_descriptors,
    usage_of,
)

BUSY = "sum(range(10**7)); print('done', flush=True); input()"


@pytest.mark.system
def test_a_process_of_any_name_is_measured(tmp_path):
    program = tmp_path / "a) b (c 1 2"
    program.symlink_to(sys.executable)
    with subprocess.Popen([program, "-c", BUSY], stdin=-1, stdout=-1, text=True) as running:
        running.stdout.readline()
        usage = usage_of(running.pid)
        running.communicate("\n")
    assert usage.cpu_s > 0
    assert usage.resident_bytes > 2**20
    assert usage_of(running.pid) is None


def test_the_usage_of_this_process_is_measured():
    assert usage_of("self").resident_bytes > 2**20
    before = open_descriptors()
    reading, writing = os.pipe()
    assert open_descriptors() == before + 2
    os.close(reading)
    os.close(writing)
    assert most_descriptors() >= before


def test_the_cpu_time_of_workers_never_decreases(monkeypatch):
    now = {1: Usage(5.0, 10), 2: Usage(1.0, 20)}
    monkeypatch.setattr(process_usage, "usage_of", now.get)
    workers = WorkerUsage()
    assert workers.of([]) == (0.0, 0)
    assert workers.of([1, 2]) == (6.0, 30)
    now[1] = Usage(7.0, 10)
    assert workers.of([1]) == (8.0, 10)  # the second has ended
    now[1] = Usage(0.5, 10)  # another process has its id
    assert workers.of([1]) == (8.5, 10)
    del now[1]
    assert workers.of([1]) == (8.5, 0)

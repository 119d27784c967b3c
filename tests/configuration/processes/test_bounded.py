"""A module that runs in a separate process: its timeout, and the processes that it leaves running."""

import subprocess
import sys
import threading
import time

import pytest

from penstock.configuration.processes.bounded import Imports, run_module
from tests.gateways import is_running, wait_until

pytestmark = pytest.mark.system
MODULE = """
import pathlib, subprocess, sys, time
started = subprocess.Popen(["sleep", "600"], start_new_session=sys.argv[2] == "apart")
pathlib.Path(sys.argv[1] + ".new").write_text(str(started.pid))
pathlib.Path(sys.argv[1] + ".new").rename(sys.argv[1])
time.sleep(float(sys.argv[3]))
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a module that starts a process; returns what it has started."""
    (tmp_path / "starts.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    pid = tmp_path / "pid"

    def run(where, sleeps_s, **options):
        options.setdefault("timeout_s", 60)
        run_module("starts", [str(pid), where, str(sleeps_s)], **options)

    run.pid = pid
    return run


@pytest.mark.parametrize("where", ["here", "apart"])
def test_processes_that_it_has_started_end_with_it(run, where):
    run(where, 0)
    assert not is_running(int(run.pid.read_text()))


@pytest.mark.parametrize("where", ["here", "apart"])
def test_processes_end_if_it_takes_too_long(run, where, monkeypatch):
    wait = subprocess.Popen.wait

    def waiting(process, timeout=None):
        if timeout is not None:  # until it is too late
            wait_until(run.pid.exists, 60)
        return wait(process, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", waiting)
    with pytest.raises(subprocess.TimeoutExpired):
        run(where, 600, timeout_s=0.01)
    assert not is_running(int(run.pid.read_text()))


def test_another_thread_can_end_it(run):
    imports = Imports()

    def end():
        wait_until(run.pid.exists, 60)
        imports.end()

    ending = threading.Thread(target=end)
    ending.start()
    began = time.monotonic()
    run("apart", 600, imports=imports)
    ending.join()
    assert time.monotonic() - began < 60
    assert not is_running(int(run.pid.read_text()))
    run("apart", 600, imports=imports)  # ended before it begins


def test_other_processes_of_the_caller_continue(run):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as own:
        run("here", 0)
        assert own.poll() is None

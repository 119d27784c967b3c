"""What tests have started ends with the process that runs them, however that ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.gateways import is_running, wait_until

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this"),
]
ROOT = Path(__file__).parents[1]
PROGRAM = """
import os, subprocess, time
from pathlib import Path
from penstock.kafka.local import LocalKafka
from tests.gateways import RunningGateway, gateway_port, write_configuration

def processes(folder):
    return [subprocess.Popen(["sleep", "600"], start_new_session=True).pid]

def servers(folder):
    kafka = LocalKafka(folder=folder / "kafka")
    kafka.start()
    port = gateway_port()
    gateway = RunningGateway(write_configuration(folder, kafka.bootstrap_servers, port, {{}}))
    return [kafka.nodes[0].pid, gateway.pid, *gateway.workers()]

def test_it(tmp_path):
    pids = [os.getpid(), *{starts}(tmp_path)]
    Path({pids!r} + ".new").write_text(" ".join(map(str, pids)))
    Path({pids!r} + ".new").rename({pids!r})
    time.sleep(600)
"""


class Run:
    """A run of pytest with a test that starts processes and does not end."""

    def __init__(self, folder: Path, starts: str, *options: str) -> None:
        pids = folder / "pids"
        (folder / "test_it.py").write_text(PROGRAM.format(starts=starts, pids=str(pids)))
        (folder / "pytest.ini").write_text("[pytest]\n")
        command = [
            sys.executable, "-m", "pytest", "-p", "tests.guard", "-c", str(folder / "pytest.ini"),
            "--max-worker-restart=0", *options, str(folder / "test_it.py"),
        ]  # fmt: skip
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        wait_until(lambda: pids.exists() or self.process.poll() is not None, 300)
        self.test, *self.started = map(int, pids.read_text().split())
        assert self.started
        assert all(map(is_running, self.started))

    def assert_that_all_ends(self) -> None:
        wait_until(lambda: not any(map(is_running, [self.test, *self.started])), 60)

    def end(self) -> None:
        self.process.kill()
        self.process.wait(60)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Starts runs, and ends them after the test."""
    running: list[Run] = []

    def start(starts: str, *options: str) -> Run:
        running.append(Run(tmp_path, starts, *options))
        return running[-1]

    yield start
    for started in running:
        started.end()


@pytest.mark.cases(2)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda n: n.name)
@pytest.mark.parametrize("options", [[], ["-n1"]], ids=["alone", "xdist"])
def test_processes_end_with_pytest(run, options, number):
    running = run("processes", *options)
    running.process.send_signal(number)
    running.assert_that_all_ends()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda n: n.name)
def test_processes_end_with_a_process_of_xdist(run, number):
    running = run("processes", "-n1")
    assert running.test != running.process.pid
    os.kill(running.test, number)
    running.assert_that_all_ends()


def test_brokers_and_gateways_end_with_a_process_of_xdist(run):
    running = run("servers", "-n1")
    os.kill(running.test, signal.SIGKILL)
    running.assert_that_all_ends()


def test_other_processes_stay(run):
    """Such as those of another run, and this process."""
    first = run("processes")
    with subprocess.Popen(["sleep", "600"]) as other:
        first.process.kill()
        first.assert_that_all_ends()
        assert other.poll() is None
        other.kill()

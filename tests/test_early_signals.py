"""Signals to a program that is still importing its modules, also as process 1 of a container."""

import functools
import signal
import subprocess
import sys

import pytest

from tests.gateways import write_configuration

pytestmark = pytest.mark.system

# The program sends itself a signal when it imports a module.
SENDS = """
import os, runpy, signal, sys
at, number = sys.argv[1:3]
sys.argv[1:3] = []
sys.modules["hypothesis"] = None

class Signals:
    def find_spec(self, name, path=None, target=None):
        if name == at:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), int(number))

sys.meta_path.insert(0, Signals())
runpy.run_module("penstock", run_name="__main__", alter_sys=True)
"""
AS_INIT = ["unshare", "--map-root-user", "--pid", "--fork", "--kill-child"]
HANGS = """
from penstock.policy import *
import pathlib, time
class Hangs(RecordsPolicy):
    def configure(self, configs):
        (pathlib.Path(__file__).parent / "configures").touch()
        time.sleep(600)
    def validate(self, *_): pass
"""


def run(command, module: str, number: int, *, before=()) -> subprocess.CompletedProcess[str]:
    arguments = [*before, sys.executable, "-c", SENDS, module, str(int(number)), *map(str, command)]
    return subprocess.run(
        arguments,
        preexec_fn=default_signals,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def default_signals() -> None:
    """Undo what the tests were started with: a job in the background, or `nohup`."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def file(tmp_path):
    return write_configuration(tmp_path, "127.0.0.1:1", 0, {})


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("module", "number", "before"),
    [
        ("penstock.cli", signal.SIGTERM, []),
        ("penstock.gateway.server", signal.SIGINT, []),
        ("penstock.cli", signal.SIGTERM, AS_INIT),
        ("uvloop", signal.SIGINT, AS_INIT),
    ],
)
def test_a_gateway_that_is_to_end_before_it_handles_signals_ends_with_0(
    file, module, number, before
):
    done = run(["gateway", file], module, number, before=before)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_gateway_that_is_to_reload_before_it_has_read_its_file_goes_on(tmp_path):
    done = run(["gateway", tmp_path / "missing"], "uvloop", signal.SIGHUP)
    assert done.returncode == 2, done.stderr
    assert "missing: cannot be read" in done.stderr


@pytest.mark.parametrize(("before", "code"), [([], 0), (["nohup"], 2)])
def test_dev_ends_with_its_terminal(tmp_path, before, code):
    done = run(["dev", tmp_path / "missing"], "uvloop", signal.SIGHUP, before=before)
    assert done.returncode == code, done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, -15), (signal.SIGINT, 130)])
def test_another_command_ends_as_without_a_handler(file, number, code):
    assert run(["check", file], "penstock.cli", number).returncode == code


def test_another_command_ends_as_process_1(file):
    assert run(["check", file], "penstock.cli", signal.SIGTERM, before=AS_INIT).returncode == 143


def test_a_signal_that_comes_before_python_waits_where_it_is_blocked(file):
    block = functools.partial(signal.pthread_sigmask, signal.SIG_BLOCK, [signal.SIGTERM])
    command = [sys.executable, "-m", "penstock", "gateway", str(file)]
    with subprocess.Popen(command, preexec_fn=block) as process:  # noqa: PLW1509 - no lock is taken
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_a_gateway_ends_while_a_policy_is_configured(tmp_path):
    properties = {"topics.*.records.policy.class.name": "policies.Hangs"}
    file = write_configuration(tmp_path, "127.0.0.1:1", 0, properties, HANGS)
    with subprocess.Popen([sys.executable, "-m", "penstock", "gateway", str(file)]) as process:
        while not (tmp_path / "configures").exists():
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0

"""Starts Penstock as a fork of a process that has imported it, and loaded Kafka's schemas.

That is most of what a start takes, and the tests start hundreds of gateways and commands. A
fork has its own pid, descriptors and signals; its environment is that of the process that runs the
tests.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Final

PROGRAM: Final = """import sys
sys.modules["hypothesis"] = None
from tests.forked import serve
sys.argv = ["penstock", *serve(int(sys.argv[1]))]
import runpy
runpy.run_module("penstock", run_name="__main__", alter_sys=True)
"""
_MESSAGE_MAX: Final = 65_536


class ForkedProcess:
    """A forked process, with the part of `subprocess.Popen` that tests use."""

    def __init__(self, pid: int, arguments: list[str]) -> None:
        self.pid = pid
        self.args = arguments
        self.returncode: int | None = None
        self.stdout: IO[str] | None = None
        self.stderr: IO[str] | None = None
        self._has_ended = threading.Event()

    def end(self, code: int) -> None:
        """Take its exit code."""
        self.returncode = code
        self._has_ended.set()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._has_ended.wait(timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        assert self.stdout is not None
        assert self.stderr is not None
        with self.stdout, self.stderr, ThreadPoolExecutor(2) as pool:
            pieces = pool.map(lambda pipe: pipe.read(), (self.stdout, self.stderr))
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            output, errors = pieces
        return output, errors

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Parent:
    """The process that forks."""

    def __init__(self) -> None:
        self.environment = _environment()
        self._starts = threading.Lock()
        self._started: queue.SimpleQueue[ForkedProcess | None] = queue.SimpleQueue()
        self._running: dict[int, ForkedProcess] = {}
        self._arguments: list[str] = []
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            # The streams of a fork are those of its parent, on other descriptors of their kind.
            self._process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(other.fileno())], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[other.fileno()],
            )  # fmt: skip
        threading.Thread(target=self._receive, daemon=True).start()
        atexit.register(self.close)

    def start(self, arguments: list[str]) -> ForkedProcess:
        """Start the program in this folder, with pipes for its output."""
        (output, stdout), (errors, stderr) = os.pipe(), os.pipe()
        with self._starts:
            self._arguments = arguments
            message = json.dumps([str(Path.cwd()), arguments]).encode()
            socket.send_fds(self._socket, [message], [stdout, stderr])
            process = self._started.get(timeout=60)
        if process is None:
            raise AssertionError(f"nothing forks gateways: {self._process.communicate()[1]!r}")
        os.close(stdout)
        os.close(stderr)
        process.stdout, process.stderr = os.fdopen(output), os.fdopen(errors)
        return process

    def _receive(self) -> None:
        """Take the pid of a process that was started, or that of one that ended with its code."""
        with contextlib.suppress(ConnectionResetError):
            while message := self._socket.recv(_MESSAGE_MAX):
                match json.loads(message):
                    case [pid]:
                        self._running[pid] = ForkedProcess(pid, self._arguments)
                        self._started.put(self._running[pid])
                    case [pid, code]:
                        self._running.pop(pid).end(code)
        self._started.put(None)

    def close(self) -> None:
        """End it."""
        atexit.unregister(self.close)
        self._socket.shutdown(socket.SHUT_RDWR)
        self._process.communicate(timeout=60)
        self._socket.close()


def start(arguments: list[str]) -> ForkedProcess | None:
    """Start `penstock` with arguments; return None where a fork would be another program.

    That is where a test has changed the environment, or what runs is measured (`make coverage`).
    """
    if sys.platform != "linux" or "coverage" in sys.modules:
        return None
    if not _parents:
        _parents.append(_Parent())
    [parent] = _parents
    return parent.start(arguments) if parent.environment == _environment() else None


_parents: Final[list[_Parent]] = []


def end() -> None:
    """End the process that forks. A later start makes a new process."""
    while _parents:
        _parents.pop().close()


def _environment() -> dict[str, str]:
    """Return the environment, without the name of the current test."""
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def serve(descriptor: int) -> list[str]:
    """Fork for each message; return the arguments of the program, in the fork.

    Args:
        descriptor: That of a socket to the process that runs the tests, which ends it.
    """
    for command in importlib.import_module("penstock.cli").COMMANDS:
        importlib.import_module(f"penstock.cli.{command}")
    importlib.import_module("penstock.gateway.sessions.schemas").load_schemas()
    importlib.import_module("penstock.configuration.model").Configuration.model_rebuild()
    gc.collect()
    gc.freeze()
    tests = socket.socket(fileno=descriptor)
    woken, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        readable, _, _ = select.select([tests.fileno(), woken], [], [])
        if woken in readable:
            os.read(woken, 4096)
            _send_ends(tests)
            continue
        message, descriptors, _, _ = socket.recv_fds(tests, _MESSAGE_MAX, 2)
        if not message:
            sys.exit()
        pid = os.fork()
        if not pid:
            break
        tests.send(json.dumps([pid]).encode())
        for passed in descriptors:
            os.close(passed)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    tests.close()
    for own in (woken, wakes):
        os.close(own)
    for standard, passed in enumerate(descriptors, start=1):
        os.dup2(passed, standard)
        os.close(passed)
    folder, arguments = json.loads(message)
    os.chdir(Path(folder))
    return list(arguments)


def _send_ends(tests: socket.socket) -> None:
    """Send the exit codes of the forks that have ended."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            tests.send(json.dumps([pid, os.waitstatus_to_exitcode(status)]).encode())

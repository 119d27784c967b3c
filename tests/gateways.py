"""Runs `penstock gateway` like a user."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.kafka.local import free_ports
from tests import forked

# kio imports Hypothesis where it is installed, which takes as long as all of Penstock.
START = """import runpy, sys
sys.modules["hypothesis"] = None
runpy.run_module("penstock", run_name="__main__", alter_sys=True)
"""
PENSTOCK = [sys.executable, "-c", START]
# What penstock.progress writes.
_WAITING = re.compile(
    r"loading the policies of .*|waiting for the cluster at .*: gives up after \d+ s"
    r"|.*: .*, [0-9a-z ]+ so far|.*: (\d+ (s|min|h|d) ?){1,2}"
)


def run_penstock(*arguments: object, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    texts = [str(argument) for argument in arguments]
    fork = forked.start(texts)
    if fork is None:
        return subprocess.run(
            [*PENSTOCK, *texts], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=timeout_s, check=False,
        )  # fmt: skip
    output, errors = fork.communicate(timeout_s)
    return subprocess.CompletedProcess(texts, fork.wait(), output, errors)


def without_plans(printed: str) -> tuple[str, int]:
    """Return what `check` printed without the digests of plans, and how many there were."""
    return re.subn(r"(?m)^  plan [0-9a-f]{12}\n", "", printed)


class RunningGateway:
    """A gateway process: its address, its log, its exit."""

    def __init__(self, file: Path, program: Sequence[str] = PENSTOCK) -> None:
        self.file = file
        self._program = program
        self.log: list[dict[str, Any]] = []
        self._start()

    def _start(self) -> None:
        arguments = ["gateway", str(self.file)]
        fork = forked.start(arguments) if self._program is PENSTOCK else None
        self.process = fork or subprocess.Popen(
            [*self._program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("ready "):
            self.process.wait(60)
            self._reader.join(60)
            self._close()
            raise AssertionError(f"not ready: {self.log}")
        self.address = line.split()[1]

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            try:
                self.log.append(json.loads(line))
            except ValueError:
                self.log.append({"event": line.rstrip(), "level": "not JSON"})

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def host_port(self) -> tuple[str, int]:
        host, _, port = self.address.rpartition(":")
        return host, int(port)

    def broker_address(self, node: int = 0) -> str:
        """Return the address of a broker for clients."""
        host, port = self.host_port
        return f"{host}:{port + 1 + node}"

    def workers(self) -> list[int]:
        """The process ids of its children."""
        found: list[int] = []
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(OSError):  # a thread that has ended meanwhile
                found.extend(map(int, (task / "children").read_text().split()))
        return found

    def events(self, name: str) -> list[dict[str, Any]]:
        return [event for event in list(self.log) if event.get("event") == name]

    def wait_for(self, name: str, count: int = 1, timeout_s: float = 60.0) -> list[dict[str, Any]]:
        """Wait for log events with a name."""
        wait_until(lambda: len(self.events(name)) >= count, timeout_s, what=f"log event {name}")
        return self.events(name)

    def stop(self, timeout_s: float = 60.0) -> int:
        """Send SIGTERM; return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout_s)
        self._reader.join(60)
        self._close()
        return code

    def kill(self) -> None:
        """Send SIGKILL."""
        self.process.kill()
        self.process.wait(60)
        self._reader.join(60)
        self._close()

    def restart(self, *, kill: bool = False) -> None:
        """Stop, or kill, and start again on the same ports."""
        if kill:
            self.kill()
        else:
            self.stop()
        self._start()

    def _close(self) -> None:
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


def write_configuration(
    folder: Path,
    upstream: str,
    port: int,
    properties: Mapping[str, object],
    policies: str = "",
) -> Path:
    """Write a configuration file, and the module `policies` next to it."""
    file = folder / "penstock.properties"
    lines = {
        "upstream.bootstrap.servers": upstream,
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        **properties,
    }
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    if policies:
        (folder / "policies.py").write_text(policies)
    return file


def gateway_port() -> int:
    """Return a free port for a gateway; those for its brokers, which follow it, are free too."""
    return free_ports(6)[0]


def wait_until(condition: Callable[[], object], timeout_s: float = 60.0, *, what: str = "") -> None:
    """Wait for a condition; fail after a time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s} s for {what or condition}"
        time.sleep(0.02)


def wait_until_settled(measure: Callable[[], object], timeout_s: float = 60.0) -> None:
    """Wait until a measure is the same ten times in a row."""
    deadline, seen = time.monotonic() + timeout_s, [object()]
    while len(seen) < 10:
        assert time.monotonic() < deadline, f"{measure} does not become stable: {seen}"
        value = measure()
        seen = [*seen, value] if value == seen[-1] else [value]
        time.sleep(0.05)


def without_waiting(errors: str) -> str:
    """Return a command's standard error without lines that only say that it takes long.

    They come after seconds, which a loaded machine may need for anything.
    """
    lines = errors.splitlines(keepends=True)
    return "".join(line for line in lines if not _WAITING.fullmatch(line.rstrip("\n")))


def is_running(pid: int) -> bool:
    """Return whether a process runs (and is not a zombie)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def descriptors(pid: int) -> int:
    """Return the number of open file descriptors of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")

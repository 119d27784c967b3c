"""Ends the processes that tests have started with the process that runs the tests.

However that ends: fixtures end what they started only when pytest ends in order, and a process of
pytest-xdist may be killed. Another process waits for the end, and then kills all that inherited an
environment variable. On Linux; elsewhere nothing is done.

`guard.py PID NAME=VALUE` is that process.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pytest

VARIABLE: Final = "STARTED_BY_TESTS"
_PASSES: Final = 50
_PASS_S: Final = 0.02
"""A killed process may just have started another process."""


def pytest_configure(config: "pytest.Config") -> None:
    """Begin to guard, in each process of pytest-xdist, too. Unit tests start no process."""
    if config.getoption("markexpr").split(" and ")[0] != "unit":
        end_with_this_process()


def end_with_this_process() -> None:
    """End all processes that are started from here on with this process."""
    if sys.platform != "linux":
        return
    marker = uuid.uuid4().hex
    # The guard of what runs this process must not kill that of this process. It is not a child
    # of this process, as tests wait for their children.
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    subprocess.run(
        [sys.executable, "-I", "-S", __file__, str(os.getpid()), f"{VARIABLE}={marker}"],
        check=True, env=environment, stdin=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    os.environ[VARIABLE] = marker


def marked(variable: bytes) -> list[int]:
    """Return the processes that were started with a variable of the environment."""
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended, or belongs to another user
            if variable in (process / "environ").read_bytes().split(b"\0"):
                pids.append(int(process.name))
    return pids


def main(pid: int, variable: bytes) -> None:
    """Wait in the background for the end of a process, then kill the marked processes."""
    process = os.pidfd_open(pid)
    if os.fork():
        return
    devnull = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(devnull, descriptor)
    select.select([process], [], [])
    for _ in range(_PASSES):
        left = marked(variable)
        if not left:
            break
        for started in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(started, signal.SIGKILL)
        time.sleep(_PASS_S)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2].encode())

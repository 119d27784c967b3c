"""Runs a program in a bounded time, and ends all that it has started.

The program imports classes of users, which may start other processes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from penstock.configuration.processes import descendants
from penstock.configuration.processes.environment import environment_of_policies

if TYPE_CHECKING:
    from collections.abc import Sequence


class Imports:
    """The processes of a thread that import classes of users, which another thread can end."""

    def __init__(self) -> None:
        """Begin without a process."""
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._are_ended = False

    def add(self, process: subprocess.Popen[bytes]) -> None:
        """Take the process that imports now; after `end` it is killed."""
        with self._lock:
            self._process = process
            if self._are_ended:
                process.kill()

    def end(self) -> None:
        """Kill the process that imports, and those that would follow."""
        with self._lock:
            self._are_ended = True
            if self._process is not None:
                self._process.kill()


def run_module(
    module: str,
    arguments: Sequence[str],
    timeout_s: float,
    *,
    pass_fds: Sequence[int] = (),
    imports: Imports | None = None,
) -> None:
    """Run a module in a process of its own until it ends; what it has started ends with it.

    Args:
        module: The module, as `python -m` takes it. It has no input, and its output is discarded.
        timeout_s: When it is killed.
        pass_fds: Descriptors that it gets.
        imports: Can end the process.

    Raises:
        OSError: There are no more processes.
        subprocess.TimeoutExpired: It was killed, because it took too long.
    """
    marker = descendants.new_marker()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=pass_fds,
            env={**environment_of_policies(), descendants.VARIABLE: marker},
            start_new_session=True,
        )
        descendants.started(marker, process.pid)
        if imports is not None:
            imports.add(process)
        try:
            process.wait(timeout_s)
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    finally:
        descendants.ended(marker)
        descendants.kill_descendants(marker)

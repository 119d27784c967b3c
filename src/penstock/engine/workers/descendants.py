"""Processes that a worker has started, also those that have left its process group.

They are recognised by an environment variable, which child processes inherit.
On Linux; elsewhere only the process group ends with a worker.
"""

from __future__ import annotations

import contextlib
import os
import signal
import uuid
from pathlib import Path
from typing import Final

VARIABLE: Final = "PENSTOCK_WORKER"
_PROCESSES: Final = Path("/proc")


def new_marker() -> str:
    """Return a value of the variable that is unique to a worker."""
    return uuid.uuid4().hex


def kill_descendants(marker: str) -> int:
    """Kill the processes that a worker has left running, and return their number.

    Args:
        marker: The worker's value of the variable.
    """
    wanted = f"{VARIABLE}={marker}".encode()
    ended = 0
    for process in _PROCESSES.glob("[0-9]*"):
        try:
            is_one = wanted in (process / "environ").read_bytes().split(b"\0")
        except OSError:  # it has just ended, or is somebody else's
            continue
        if is_one:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(int(process.name), signal.SIGKILL)
                ended += 1
    return ended

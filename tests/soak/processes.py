"""The processes that a soak has started, and their child processes."""

import ctypes
import os
import signal
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Final

_PR_SET_CHILD_SUBREAPER: Final = 36
"""prctl(2)."""


def adopt_orphans() -> None:
    """Become the parent of processes whose parents were killed, to find them at the end."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int) -> list[int]:
    """Return the ids of all running processes that a process and its children have started."""
    children: dict[int, list[int]] = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        children[int(fields[1])].append(int(stat.parent.name))
    found, parents = [], [pid]
    while parents:
        parents = [child for parent in parents for child in children[parent]]
        found += parents
    return found


def kill(pid: int) -> str:
    """Kill a process, and return its command line; empty if it had ended."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return " ".join(command.decode(errors="replace").split("\0"))[:200].strip()

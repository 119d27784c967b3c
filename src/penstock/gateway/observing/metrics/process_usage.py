"""CPU time, memory and descriptors of processes, as Linux's `/proc` shows them."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_PROC: Final = Path("/proc")
_USER_TIME, _SYSTEM_TIME = 11, 12
"""Places in `/proc/PID/stat`, after the name of the program."""


class Usage(NamedTuple):
    """The resources that a process uses.

    Attributes:
        cpu_s: CPU time since its start.
        resident_bytes: Memory.
    """

    cpu_s: float
    resident_bytes: int


def usage_of(pid: int | str) -> Usage | None:
    """Return the resources that a process uses; None if it has ended, or they are unknown.

    Args:
        pid: Its id, or `self`.
    """
    folder = _PROC / str(pid)
    try:
        # The name of the program is in parentheses, and may hold spaces and parentheses.
        fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
        pages = int((folder / "statm").read_bytes().split()[1])
        ticks = int(fields[_USER_TIME]) + int(fields[_SYSTEM_TIME])
    except (OSError, IndexError, ValueError):
        return None
    return Usage(ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE"))


def open_descriptors() -> int | None:
    """Return how many file descriptors this process has open; None if that is unknown."""
    try:
        # A Path for each of ten thousand would take long; the folder itself is open, too.
        return len(os.listdir(_PROC / "self" / "fd")) - 1  # noqa: PTH208
    except OSError:
        return None


def most_descriptors() -> int:
    """Return how many file descriptors this process may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class WorkerUsage:
    """The resources that the policy workers use, those included that have ended."""

    def __init__(self) -> None:
        """Make it without workers."""
        self._cpu_s: dict[int, float] = {}
        self._ended_s = 0.0

    def of(self, pids: Iterable[int]) -> Usage:
        """Return the CPU time of all workers that there were, and the memory of those alive.

        A worker that has ended counts with the time of the last look.

        Args:
            pids: The workers that are alive.
        """
        usages = {pid: usage for pid in pids if (usage := usage_of(pid)) is not None}
        for pid in self._cpu_s.keys() - usages.keys():
            self._ended_s += self._cpu_s.pop(pid)
        for pid, usage in usages.items():
            previous_cpu_s = self._cpu_s.get(pid, 0.0)
            if usage.cpu_s < previous_cpu_s:  # another process has the id now
                self._ended_s += previous_cpu_s
            self._cpu_s[pid] = usage.cpu_s
        total = self._ended_s + sum(self._cpu_s.values())
        return Usage(total, sum(usage.resident_bytes for usage in usages.values()))

"""What this machine, or the container that this process runs in, has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_CGROUP_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def memory_bytes() -> int:
    """Return the memory of the machine, or of the container where that is less."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for limit in _CGROUP_LIMITS:
        try:
            memory = min(memory, int(limit.read_text()))
        except (OSError, ValueError):  # there is none, or it is "max"
            continue
    return memory

"""How much memory Spark's JVM gets where a command starts it, by the memory of the machine.

With a master `local[...]` one JVM does all the work, and each core has a Python worker besides.
What a task holds is bounded by bytes, so a JVM needs a fixed amount and some for each core.
"""

from __future__ import annotations

import re
from typing import Final

_MIB: Final = 2**20
_FIXED: Final = 768 * _MIB
_FOR_A_CORE: Final = 256 * _MIB
_LEAST: Final = 1024 * _MIB
_LOCAL: Final = re.compile(r"local\[(\*|\d+)(?:,\s*\d+)?\]")


def cores_of(master: str, machine_cores: int) -> int:
    """Return how many tasks a master `local...` runs at a time."""
    match = _LOCAL.fullmatch(master)
    if match is None:
        return 1
    return machine_cores if match[1] == "*" else int(match[1])


def jvm_memory(cores: int, machine_bytes: int) -> str:
    """Return the memory of a JVM for so many tasks at a time, as Spark writes it.

    At most a third of the machine's memory, but at least 1 GiB: Spark needs that itself.
    """
    jvm_bytes = min(_FIXED + cores * _FOR_A_CORE, machine_bytes // 3)
    return f"{max(jvm_bytes, _LEAST) // _MIB}m"

"""The processes of Spark that a benchmark started, and the CPU time that they took."""

import os
import time
from pathlib import Path

SPARKS = {b"SparkSubmit": "Spark's JVM", b"pyspark.worker": "Python worker"}
TICK = os.sysconf("SC_CLK_TCK")


def sparks() -> dict[Path, str]:
    """Return the processes of Spark that this process started, by kind."""
    parents, kinds = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes()
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        found = [kind for text, kind in SPARKS.items() if text in command]
        kinds |= dict.fromkeys([path] if found else [], *found)

    def is_own(process: int) -> bool:
        while process > 1 and process != os.getpid():
            process = parents.get(process, 0)
        return process == os.getpid()

    return {path: kind for path, kind in kinds.items() if is_own(int(path.name))}


def cpu_s() -> float:
    """Return the CPU time of Spark's processes and of this process."""
    total = time.process_time()
    return total + sum(map(cpu_of, sparks()))


def cpu_of(process: Path) -> float:
    """Return the CPU time of a process, and of its children that have ended."""
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICK

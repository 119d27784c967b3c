"""Which processes have been started, by us and by those."""

from collections import defaultdict
from pathlib import Path


def descendants(pid: int) -> list[int]:
    """Return the ids of all processes that a process and its children have started, and that run."""
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

"""The groups of tests that a process of `make test` runs: files, or all files that share a slow start.

A Spark session takes ten seconds to start, and is fast after its first minute: two processes have a
session, and run half of Spark's tests each. A process has the broker that hostile clients may damage.
"""

from pathlib import PurePath

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from tests.order import TESTS, rank

SESSIONS = 2
"""The number of processes with a Spark session."""
_ON_SPARK = frozenset({"spark", "parity"})
_HOSTILE = "hostile"


class Scheduling(LoadFileScheduling):
    """Assigns files to processes, or all files that share a resource."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        path = PurePath(file).relative_to(TESTS.name)
        if path.parts[0] in _ON_SPARK:
            return f"Spark {rank(TESTS / path) % SESSIONS}"
        return _HOSTILE if path.parts[0] == _HOSTILE else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Schedule whole files, if requested by the command line."""
    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None

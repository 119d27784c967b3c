"""What one process of `make test` runs: whole files, or all the files that share what is slow to start.

A Spark session takes ten seconds to start, and is fast after its first minute: two processes have
one, and run half of Spark's tests each. One has the broker that hostile clients may harm.
"""

from pathlib import PurePath

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from tests.order import TESTS, rank

SESSIONS = 2
"""How many processes have a Spark session."""
_ON_SPARK = frozenset({"spark", "parity"})
_HOSTILE = "hostile"


class Scheduling(LoadFileScheduling):
    """Gives a process one file after the other, or all that shares something."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        path = PurePath(file).relative_to(TESTS.name)
        if path.parts[0] in _ON_SPARK:
            return f"Spark {rank(TESTS / path) % SESSIONS}"
        return _HOSTILE if path.parts[0] == _HOSTILE else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Schedule whole files, where that is asked for."""
    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None

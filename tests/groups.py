"""How the processes of `make test` share the tests: by files, and by what is slow to start.

A Spark session takes ten seconds to start, and is fast after its first minute: two processes have a
session. They run the files that need it first, each the next file when it has ended its last, and then
help the others, which run none of these files. A process has the broker that hostile clients may damage.
"""

import re
from collections.abc import Iterable
from pathlib import PurePath
from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

SESSIONS: Final = 2
"""The number of processes with a Spark session."""
_ON_SPARK: Final = frozenset({"spark", "parity"})
_ON_BOTH: Final = re.compile(r"[\[-]spark[\]-]")
"""The parameters of a test that runs on Spark and without it."""
_HOSTILE: Final = "hostile"


def needs_session(tests: Iterable[str]) -> bool:
    """Return whether one of some tests, by their ids, needs a Spark session."""
    return any(_folder(test) in _ON_SPARK or _ON_BOTH.search(test) for test in tests)


def _folder(test: str) -> str:
    return PurePath(test.split("::", maxsplit=1)[0]).parts[1]


class Scheduling(LoadFileScheduling):
    """Assigns files to processes, or all files that share a resource."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        self._with_session: list[WorkerController] = []
        self._is_on_spark: dict[str, bool] = {}

    def _split_scope(self, nodeid: str) -> str:
        return _HOSTILE if _folder(nodeid) == _HOSTILE else super()._split_scope(nodeid)

    def _reschedule(self, node: WorkerController) -> None:
        if self.workqueue and self._next_scope(node) is None:
            node.shutdown()  # after its last tests: the others have all that is left
            return
        super()._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        # Only at the start can there be nothing for a process.
        scope = self._next_scope(node) or next(iter(self.workqueue))
        if self._is_on_spark[scope] and node not in self._with_session:
            self._with_session.append(node)
        self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)

    def _next_scope(self, node: WorkerController) -> str | None:
        """Return the next files of a process: on Spark first, if it has or may have a session."""
        sessions = [other for other in self._with_session if other in self.assigned_work]
        may_have_session = node in sessions or len(sessions) < SESSIONS
        with_session, without = [], []
        for scope, tests in self.workqueue.items():
            if scope not in self._is_on_spark:
                self._is_on_spark[scope] = needs_session(tests)
            (with_session if self._is_on_spark[scope] else without).append(scope)
        candidates = with_session + without if may_have_session else without
        return candidates[0] if candidates else None


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Schedule whole files, if requested by the command line."""
    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None

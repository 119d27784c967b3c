"""Workers of a schedule, as metrics read them."""

from types import SimpleNamespace
from typing import Any

from penstock.engine.workers.processes.worker import Worker


def schedule(
    *states: Any, limit: int = 3, waiting: int = 0, outstanding: int = 0
) -> SimpleNamespace:
    workers = [Worker(number) for number in range(len(states))]
    for worker, state in zip(workers, states, strict=True):
        worker.state = state
    pool = SimpleNamespace(alive=workers, limit=limit)
    return SimpleNamespace(pool=pool, waiting=waiting, sent=outstanding - waiting)

"""Workers of a schedule, as metrics read them."""

from types import SimpleNamespace

from penstock.engine.workers.processes.worker import Worker


def schedule(*states, limit=3, waiting=0, outstanding=0):
    workers = [Worker(number) for number in range(len(states))]
    for worker, state in zip(workers, states, strict=True):
        worker.state = state
    pool = SimpleNamespace(alive=workers, limit=limit)
    return SimpleNamespace(pool=pool, waiting=waiting, outstanding=outstanding)

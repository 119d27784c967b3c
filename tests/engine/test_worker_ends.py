"""Why workers ended, as it is counted."""

import pytest

from penstock.engine.workers.observer import WorkerEnd
from penstock.engine.workers.schedule import WorkerLimits
from tests.engine.simulated import MEMORY, World

LIMITS = WorkerLimits(1, spare=True, timeout_s=1.0)


@pytest.fixture
def world():
    return World(LIMITS).open()


def until_killed(world, process):
    for _ in range(10_000):
        if process.killed:
            world.die(process)
            return
        world.tick()
    raise AssertionError("the process still runs")


def test_a_deadline(world):
    (process,) = world.ready
    world.submit()
    world.begin(process)
    until_killed(world, process)

    assert world.ends == [WorkerEnd.DEADLINE]


@pytest.mark.parametrize("busy", [False, True])
def test_a_crash(world, busy):
    (process,) = world.ready
    if busy:
        world.submit()
        world.begin(process)
    world.die(process)

    assert world.ends == [WorkerEnd.CRASHED]


def test_garbage_and_silence(world):
    (process,) = world.ready
    world.garbage(process)
    until_killed(world, process)
    assert world.ends == [WorkerEnd.PROTOCOL]

    for worker in world.living():
        world.settle(worker)
    (process,) = world.ready
    world.submit()
    world.tick(world.limits.timeout_s + 1)
    until_killed(world, process)
    assert world.ends == [WorkerEnd.PROTOCOL, WorkerEnd.STALLED]


def test_a_worker_without_memory_is_ended(world):
    (process,) = world.ready
    world.submit()
    world.judge(process, MEMORY)
    assert world.ends == []
    world.die(process)

    assert world.ends == [WorkerEnd.MEMORY]


def test_a_worker_that_ends_before_it_has_its_policies(world):
    (process,) = world.ready
    spare = next(worker for worker in world.living() if worker is not process)
    world.started(spare)
    world.die(process)
    world.tick(1.0)  # it judged nothing, so the next one comes after a pause
    assert spare.state == "loading"
    world.die(spare)
    assert world.ends == [WorkerEnd.CRASHED, WorkerEnd.NOT_LOADED]

    world.tick(1.0)
    started = next(worker for worker in world.living() if worker.state == "starting")
    world.die(started)
    assert world.ends[-1] is WorkerEnd.NOT_STARTED


def test_loading_for_too_long(world):
    (process,) = world.ready
    spare = next(worker for worker in world.living() if worker is not process)
    world.started(spare)
    world.die(process)
    until_killed(world, spare)

    assert world.ends == [WorkerEnd.CRASHED, WorkerEnd.LOAD_TIMEOUT]


def test_those_that_are_closed_are_not_counted(world):
    world.close()
    for process in world.living():
        world.settle(process)

    assert world.ends == []

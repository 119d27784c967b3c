"""The schedule of the workers: processes that cannot be started, and policies that cannot be loaded."""

import itertools

import pytest

from penstock.engine.verdict import ACCEPTED
from penstock.engine.workers.schedule import SchedulePhase, WorkerLimits
from tests.engine.simulated import World, not_judged


def test_a_failed_start_is_retried_with_a_growing_pause_and_batches_wait():
    world = World(WorkerLimits(1)).open()
    for process in world.living():
        world.die(process)
    job = world.submit(timeout_s=1000)
    brief = world.submit(timeout_s=3)
    tried = []
    while world.now < 100:
        for process in world.living():
            tried.append(world.now)
            world.die(process)
        world.tick(0.1)
    pauses = [round(b - a) for a, b in itertools.pairwise(tried)]
    assert pauses[-1] == 30
    assert len(tried) < 12
    assert list(world.answers) == [brief]
    assert not_judged(world.answers[brief])
    assert "no process can be started" in world.answers[brief].message
    world.be_kind(2000)
    assert world.answers[job] is ACCEPTED


def test_policies_that_cannot_be_loaded_again_answer_nothing_for_good():
    world = World(WorkerLimits(1)).open()
    (process,) = world.ready
    job = world.submit(timeout_s=5)
    world.die(process)
    for _ in range(100):
        for process in world.living():
            world.started(process)
            if process.state == "loading":
                world.die(process)
        world.tick(0.1)
    assert not_judged(world.answers[job])
    assert "cannot be loaded" in world.answers[job].message
    later = world.submit()
    world.be_kind(2000)
    assert world.answers[later] is ACCEPTED


def test_the_failure_of_the_first_start_is_reported():
    world = World(WorkerLimits(2))
    process, *_ = world.living()
    world.started(process)
    process.worker.failure = "policies has no class Misbehaves"
    world.die(process)
    assert world.schedule.phase is SchedulePhase.CANNOT_OPEN
    assert world.schedule.failure == "policies has no class Misbehaves"
    world.close()


def test_a_process_that_ends_before_it_has_policies_is_replaced_at_the_start():
    world = World(WorkerLimits(2))
    world.die(world.living()[0])
    for process in world.living():
        world.started(process)
    while not any(process.state == "starting" for process in world.living()):
        world.tick(0.1)
    spare = world.living()[-1]
    world.started(spare)
    assert spare.state == "spare"
    world.die(spare)
    world.open(tick_s=0.1)
    assert world.schedule.phase is SchedulePhase.SERVING
    assert len(world.ready) == 2


def test_a_worker_that_another_process_kills_while_it_loads_is_replaced_at_the_start():
    world = World(WorkerLimits(1))
    process, *_ = world.living()
    world.started(process)
    assert process.state == "loading"
    world.die(process, by_another=True)
    world.open(tick_s=0.1)
    assert world.schedule.phase is SchedulePhase.SERVING


def test_a_worker_that_ends_after_it_has_loaded_is_replaced_at_the_start():
    world = World(WorkerLimits(2))
    for process in world.living():
        world.started(process)
    process, *_ = world.living()
    world.loaded(process)
    world.die(process)
    world.open(tick_s=0.1)
    assert world.schedule.phase is SchedulePhase.SERVING
    assert len(world.ready) == 2


def test_a_worker_that_ends_while_it_loads_is_not_replaced_at_the_start():
    world = World(WorkerLimits(1))
    process, *_ = world.living()
    world.started(process)
    world.die(process)
    assert world.schedule.phase is SchedulePhase.CANNOT_OPEN
    assert world.schedule.failure == "a policy worker ended: why while its policies were loaded"


@pytest.mark.parametrize(
    ("is_started", "failure"),
    [
        (False, "a policy process cannot be started: why"),
        (True, "a policy worker ended: why while its policies were loaded"),
    ],
)
def test_processes_that_end_again_and_again_fail_the_start(is_started, failure):
    world = World(WorkerLimits(1, spare=False))
    ends = 0
    while world.schedule.phase is SchedulePhase.OPENING:
        for process in world.living():
            if is_started:
                world.started(process)
            ends += 1
            world.die(process, by_another=True)
        world.tick(0.1)
    assert world.schedule.phase is SchedulePhase.CANNOT_OPEN
    assert world.schedule.failure == failure
    assert ends == 4
    assert world.now > 1


def test_a_worker_that_loads_for_too_long_is_replaced():
    world = World(WorkerLimits(1))
    for process in world.living():
        world.started(process)
    for _ in range(400):
        world.tick(0.1)
    assert world.living()[0].killed

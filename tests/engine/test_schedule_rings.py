"""The schedule and the rings of workers, through which native threads have batches judged."""

from penstock.engine.workers.processes.worker import KillReason, WorkerState
from penstock.engine.workers.progress import DONE, PREPARING
from penstock.engine.workers.rings import RingFigures
from penstock.engine.workers.schedule import WorkerLimits
from tests.engine.simulated import World

IDLE = RingFigures(0, 0, 0, 0, False)


def ring(world, process, **figures):
    """Let a worker's ring be in a state."""
    world.rings[process.worker] = IDLE._replace(**figures)


def pass_time(world, seconds):
    for _ in range(round(seconds / 0.02)):
        world.tick()


def test_each_slot_is_served_by_its_worker():
    world = World(WorkerLimits(2)).open()
    assert world.schedule.servers == world.schedule.pool.slots
    assert None not in world.schedule.servers


def test_before_the_start_and_after_the_end_no_slot_is_served():
    assert World(WorkerLimits(2)).schedule.servers == [None, None]
    world = World(WorkerLimits(2)).open()
    world.close()
    assert world.schedule.servers == [None, None]


def test_a_quick_ring_changes_nothing():
    world = World(WorkerLimits(1)).open()
    (process,) = world.ready
    for number in range(1, 500):
        ring(world, process, current=number, batch_count=number + 3, outcome_count=number - 1)
        world.tick()
    assert process.worker.state is WorkerState.READY
    assert not world.recalled
    assert process.worker.has_answered


def test_batches_of_rings_are_among_those_that_wait_and_those_that_were_sent():
    world = World(WorkerLimits(1)).open()
    (process,) = world.ready
    world.submit()
    ring(world, process, current=3, batch_count=5, outcome_count=2, waiting_count=7)
    world.tick()
    assert (world.schedule.waiting, world.schedule.sent) == (7, 1 + 3)
    world.rings = {}
    world.tick()
    assert (world.schedule.waiting, world.schedule.sent) == (0, 1)


def test_a_batch_of_a_ring_that_takes_long_blocks_its_worker_until_it_is_done():
    world = World(WorkerLimits(1)).open()
    (process,) = world.ready
    ring(world, process, current=1, batch_count=1)
    pass_time(world, 0.2)
    assert process.worker.state is WorkerState.BLOCKED
    assert world.recalled == [process.worker]
    assert process.worker not in world.schedule.servers
    ring(world, process, batch_count=1, outcome_count=1)
    world.tick()
    assert process.worker.state is WorkerState.READY
    assert world.schedule.servers == [process.worker]


def test_a_worker_that_nobody_waits_for_may_be_slower():
    world = World(WorkerLimits(1, blocked_after_s=1.0)).open()
    (process,) = world.ready
    ring(world, process, current=1, batch_count=1)
    pass_time(world, 0.9)
    assert process.worker.state is WorkerState.READY
    pass_time(world, 0.2)
    assert process.worker.state is WorkerState.BLOCKED


def test_jobs_go_to_another_worker_while_a_ring_blocks_theirs():
    world = World(WorkerLimits(1)).open()
    (process,) = world.ready
    ring(world, process, current=1, batch_count=1)
    job = world.submit()
    assert job.attempt in process.worker.sent_jobs
    pass_time(world, 0.2)
    assert not process.worker.sent_jobs
    for other in world.living():
        if other is not process:
            world.settle(other)
    assert any(world.judge(other) for other in world.ready if other is not process)
    assert job in world.answers


def test_a_batch_of_a_ring_has_the_deadline_of_policies():
    world = World(WorkerLimits(1, timeout_s=2.0, preparation_timeout_s=3.0)).open()
    (process,) = world.ready
    job = world.submit()
    assert world.judge(process)
    ring(world, process, current=1, batch_count=1)
    pass_time(world, 1.9)
    assert process.worker.state is WorkerState.BLOCKED
    pass_time(world, 0.2)
    assert process.worker.state is WorkerState.KILLED
    assert process.worker.kill_cause.reason is KillReason.DEADLINE_EXCEEDED
    assert list(world.answers) == [job]


def test_a_policy_that_prepares_in_a_ring_has_its_own_deadline_and_then_that_of_a_decision():
    world = World(WorkerLimits(1, timeout_s=2.0, preparation_timeout_s=10.0)).open()
    (process,) = world.ready
    ring(world, process, current=1, batch_count=1)
    process.phase = PREPARING
    pass_time(world, 6)
    assert process.worker.state is WorkerState.BLOCKED
    process.phase = DONE
    pass_time(world, 1.8)
    assert process.worker.state is WorkerState.BLOCKED
    pass_time(world, 0.4)
    assert process.worker.state is WorkerState.KILLED


def test_a_worker_that_a_job_blocks_has_the_batches_of_its_ring_recalled():
    world = World(WorkerLimits(1)).open()
    (process,) = world.ready
    ring(world, process, batch_count=3)
    world.submit()
    world.begin(process)
    pass_time(world, 0.2)
    assert process.worker.state is WorkerState.BLOCKED
    assert world.recalled == [process.worker]


def test_a_worker_that_is_out_of_memory_in_its_ring_ends():
    world = World(WorkerLimits(1)).open()
    (process,) = world.ready
    world.schedule.out_of_memory(process.worker, world.now)
    world.carry_out()
    assert process.worker.state is WorkerState.CLOSING
    assert process.worker.out_of_memory


def test_a_worker_that_writes_nonsense_into_its_ring_is_killed():
    world = World(WorkerLimits(1)).open()
    (process,) = world.ready
    ring(world, process, is_broken=True)
    world.tick()
    assert process.worker.kill_cause.reason is KillReason.PROTOCOL_ERROR


def test_batches_that_a_worker_does_not_begin_come_back():
    world = World(WorkerLimits(1, timeout_s=1.0)).open()
    (process,) = world.ready
    ring(world, process, batch_count=5, outcome_count=2)
    pass_time(world, 0.9)
    assert not world.recalled
    pass_time(world, 0.3)
    assert world.recalled == [process.worker]


def test_a_partition_with_a_worker_of_its_own_takes_its_slot_from_rings():
    world = World(WorkerLimits(1)).open()
    (process,) = world.ready
    world.submit(("slow", 0))
    world.begin(process)
    for _ in range(8):
        world.tick()
    for other in world.living():
        if other is not process:
            world.settle(other)
    world.tick()
    assert world.schedule.servers == [None]
    world.end(process)
    world.be_kind(10)
    assert world.schedule.servers != [None]


def test_a_worker_with_a_batch_that_is_to_be_alone_gets_none_of_rings():
    world = World(WorkerLimits(1)).open()
    (process,) = world.ready
    job = world.submit()
    process.worker.exclusive = True
    assert world.schedule.servers == [None]
    process.worker.exclusive = False
    process.worker.drains = True
    assert world.schedule.servers == [None]
    assert job in world.jobs

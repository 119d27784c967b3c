"""The schedule of the workers: the batch that is charged with a timeout, or the end of a process."""

import pytest

from penstock.engine.verdict import ACCEPTED
from penstock.engine.workers.observer import WorkerEnd
from penstock.engine.workers.schedule import WorkerLimits
from tests.engine.places import PLACES
from tests.engine.simulated import MEMORY, World, not_judged


@pytest.mark.parametrize(("interceptors", "code"), [("", -1), ("I", 87)])
def test_a_batch_in_hand_is_charged_with_the_end_of_its_process(interceptors, code):
    world = World(WorkerLimits(1, failed_code=87)).open()
    (process,) = world.ready
    jobs = [world.submit(interceptors=interceptors) for _ in range(3)]
    world.begin(process)
    world.die(process)
    assert list(world.answers) == jobs[:1]
    assert world.answers[jobs[0]].code == code
    world.be_kind(10)
    assert [world.answers[job] for job in jobs[1:]] == [ACCEPTED] * 2


def test_a_batch_that_was_not_begun_is_not_charged():
    world = World(WorkerLimits(1)).open()
    for _ in range(5):
        job = world.submit()
        (process,) = world.ready
        world.die(process)
        while not world.ready:
            for process in world.living():
                world.settle(process)
            world.tick(0.1)
    world.be_kind(10)
    assert set(world.answers.values()) == {ACCEPTED}
    assert world.begun[job] == 1


def test_a_judged_batch_is_not_charged_with_later_events():
    world = World(WorkerLimits(1)).open()
    (process,) = world.ready
    job = world.submit()
    world.begin(process)
    world.end(process)
    world.die(process)
    world.be_kind(200)
    assert world.answers[job] is ACCEPTED


def test_a_batch_whose_verdict_is_lost_every_time_is_given_up():
    world = World(WorkerLimits(1)).open()
    job = world.submit()
    for _ in range(1000):
        for process in world.living():
            world.settle(process)
            world.begin(process)
            world.end(process)
            if process.gathered:
                world.die(process)
        world.tick(0.1)
    assert world.answers[job].code == -1
    assert world.begun[job] == 3


@pytest.mark.parametrize("interceptors", ["", "I"])
def test_a_batch_whose_worker_another_process_kills_is_judged_by_the_next(interceptors):
    world = World(WorkerLimits(1)).open()
    (process,) = world.ready
    killed, behind = world.submit(interceptors=interceptors), world.submit()
    world.begin(process)
    world.die(process, by_another=True)
    assert world.answers == {}
    world.be_kind(20)
    assert [world.answers[job] for job in (killed, behind)] == [ACCEPTED] * 2
    assert [world.begun[job] for job in (killed, behind)] == [2, 1]
    assert world.begun_order[("t", 0), None] == [killed, killed, behind]


@pytest.mark.parametrize(
    ("interceptors", "expected"),
    [
        ("", "The policy P ended its process"),
        ("I", "unable to successfully process the request: their process ended"),
    ],
)
def test_a_batch_at_which_workers_are_killed_every_time_is_given_up(interceptors, expected):
    """It may be the batch for which the kernel has no memory."""
    world = World(WorkerLimits(1, failed_code=-1)).open()
    job = world.submit(interceptors=interceptors)
    for _ in range(1000):
        for process in world.living():
            world.settle(process)
            if world.begin(process):
                world.die(process, by_another=True)
        world.tick(0.1)
    assert world.answers[job].code == -1
    assert expected in world.answers[job].message
    assert world.begun[job] == 3


@pytest.mark.parametrize("depth", [1, 2, 10])
def test_a_batch_that_is_judged_alone_is_not_kept_waiting_by_other_partitions(depth):
    """Its worker was killed; until there is another, the second worker judges for both."""
    world = World(WorkerLimits(2)).open()
    first, two = sorted(world.ready, key=lambda process: process.worker.number)
    partitions = [("t", number) for number in range(20)]
    slots = {at: world.schedule._find_queue(at).worker for at in partitions}
    ours = next(at for at in partitions if slots[at] is first.worker)
    others = next(at for at in partitions if slots[at] is two.worker)
    lost = world.submit(ours)
    world.begin(first)
    for _ in range(depth):
        world.submit(others)
    world.die(first, by_another=True)
    steps = 0
    while lost not in world.answers and steps < 400:
        world.submit(others)
        world.judge(two)
        steps += 1
    assert steps <= depth + 2
    assert world.answers[lost] is ACCEPTED


def test_only_the_batch_that_ran_into_its_deadline_is_charged():
    world = World(WorkerLimits(1, timeout_s=1)).open()
    (process,) = world.ready
    overdue, behind = world.submit(), world.submit()
    world.begin(process)
    while not process.killed:
        world.tick()
    assert 1 < world.now < 1.2
    world.die(process)
    assert world.answers[overdue].message == "The policy P did not decide within 1000 ms"
    world.be_kind(100)
    assert world.answers[behind] is ACCEPTED


def test_a_deadline_counts_from_when_a_batch_is_begun():
    world = World(WorkerLimits(1, timeout_s=1)).open()
    (process,) = world.ready
    world.submit()
    for _ in range(45):
        world.tick()
    world.begin(process)
    for _ in range(45):
        world.tick()
    assert not process.killed
    for _ in range(10):
        world.tick()
    assert process.killed


@pytest.mark.parametrize(("timeout_s", "within_s"), [(5.0, 5.2), (2.0, 2.2), (0.1, 1.2)])
def test_a_worker_that_begins_no_job_is_overdue_and_no_job_is_charged(timeout_s, within_s):
    """It is stopped, or swapped out."""
    world = World(WorkerLimits(1, timeout_s=timeout_s)).open()
    (process,) = world.ready
    jobs = [world.submit(("t", number), timeout_s=22.5) for number in range(20)]
    while not process.killed:
        world.tick()
        assert world.now < within_s
    assert world.now > timeout_s
    assert world.answers == {}
    world.be_kind(100)
    assert [world.answers[job] for job in jobs] == [ACCEPTED] * 20
    assert set(world.begun.values()) == {1}
    assert world.ends == [WorkerEnd.STALLED]


def test_a_worker_that_stands_still_before_it_sends_a_verdict_is_not_charged_to_its_batch():
    world = World(WorkerLimits(1, timeout_s=1.0)).open()
    (process,) = world.ready
    job = world.submit(timeout_s=22.5)
    world.begin(process)
    world.end(process)
    while not process.killed:
        world.tick()
        assert world.now < 1.2
    world.be_kind(100)
    assert world.answers[job] is ACCEPTED
    assert world.begun[job] == 2


def test_a_worker_that_judges_slowly_but_steadily_is_not_overdue():
    world = World(WorkerLimits(1, timeout_s=1.0)).open()
    (process,) = world.ready
    for number in range(20):
        world.submit(("t", number))
    for _ in range(20):
        world.begin(process)
        world.tick(0.8)
        world.judge(process)
    assert not process.killed


def test_interceptors_have_their_retries_and_then_the_batch_rests():
    limits = WorkerLimits(1, interceptors_timeout_s=0.5, retries=2, timeout_s=9)
    world = World(limits).open()
    job = world.submit(interceptors="I", timeout_s=100)
    behind = world.submit(interceptors="I", timeout_s=100)
    while job not in world.answers:
        for process in world.living():
            world.settle(process)
            world.begin(process)
        world.tick()
    assert world.begun[job] == 3
    assert world.answers[job].code == 7
    assert "3 attempts (500 ms each)" in world.answers[job].message
    assert [rest.job for rest in world.rests] == [job]
    assert behind not in world.answers


def test_garbage_of_several_batches_has_them_tried_singly():
    world = World(WorkerLimits(1)).open()
    (process,) = world.ready
    jobs = [world.submit(("t", number)) for number in range(5)]
    world.begin(process)
    world.garbage(process)
    assert process.killed
    world.die(process)
    assert not world.answers
    culprit = jobs[2]
    for _ in range(2000):
        for process in world.living():
            world.settle(process)
            world.begin(process)
            if process.state == "ready" and process.current and process.current[1] is culprit:
                assert len(process.worker.sent_jobs) == 1
                world.garbage(process)
            else:
                world.judge(process)
        world.tick(0.05)
    assert [world.answers[job].code for job in jobs] == [0, 0, -1, 0, 0]


def test_a_killed_worker_that_does_not_die_delays_only_its_jobs():
    world = World(WorkerLimits(2)).open()
    process, _ = world.ready
    queue = process.worker.queues[0]
    stuck = world.submit(next(p for p in PLACES if world.schedule._find_queue(p) is queue))
    world.begin(process)
    for _ in range(8):
        world.tick()
    world.garbage(process)
    jobs = [
        world.submit(topic_partition)
        for topic_partition in PLACES
        if topic_partition != stuck.topic_partition
    ]
    for _ in range(20):
        for other in world.living():
            if other is not process:
                world.settle(other)
                while world.judge(other):
                    pass
        world.tick()
    assert set(world.answers) == set(jobs)


def test_every_job_of_a_killed_worker_that_does_not_die_is_answered():
    """It stands in the kernel (a file system that hangs, a core dump) for as long as it likes."""
    world = World(WorkerLimits(1, timeout_s=5.0)).open()
    (process,) = world.ready
    jobs = [world.submit(("t", 0), timeout_s=22.5) for _ in range(3)]
    world.begin(process)
    world.garbage(process)
    for _ in range(50 * 30):
        for other in world.living():
            if other is not process:
                world.settle(other)
        world.tick()
    assert all(not_judged(world.answers[job]) for job in jobs)
    world.die(process)


def test_a_batch_begun_just_before_its_client_times_out_costs_no_worker():
    """It waited behind others; its interceptor has its complete time."""
    world = World(WorkerLimits(1, interceptors_timeout_s=5.0)).open()
    (process,) = world.ready
    job = world.submit(interceptors="I", timeout_s=22.5)
    world.now += 22.49
    world.begin(process)
    for _ in range(50):
        world.tick()
    assert world.answers[job].code == 7
    assert "the client's own timeout" in world.answers[job].message
    assert (process.killed, world.rests) == (False, [])
    world.end(process)
    world.send(process)
    world.deliver(process)
    later = world.submit(interceptors="I")
    world.judge(process)
    assert world.answers[later] is ACCEPTED


def test_an_interceptor_that_hangs_past_its_client_is_ended_and_the_batch_rests():
    world = World(WorkerLimits(1, interceptors_timeout_s=5.0)).open()
    (process,) = world.ready
    job = world.submit(interceptors="I", timeout_s=1.0)
    world.begin(process)
    for _ in range(300):
        world.tick()
    assert process.killed
    world.die(process)
    assert world.answers[job].code == 7
    assert [(rest.job, rest.spent_s) for rest in world.rests] == [(job, 5.0)]


def test_a_process_out_of_memory_is_not_trusted_further():
    world = World(WorkerLimits(1)).open()
    (process,) = world.ready
    first, second = world.submit(), world.submit()
    world.judge(process, MEMORY)
    assert world.answers == {first: MEMORY}
    assert process.state == "closing"
    assert not world.begin(process)
    world.be_kind(10)
    assert world.answers[second] is ACCEPTED

"""The schedule of the workers: its decisions, in simulated worlds."""

import itertools
import math
import os
import statistics
import sys

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.engine.verdict import ACCEPTED, FailureCause
from penstock.engine.workers.jobs import JobState, JudgingJob
from penstock.engine.workers.observer import WorkerEnd
from penstock.engine.workers.processes.worker import AHEAD_S, Worker, WorkerState
from penstock.engine.workers.schedule import SchedulePhase, WorkerLimits
from tests.engine.simulated import MEMORY, REFUSED, ClosedLoop, World, not_judged

PLACES = [("t", number) for number in range(10)]

# One worker, all well


def test_a_job_is_sent_to_a_worker_and_answered_with_its_verdict():
    world = World().open()
    job = world.submit()
    assert job.state is JobState.SENT
    (process,) = world.ready
    world.judge(process, REFUSED)
    assert world.answers == {job: REFUSED}


def test_a_schedule_is_idle_between_jobs():
    world = World(WorkerLimits(2)).open()
    assert world.schedule.is_idle
    world.submit()
    assert not world.schedule.is_idle
    assert any(world.judge(process) for process in world.ready)
    assert world.schedule.is_idle


def test_workers_are_started_with_a_spare():
    world = World(WorkerLimits(3)).open()
    states = sorted(process.worker.state for process in world.living())
    assert states == [WorkerState.SPARE] + [WorkerState.READY] * 3


def test_a_partition_goes_to_the_same_worker_while_all_is_well():
    world = World(WorkerLimits(4)).open()
    used: dict[object, set[Worker]] = {}
    for _ in range(5):
        for number in range(20):
            job = world.submit(("t", number))
            for process in world.ready:
                if world.judge(process):
                    used.setdefault(job.topic_partition, set()).add(process.worker)
    assert {len(workers) for workers in used.values()} == {1}
    assert len({next(iter(workers)) for workers in used.values()}) == 4


def test_no_state_is_reached_that_may_not_follow():
    job = JudgingJob(("t", 0), None, "P", "", None, None, 0, math.inf)
    with pytest.raises(AssertionError, match="WAITING to BEGUN"):
        job.become(JobState.BEGUN)
    worker = Worker(1)
    worker.become(WorkerState.DEAD)
    with pytest.raises(AssertionError, match="DEAD to READY"):
        worker.become(WorkerState.READY)


# Verdicts


def test_a_verdict_of_an_attempt_that_no_longer_counts_is_ignored():
    world = World().open()
    first = world.submit()
    (process,) = world.ready
    world.schedule.verdict(process.worker, first.attempt + 1000, REFUSED, world.now)
    world.carry_out()
    assert not world.answers
    assert process.worker.state is WorkerState.READY


def test_a_second_verdict_about_a_job_is_ignored():
    world = World().open()
    job = world.submit()
    (process,) = world.ready
    for verdict in (ACCEPTED, REFUSED):
        world.schedule.verdict(process.worker, job.attempt, verdict, world.now)
    world.carry_out()
    assert world.answers == {job: ACCEPTED}


# Slow policies


def hold_up(world: World, topic_partition=("slow", 0)):
    """Let a worker be busy with a batch for long."""
    job = world.submit(topic_partition)
    process = next(p for p in world.ready if job.attempt in p.worker.sent)
    assert world.begin(process)
    for _ in range(8):
        world.tick()
    assert process.worker.state is WorkerState.BLOCKED
    return job, process


def test_a_slow_batch_holds_up_its_own_partition_only():
    world = World().open()
    slow, held_up = hold_up(world)
    same = world.submit(("slow", 0))
    others = [world.submit(("quick", number)) for number in range(50)]
    for _ in range(10):
        for process in world.living():
            if process is not held_up:
                world.settle(process)
                while world.judge(process):
                    pass
        world.tick()
    assert set(world.answers) == set(others)
    world.end(held_up)
    world.be_kind(10)
    assert [*world.answers][-2:] == [slow, same]


def test_batches_behind_a_slow_batch_are_recalled_and_judged_once():
    world = World().open()
    jobs = [world.submit(("t", number)) for number in range(10)]
    (process,) = world.ready
    world.begin(process)
    assert len(process.worker.sent) > 1
    for _ in range(10):
        world.tick()
    assert list(process.worker.sent.values()) == [jobs[0]]
    world.end(process)
    world.be_kind(100)
    assert set(world.begun.values()) == {1}


def test_batches_wait_in_order_if_all_workers_are_blocked():
    world = World(WorkerLimits(1)).open()
    hold_up(world, ("slow", 0))
    world.submit(("slow", 1))
    for process in world.living():
        world.settle(process)
    (second,) = [p for p in world.ready if p.inbox]
    world.begin(second)
    others = [world.submit(("quick", number)) for number in range(20)]
    for _ in range(20):
        world.tick()
    assert {p.worker.state for p in world.ready} == {WorkerState.BLOCKED}
    sent = world.sent_count
    for _ in range(100):
        world.tick()
    assert world.sent_count == sent
    assert all(job.state is JobState.WAITING for job in others)
    world.end(second)
    world.be_kind(20)


def test_a_moderately_slow_policy_is_sent_little_ahead():
    """Each batch takes 30 ms: no client waits for more than a few of another client's."""
    world = World().open()
    (process,) = world.ready
    for _ in range(200):
        world.submit(("t", 0), "greedy")
    for _ in range(10):
        world.judge(process)
        world.tick(0.03)
    late = world.submit(("t", 0), "late")
    judged = 0
    while late not in world.answers:
        world.judge(process)
        world.tick(0.03)
        judged += 1
    assert judged <= 6


# Turns


def test_connections_take_turns():
    world = World().open()
    (process,) = world.ready
    for number in range(3000):
        world.submit(("t", number % 2), "greedy", size=1000)
    in_flight_max = len(process.worker.sent)
    modest = [world.submit(("t", 0), "modest") for _ in range(3)]
    for _ in range(in_flight_max + 8):
        world.judge(process)
    assert set(modest) <= set(world.answers)


@pytest.mark.parametrize("takes_s", [0.09, 0.03, 0.009])
def test_a_client_of_quick_batches_waits_for_about_one_slow_batch(takes_s):
    """None of them takes so long that its worker counts as blocked."""
    world = World(WorkerLimits(1)).open()
    slow = [ClosedLoop(f"slow-{i}", takes_s, ("slow", i)) for i in range(10)]
    quick = ClosedLoop("quick", 0.001, ("quick", 0))
    world.serve([*slow, quick], for_s=100 * takes_s)
    half = quick.waits[len(quick.waits) // 2 :]
    ahead_s = AHEAD_S if takes_s < AHEAD_S else 0.002
    assert statistics.median(half) <= takes_s + ahead_s
    assert max(half) <= 2 * (takes_s + ahead_s)
    judged = [len(client.waits) for client in slow]
    assert max(judged) <= min(judged) + 2


def test_clients_whose_batches_take_long_get_the_same_time_not_the_same_number():
    world = World(WorkerLimits(1)).open()
    slow = ClosedLoop("slow", 0.08, ("slow", 0), pipelined=5)
    others = [ClosedLoop(f"other-{i}", 0.04, ("other", i), pipelined=5) for i in range(2)]
    world.serve([slow, *others], for_s=8.0)
    for other in others:
        assert len(other.waits) == pytest.approx(2 * len(slow.waits), rel=0.1)


def test_a_client_that_was_alone_does_not_pay_for_it_later():
    """Time that no other client needed is not counted."""
    world = World(WorkerLimits(1)).open()
    alone = ClosedLoop("alone", 0.05, ("a", 0))
    world.serve([alone], for_s=20.0)
    before = len(alone.waits)
    other = ClosedLoop("other", 0.05, ("b", 0))
    world.serve([alone, other], for_s=2.0)
    assert len(alone.waits) - before == pytest.approx(len(other.waits), abs=2)


def test_a_client_that_was_away_does_not_catch_up():
    world = World(WorkerLimits(1)).open()
    first, second = (ClosedLoop(f"{i}", 0.05, ("t", i)) for i in range(2))
    world.serve([first], for_s=0.5)
    world.serve([first, second], for_s=2.0)
    before = len(second.waits)
    late = ClosedLoop("late", 0.05, ("late", 0))
    world.serve([first, second, late], for_s=1.5)
    assert len(second.waits) - before >= 9


def test_a_client_that_is_gone_takes_its_waiting_jobs_along():
    world = World().open()
    hold_up(world)
    gone = [world.submit(("slow", 0), "gone") for _ in range(5)]
    kept = world.submit(("slow", 0), "stays")
    world.schedule.cancel("gone")
    world.carry_out()
    assert set(world.answers) == set(gone)
    causes = {(verdict.code, verdict.cause) for verdict in world.answers.values()}
    assert causes == {(7, FailureCause.ABANDONED)}
    assert kept.state is JobState.WAITING


def test_the_batches_of_a_disconnected_client_are_judged():
    world = World().open()
    hold_up(world)
    left = [world.submit(("slow", 0), "gone") for _ in range(5)]
    world.schedule.leave("gone")
    left.append(world.submit(("slow", 0), "gone"))
    world.be_kind(4000)
    assert [world.answers[job] for job in left] == [ACCEPTED] * len(left)
    world.schedule.cancel("gone")
    assert not world.schedule._gone


def test_disconnected_clients_share_a_turn():
    world = World().open()
    clients = [f"gone-{number}" for number in range(60)]
    for client in clients:
        world.submit(("t", 0), client)
    (process,) = world.ready
    sent = len(process.worker.sent)
    assert sent < len(clients) / 2
    for client in clients:
        world.schedule.leave(client)
    job = world.submit(("t", 0), "here")
    world.be_kind(1000)
    assert len(world.answers) == len(clients) + 1
    assert list(world.answers).index(job) <= sent + 1


# Limits


@pytest.mark.thorough
@pytest.mark.parametrize("partitions", [40, 20_000])
def test_a_slow_batch_and_many_partitions_start_no_more_than_the_limit(partitions):
    world = World(WorkerLimits(1)).open()
    hold_up(world)
    for number in range(partitions):
        world.schedule.submit(
            JudgingJob(("many", number), 1, "P", "", None, None, 9, math.inf), world.now
        )
    world.jobs += [None] * partitions
    world.carry_out()
    assert len(world.living()) == 3
    for _ in range(50):
        world.tick()
        for process in world.living():
            world.settle(process)
    assert len(world.living()) <= 3


# Processes that cannot be started, policies that cannot be loaded


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


# Who is charged


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
                assert len(process.worker.sent) == 1
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


# The end


def test_the_end_answers_all_jobs_and_charges_none():
    world = World(WorkerLimits(2)).open()
    for number in range(50):
        world.submit(("t", number))
    world.begin(world.ready[0])
    world.close()
    assert len(world.answers) == 50
    assert all(map(not_judged, world.answers.values()))
    late = world.submit()
    assert not_judged(world.answers[late])
    assert {p.state for p in world.living()} == {"closing"}


def test_extra_workers_end_when_there_is_nothing_to_do():
    world = World(WorkerLimits(1)).open()
    _, held_up = hold_up(world)
    world.submit(("quick", 0))
    world.tick()
    for process in world.living():
        world.settle(process)
    world.end(held_up)
    world.be_kind(10)
    assert len(world.ready) == 2
    for _ in range(650):
        world.tick(0.1)
        for process in world.living():
            world.settle(process)
    assert len(world.ready) == 1
    assert world.submit(("quick", 0)).state is JobState.SENT


def test_many_waiting_jobs_do_not_make_a_verdict_slow(monkeypatch):
    """Counts steps, not time: the work for each verdict is the same for 20,000."""

    def steps(waiting: int) -> int:
        world = World(WorkerLimits(1)).open()
        (process,) = world.ready
        for number in range(waiting):
            job = JudgingJob(("t", number % 500), number % 7, "P", "", None, None, 900, 1000.0)
            world.schedule.submit(job, 0.0)
        world.schedule.actions.clear()
        counted = 0

        def count(*_):
            nonlocal counted
            counted += 1
            return count

        attempts = list(process.worker.sent)[:50]
        # Coverage may be tracing.
        before = sys.gettrace()
        sys.settrace(count)
        try:
            for attempt in attempts:
                world.schedule.verdict(process.worker, attempt, ACCEPTED, 0.0)
            world.schedule.tick({process.worker: process.progress}, 0.02)
        finally:
            sys.settrace(before)
        return counted

    few, many = steps(1000), steps(20_000)
    assert many <= few + 50


# Any world


def test_a_batch_sent_to_a_worker_that_stands_still_is_answered_at_its_deadline():
    world = World(WorkerLimits(1)).open()
    job = world.submit(timeout_s=1.0)
    for _ in range(100):  # 2 s: the worker (stopped, swapped out) never begins it
        world.tick()
    assert job in world.answers


def test_a_partition_behind_a_slow_partition_meets_its_deadline():
    world = World(WorkerLimits(2)).open()
    world.submit(("t", 0))
    second = world.submit(("t", 0), timeout_s=1.0)
    assert any(map(world.begin, world.ready))
    for _ in range(100):
        world.tick()
    assert not_judged(world.answers[second])


class AnyWorld(RuleBasedStateMachine):
    """Things happen in any order; then the world turns kind."""

    @initialize(
        workers=st.integers(1, 3),
        spare=st.booleans(),
        retries=st.integers(0, 2),
    )
    def begin(self, workers, spare, retries):
        limits = WorkerLimits(workers, spare, 1.0, 0.5, retries)
        self.world = World(limits).open()

    def pick(self, number: int):
        living = self.world.living()
        return living[number % len(living)] if living else None

    @rule(
        partition=st.integers(0, 5),
        client=st.integers(0, 2),
        size=st.sampled_from([10, 100_000]),
        timeout_s=st.sampled_from([math.inf, 20.0, 1.0]),
        intercepted=st.booleans(),
        count=st.sampled_from([1, 2, 30]),
    )
    def submit(self, partition, client, size, timeout_s, intercepted, count):
        for _ in range(count):
            self.world.submit(
                ("t", partition), client, size=size, timeout_s=timeout_s,
                interceptors="I" if intercepted else "",
            )  # fmt: skip

    @rule(client=st.integers(0, 2), size=st.sampled_from([10, 100_000]))
    def submit_many(self, client, size):
        for number in range(20):
            self.world.submit(("t", number % 6), client, size=size)

    @rule(number=st.integers(0, 9))
    def be_slow(self, number):
        """Block a worker with the next batch."""
        ready = self.world.ready
        if ready:
            self.world.begin(ready[number % len(ready)])
            for _ in range(4):
                self.world.tick(0.06)

    @rule()
    def help_comes(self):
        for process in self.world.living():
            self.world.settle(process)

    @rule(number=st.integers(0, 9), also=st.integers(0, 9))
    def end_after_another_began(self, number, also):
        """A verdict is received while the next batch is begun, and that batch takes long."""
        ready = self.world.ready
        if ready:
            process = ready[number % len(ready)]
            self.world.begin(process)
            self.world.tick()
            self.world.end(process)
            self.be_slow(number)
            self.world.send(process)

    @rule(number=st.integers(0, 9))
    def started(self, number):
        if process := self.pick(number):
            self.world.started(process)

    @rule(number=st.integers(0, 9))
    def loaded(self, number):
        if process := self.pick(number):
            self.world.loaded(process)

    @rule(number=st.integers(0, 9), count=st.integers(1, 5))
    def judge(self, number, count):
        if process := self.pick(number):
            for _ in range(count):
                self.world.judge(process)

    @rule(number=st.integers(0, 9))
    def begin_one(self, number):
        if process := self.pick(number):
            self.world.begin(process)

    @rule(number=st.integers(0, 9))
    def intercepted(self, number):
        if process := self.pick(number):
            self.world.intercepted(process)

    @rule(number=st.integers(0, 9), verdict=st.sampled_from([ACCEPTED, REFUSED, MEMORY]))
    def end(self, number, verdict):
        if process := self.pick(number):
            self.world.end(process, verdict)

    @rule(number=st.integers(0, 9))
    def send(self, number):
        if process := self.pick(number):
            self.world.send(process)

    @rule(number=st.integers(0, 9))
    def deliver(self, number):
        if process := self.pick(number):
            self.world.deliver(process)

    @rule(number=st.integers(0, 9), by_another=st.booleans())
    def die(self, number, by_another):
        if process := self.pick(number):
            self.world.die(process, by_another=by_another)

    @rule()
    def the_killed_die(self):
        for process in self.world.living():
            if process.killed:
                self.world.die(process)

    @rule(number=st.integers(0, 9))
    def garbage(self, number):
        if process := self.pick(number):
            self.world.garbage(process)

    @rule(number=st.integers(0, 9), attempt=st.integers(0, 200))
    def stale_verdict(self, number, attempt):
        process = self.pick(number)
        if process and attempt not in process.worker.sent:
            self.world.schedule.verdict(process.worker, attempt, REFUSED, self.world.now)
            self.world.carry_out()

    @rule(after_s=st.sampled_from([0.0, 0.02, 0.06, 0.1, 0.6, 1.1, 40.0]), count=st.integers(1, 4))
    def tick(self, after_s, count):
        for _ in range(count):
            self.world.tick(after_s)

    @rule(client=st.integers(0, 2))
    def cancel(self, client):
        self.world.schedule.cancel(client)
        self.world.carry_out()

    @rule(client=st.integers(0, 2))
    def leave(self, client):
        self.world.schedule.leave(client)

    @precondition(lambda self: self.world.jobs)
    @rule()
    def turn_kind(self):
        self.kind()

    @invariant()
    def lines_are_whole(self):
        if hasattr(self, "world"):
            check_lines(self.world)

    def kind(self):
        # Back-off ends after 30 s at most, and a worker that stands still is found after a second.
        self.world.be_kind(4000)
        assert not self.world.schedule._partition_queues

    def teardown(self):
        if hasattr(self, "world"):
            waiting = set(self.world.jobs) - set(self.world.answers)
            if len(waiting) % 2:
                self.world.close()
                assert all(not_judged(self.world.answers[job]) for job in waiting)
            else:
                self.kind()
            check_order(self.world)


def check_lines(world: World) -> None:
    """The counters equal the actual numbers."""
    schedule = world.schedule
    queues = [*schedule._slot_queues, *schedule._partition_queues.values()]
    for queue in queues:
        jobs = list(queue)
        assert queue.waiting == len(jobs)
        assert all(job.queue is queue and job.state is JobState.WAITING for job in jobs)
        assert queue.worker is None or queue in queue.worker.queues
        assert queue.worker is None or queue.worker.judges
    everyone = [process.worker for process in world.processes.values()]
    sent = [job for worker in everyone for job in worker.sent.values()]
    for queue in queues:
        assert queue.outstanding == sum(job.queue is queue for job in sent)
    places = {}
    for queue in queues:
        for job in (*queue, *(job for job in sent if job.queue is queue)):
            assert places.setdefault(job.topic_partition, queue) is queue, (
                "a partition in two queues"
            )


def check_order(world: World) -> None:
    """A partition's batches of one connection are first begun in the order in which they came."""
    came = {job: number for number, job in enumerate(world.jobs)}
    for jobs in world.begun_order.values():
        first = list(dict.fromkeys(jobs))
        assert [came[job] for job in first] == sorted(came[job] for job in first)


AnyWorld.TestCase.settings = settings(
    max_examples=int(os.environ.get("SCHEDULE_EXAMPLES", "200")), stateful_step_count=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip
test_any_world = AnyWorld.TestCase
test_any_world.pytestmark = [pytest.mark.thorough]

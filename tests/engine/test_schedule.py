"""The schedule of the workers: its decisions, in simulated worlds."""

import math
import statistics
import sys

import pytest

from penstock.engine.verdict import ACCEPTED, FailureCause
from penstock.engine.workers.jobs import JobState, JudgingJob
from penstock.engine.workers.processes.worker import AHEAD_S, Worker, WorkerState
from penstock.engine.workers.schedule import WorkerLimits
from tests.engine.simulated import REFUSED, ClosedLoop, World, not_judged

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
    process = next(p for p in world.ready if job.attempt in p.worker.sent_jobs)
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
    assert len(process.worker.sent_jobs) > 1
    for _ in range(10):
        world.tick()
    assert list(process.worker.sent_jobs.values()) == [jobs[0]]
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
    in_flight_max = len(process.worker.sent_jobs)
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
    assert not world.schedule._absent_clients


def test_disconnected_clients_share_a_turn():
    world = World().open()
    clients = [f"gone-{number}" for number in range(60)]
    for client in clients:
        world.submit(("t", 0), client)
    (process,) = world.ready
    sent = len(process.worker.sent_jobs)
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

        attempts = list(process.worker.sent_jobs)[:50]
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


# Deadlines


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

"""The schedule of the workers: random events keep its rules, in simulated worlds."""

import math
import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.engine.verdict import ACCEPTED
from penstock.engine.workers.jobs import JobState
from penstock.engine.workers.schedule import WorkerLimits
from tests.engine.simulated import MEMORY, REFUSED, World, not_judged


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
        if process and attempt not in process.worker.sent_jobs:
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
        assert queue.job_count == len(jobs)
        assert all(job.queue is queue and job.state is JobState.WAITING for job in jobs)
        assert queue.worker is None or queue in queue.worker.queues
        assert queue.worker is None or queue.worker.judges
    everyone = [process.worker for process in world.processes.values()]
    sent = [job for worker in everyone for job in worker.sent_jobs.values()]
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

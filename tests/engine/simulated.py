"""A world for a `Schedule`: processes, policies and a clock, none of them real."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.engine.verdict import ACCEPTED, UNJUDGED, FailureCause, Outcome, PolicyVerdict, failed
from penstock.engine.workers import actions
from penstock.engine.workers.jobs import JobState, JudgingJob
from penstock.engine.workers.processes.worker import Worker, WorkerState
from penstock.engine.workers.progress import DONE, INTERCEPTING, JUDGING, CurrentAttempt
from penstock.engine.workers.schedule import LOST_MAX, Schedule, SchedulePhase, WorkerLimits

MEMORY = PolicyVerdict(outcome=Outcome.FAILED, code=-1, cause=FailureCause.OUT_OF_MEMORY)

ONE = WorkerLimits(1)


@dataclass(eq=False)
class Process:
    """What a worker process does: it reads its socket in order, and may stop at any point."""

    worker: Worker
    state: str = "starting"
    inbox: list[tuple[int, JudgingJob]] = field(default_factory=list)
    """Sent by the schedule, not read."""
    current: tuple[int, JudgingJob] | None = None
    began_at: float = 0.0
    phase: int = DONE
    last: int = 0
    gathered: list[tuple[int, PolicyVerdict, float]] = field(default_factory=list)
    """Judged, in so many seconds; the verdicts are not sent."""
    on_the_way: list[tuple[int, PolicyVerdict, float]] = field(default_factory=list)
    skip: int = 0
    loading: int = 0
    """Which topic it loads between batches; 0 for none."""
    killed: bool = False

    @property
    def progress(self) -> CurrentAttempt:
        return CurrentAttempt(self.last, self.phase, self.loading)


class World:
    """Drives a schedule, and checks what must hold at every step."""

    def __init__(self, limits: WorkerLimits = ONE) -> None:
        self.limits = limits
        self.now = 0.0
        self.schedule = Schedule(limits)
        self.processes: dict[Worker, Process] = {}
        self.answers: dict[JudgingJob, PolicyVerdict] = {}
        self.jobs: list[JudgingJob] = []
        self.begun: Counter[JudgingJob] = Counter()
        self.reports: list[actions.LogError] = []
        self.ends: list = []
        self.rests: list[actions.Suspend] = []
        self.rings: dict = {}
        self.recalled: list[Worker] = []
        self.begun_order: dict[tuple[object, object], list[JudgingJob]] = defaultdict(list)
        self.sent_count = 0
        self.schedule.begin(self.now)
        self.carry_out()

    # What the schedule wants done

    def carry_out(self) -> None:
        todo = self.schedule.actions
        while todo:
            action = todo.popleft()
            self.carry_out_in_rings(action)
            match action:
                case actions.Recall(worker):
                    self.recalled.append(worker)
                case actions.Start(worker):
                    self.processes[worker] = Process(worker)
                case actions.Load(worker):
                    assert self.processes[worker].state == "spare"
                    self.processes[worker].state = "loading"
                case actions.Send(worker, job, attempt):
                    self.sent_count += 1
                    process = self.processes[worker]
                    assert process.state in {"ready", "dead"}
                    assert job not in self.answers
                    process.inbox.append((attempt, job))
                case actions.Skip(worker, attempt):
                    self.processes[worker].skip = attempt
                case actions.Kill(worker):
                    self.processes[worker].killed = True
                case actions.Close(worker):
                    if self.processes[worker].state != "dead":
                        self.processes[worker].state = "closing"
                case actions.ReturnVerdict(job, verdict):
                    assert job not in self.answers, "answered twice"
                    self.answers[job] = verdict
                case actions.Suspend():
                    self.rests.append(action)
                case actions.CountEnd(cause):
                    self.ends.append(cause)
                case actions.LogError():
                    self.reports.append(action)
        self.check()

    def carry_out_in_rings(self, action: actions.Action) -> None:
        """Do what an action means for rings."""

    def check(self) -> None:
        """Check the invariants."""
        pool = self.schedule.pool
        alive = [p for p in self.processes.values() if p.worker.state is not WorkerState.DEAD]
        assert len(alive) <= 2 * self.limits.workers + self.limits.spare
        assert [p.worker for p in alive] == pool.alive
        judging = [p for p in alive if p.worker.state_reached >= WorkerState.LOADING]
        assert sum(p.worker.state < WorkerState.CLOSING for p in judging) <= 2 * self.limits.workers
        assert self.schedule.outstanding == len(self.jobs) - len(self.answers)
        places: dict[object, Worker] = {}
        for process in alive:
            worker = process.worker
            assert worker.sent_bytes == sum(job.size for job in worker.sent_jobs.values())
            for attempt, job in worker.sent_jobs.items():
                assert job.attempt == attempt
                assert job.state is not JobState.WAITING
                assert job.state is not JobState.ANSWERED or self.now > job.deadline
                assert places.setdefault(job.topic_partition, worker) is worker, (
                    "a partition at two workers"
                )
            assert (
                not any(j.exclusive for j in worker.sent_jobs.values())
                or len(worker.sent_jobs) == 1
            )
        for times in self.begun.values():
            assert times <= 1 + self.limits.retries + LOST_MAX, "begun too often"

    # Events

    def submit(
        self,
        topic_partition=("t", 0),
        client=None,
        *,
        size=100,
        timeout_s=math.inf,
        interceptors="",
        does=None,
    ) -> JudgingJob:
        job = JudgingJob(
            topic_partition, client, "P", interceptors, does, None, size, self.now + timeout_s
        )
        self.jobs.append(job)
        self.schedule.submit(job, self.now)
        self.carry_out()
        return job

    def started(self, process: Process) -> None:
        if process.state == "starting":
            process.state = "spare"
            self.schedule.started(process.worker, self.now)
            self.carry_out()

    def loaded(self, process: Process) -> None:
        if process.state == "loading":
            process.state = "ready"
            self.schedule.loaded(process.worker, self.now)
            self.carry_out()

    def die(self, process: Process, *, by_another: bool = False) -> None:
        """End it; its sent messages arrive, its gathered verdicts do not."""
        if process.state == "dead":
            return
        self.deliver(process)
        process.state = "dead"
        self.schedule.died(process.worker, process.progress, "why", self.now, by_another=by_another)
        self.carry_out()

    def garbage(self, process: Process) -> None:
        if process.state == "ready":
            self.deliver(process)
            self.schedule.protocol_error(process.worker, self.now)
            self.carry_out()

    def begin(self, process: Process) -> bool:
        """Let it begin the next batch that is still needed."""
        if process.state not in {"ready", "closing"} or process.current or process.killed:
            return False
        while process.inbox:
            attempt, job = process.inbox.pop(0)
            if attempt > process.skip:
                process.current = attempt, job
                process.began_at = self.now
                process.last = attempt
                process.phase = INTERCEPTING if job.interceptors else JUDGING
                if process.worker.sent_jobs.get(attempt) is job:
                    self.begun[job] += 1
                    if job.state is not JobState.ANSWERED:
                        self.begun_order[job.topic_partition, job.client].append(job)
                return True
        return False

    def intercepted(self, process: Process) -> None:
        if process.current:
            process.phase = JUDGING

    def end(self, process: Process, verdict: PolicyVerdict = ACCEPTED) -> None:
        """Let it end its current batch; the verdict is not sent yet."""
        if process.current:
            took_s = self.now - process.began_at
            process.gathered.append((process.current[0], verdict, took_s))
            process.current, process.phase = None, DONE

    def send(self, process: Process) -> None:
        process.on_the_way += process.gathered
        process.gathered = []

    def deliver(self, process: Process) -> None:
        """Let its messages arrive."""
        arriving, process.on_the_way = process.on_the_way, []
        for attempt, verdict, took_s in arriving:
            self.schedule.verdict(process.worker, attempt, verdict, self.now, took_s)
        self.carry_out()

    def judge(self, process: Process, verdict: PolicyVerdict = ACCEPTED) -> bool:
        """Let it judge one batch, at once."""
        begun = self.begin(process) or process.current is not None
        self.end(process, verdict)
        self.send(process)
        self.deliver(process)
        return begun

    def tick(self, after_s: float = 0.02) -> None:
        self.now += after_s
        current = {w: self.processes[w].progress for w in self.schedule.judging}
        self.schedule.tick(current, self.now, self.rings)
        self.carry_out()

    def close(self) -> None:
        self.schedule.close()
        self.carry_out()

    # A world in which time passes

    def serve(self, clients: Sequence["ClosedLoop"], for_s: float, step_s: float = 0.001) -> None:
        """Let clients send their next batch when the last is answered; their batches
        take their declared times; workers start within half a second.
        """
        ends = self.now + for_s
        ticked, opened = self.now, {}
        while self.now < ends:
            for client in clients:
                client.go_on(self)
            for process in self.living():
                if self.now >= opened.setdefault(process, self.now) + 0.5:
                    self.settle(process)
                if process.current and self.now >= process.began_at + process.current[1].payload:
                    self.end(process)
                    self.send(process)
                    self.deliver(process)
                self.begin(process)
            self.now += step_s
            if self.now - ticked >= 0.02:
                ticked = self.now
                self.tick(0)

    # A kind world

    def living(self) -> list[Process]:
        return [p for p in self.processes.values() if p.state != "dead"]

    def settle(self, process: Process) -> None:
        """Let a process do its due work."""
        if process.killed or process.state == "closing":
            self.die(process)
        self.started(process)
        self.loaded(process)

    def open(self, tick_s: float = 0.0) -> "World":
        """Let processes start and load; between ticks of so many seconds, if any."""
        while self.schedule.phase is SchedulePhase.OPENING:
            if tick_s:
                self.tick(tick_s)
            for process in self.living():
                self.settle(process)
        assert self.schedule.phase is SchedulePhase.SERVING
        return self

    @property
    def is_done(self) -> bool:
        """Whether all is answered."""
        return not self.schedule.outstanding

    def be_kind(self, most_ticks: int) -> None:
        """Let all succeed until all jobs are answered, in at most so many ticks."""
        for _ in range(most_ticks):
            for process in self.living():
                self.settle(process)
                while self.judge(process):
                    pass
            if self.is_done:
                return
            self.tick()
        raise AssertionError(f"{self.schedule.outstanding} jobs are not answered")

    @property
    def ready(self) -> list[Process]:
        return [p for p in self.living() if p.worker.judges]


class ClosedLoop:
    """A client with so many batches in flight, and no more.

    Attributes:
        waits: How long each batch took from its submission to its verdict.
    """

    def __init__(
        self, name: str, takes_s: float, partition: tuple[str, int], *, pipelined: int = 1
    ) -> None:
        self._name, self._takes_s, self._partition = name, takes_s, partition
        self._pipelined = pipelined
        self._on_their_way: list[tuple[JudgingJob, float]] = []
        self.waits: list[float] = []

    def go_on(self, world: World) -> None:
        """Send the next batches, if earlier batches are answered."""
        sent = self._on_their_way
        while sent and sent[0][0] in world.answers:
            self.waits.append(world.now - sent.pop(0)[1])
        while len(sent) < self._pipelined:
            job = world.submit(self._partition, self._name, does=self._takes_s)
            sent.append((job, world.now))


def not_judged(verdict: PolicyVerdict) -> bool:
    return verdict.code == 7 and verdict.cause in UNJUDGED


REFUSED = failed("P", "failed: ValueError")

"""Who judges which batch, until when, and what follows a death: decisions only.

Jobs, what is seen of the workers, and the time come in; actions come out. Nothing here waits,
and nothing here is a process or a socket.

- A job is at one place at a time: in its line, or at one worker under the number of its
  attempt. A verdict about an attempt that no longer counts is ignored.
- A partition is in one line, and a line is served by one worker at a time: what is in it is
  judged in order. All is well when each line is served by the worker of its slot.
- A worker that is busy with one batch for `HELD_UP_S` is held up. What it was sent beyond that
  batch is taken back, the batch's partition gets a line of its own, which stays with it, and
  all other lines go to other workers, started for the purpose if need be.
- An answer is final only where a policy had begun the batch and ended its process, or ran into
  its deadline. Whatever else goes wrong costs time, and at last an answer after which clients
  try again.

Rules for the next editor: nothing done for a verdict or in a tick may take longer because more
jobs wait; every job is answered exactly once.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from penstock.engine.interceptor_chain import unable
from penstock.engine.verdict import FailureCause, failed, not_judged, timed_out
from penstock.engine.workers.actions import Answer, Rest, Send, Skip
from penstock.engine.workers.deadlines import Deadlines
from penstock.engine.workers.jobs import JobState
from penstock.engine.workers.pool import WorkerPool
from penstock.engine.workers.progress import DONE, INTERCEPTING, Hand
from penstock.engine.workers.queue import JobQueue
from penstock.engine.workers.worker import AHEAD_MIN, Reason, Worker, WorkerState

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from penstock.engine.verdict import Verdict
    from penstock.engine.workers.actions import Action
    from penstock.engine.workers.jobs import Job, Place

HELD_UP_S: Final = 0.1
"""A worker busy with one batch for so long gets no other partition's."""
STALE_S: Final = 0.05
"""What was sent ahead and not begun for so long is taken back, but for the next batch."""
SILENT_S: Final = 30.0
"""A worker that has batches and begins none for so long is replaced."""
STANDS_STILL_S: Final = 1.0
"""A worker that has batches and begins none for so long is looked at more closely."""
LOST_MAX: Final = 2
"""A batch may be begun so often without a verdict, through nobody's fault that is known."""
_LOAD_MIN_S: Final = 30.0
_READY: Final = WorkerState.READY
_SENT: Final = JobState.SENT
_ANSWERED: Final = JobState.ANSWERED
_LATE: Final = "did not decide within the client's own timeout"
_PLACES_KEPT: Final = 10_000


class Limits(NamedTuple):
    """What the configuration says.

    Attributes:
        workers: How many judge.
        spare: Whether one more process waits.
        timeout_s: The deadline of policies, for one batch.
        interceptors_timeout_s: The deadline of interceptors, for one attempt.
        retries: How many more attempts interceptors have.
        failed_code: The error code where interceptors fail.
    """

    workers: int
    spare: bool = True
    timeout_s: float = 5.0
    interceptors_timeout_s: float = 5.0
    retries: int = 0
    failed_code: int = -1


class Phase(Enum):
    """Where the schedule is in its life."""

    OPENING = "opening"
    SERVING = "serving"
    CANNOT_OPEN = "cannot open"
    CLOSED = "closed"


_LEGAL: Final = {
    Phase.OPENING: {Phase.SERVING, Phase.CANNOT_OPEN, Phase.CLOSED},
    Phase.SERVING: {Phase.CLOSED},
    Phase.CANNOT_OPEN: {Phase.CLOSED},
    Phase.CLOSED: set[Phase](),
}


class Schedule:
    """Decides what workers do.

    All times are seconds of one clock, which never goes back. An event about a worker that is
    dead is ignored.

    Attributes:
        actions: What is to be done, in this order; who does it takes it out.
        phase: Where it is in its life.
        failure: Why it cannot open.
        outstanding: How many jobs are not answered.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.actions: deque[Action] = deque()
        self._act = self.actions.append
        self.phase = Phase.OPENING
        self.failure = ""
        self.outstanding = 0
        load_s = max(_LOAD_MIN_S, limits.timeout_s)
        self.staff = WorkerPool(self._act, limits.workers, spare=limits.spare, load_s=load_s)
        self._lanes = [JobQueue(slot) for slot in range(limits.workers)]
        self._own: dict[Place, JobQueue] = {}
        self._line_of: dict[Place, JobQueue] = {}
        self._deadlines: Deadlines[Job] = Deadlines()
        self._attempt = 0
        self._silent_s = max(SILENT_S, limits.timeout_s, limits.interceptors_timeout_s)

    @property
    def judging(self) -> list[Worker]:
        """The workers that have policies."""
        return self.staff.judging

    def _become(self, phase: Phase) -> None:
        assert phase in _LEGAL[self.phase], f"{self.phase} to {phase}"
        self.phase = phase

    # Jobs come and go

    def begin(self, now: float) -> None:
        """Start the workers."""
        self.staff.fill(now, 0)

    def submit(self, job: Job, now: float) -> None:
        """Have a job judged: it is answered once, some time."""
        self.outstanding += 1
        line = self._line_of.get(job.place) or self._find_line(job.place)
        worker = line.server
        if (
            worker is not None
            and not line.waiting
            and line.heir is None
            and worker.state is _READY
            and worker.has_room
        ):
            self._send(worker, line, job, now)
            return
        if self.phase is Phase.CLOSED:
            self._answer(job, not_judged(job.policies, "it is no longer in force"))
            return
        job.line = line
        line.add(job)
        self._deadlines.add(job, job.deadline)
        if line.waiting == 1 and (worker is None or len(worker.lines) > 1):
            self._get_help(now)

    def withdraw(self, turn: Hashable) -> None:
        """Answer the jobs that wait in one turn: nobody is interested any more."""
        for line in (*self._lanes, *self._own.values()):
            for job in line.withdraw(turn):
                self._deadlines.discard(job, job.deadline)
                self._answer(job, not_judged(job.policies, "nobody waits for it"))
            self._dissolve(line)

    def verdict(self, worker: Worker, attempt: int, verdict: Verdict, now: float) -> None:
        """Take what a worker says about an attempt."""
        if worker.state is WorkerState.DEAD:
            return
        worker.heard = now
        if not worker.answered:
            self.staff.answered(worker)
        job = worker.sent.get(attempt)
        if job is not None:
            worker.came_back(now - job.sent_at)
            line = self._take_off(worker, job)
            if job.state is not _ANSWERED:
                self._answer(job, verdict)
            if not line.outstanding and (line.server is not worker or line.place or line.heir):
                self._settle(line, now)
        if worker.state is not _READY and self._is_released(worker, attempt):
            worker.become(_READY)
            self._arrange(now)
        if verdict.cause is FailureCause.OUT_OF_MEMORY and worker.judges:
            # The process is not trusted further, and ends by itself.
            self.staff.close(worker)
            self._take_back(worker, now)
            self._detach(worker)
            self._arrange(now)
            return
        self._feed(worker, now)

    def _is_released(self, worker: Worker, attempt: int) -> bool:
        """Whether the batch that held a worker up is done."""
        return worker.state is WorkerState.HELD_UP and attempt >= worker.hand.attempt

    def _answer(self, job: Job, verdict: Verdict) -> None:
        job.become(_ANSWERED)
        self.outstanding -= 1
        self._act(Answer(job, verdict))

    # What workers are sent

    def _send(self, worker: Worker, line: JobQueue, job: Job, now: float) -> None:
        if job.alone and worker.sent:
            job.line = line
            line.put_back(job)
            self._deadlines.add(job, job.deadline)
            return
        if not worker.sent:
            worker.heard = now
        self._attempt += 1
        job.attempt = self._attempt
        job.line = line
        job.sent_at = now
        job.become(_SENT)
        line.outstanding += 1
        worker.alone = job.alone
        worker.sent[self._attempt] = job
        worker.sent_bytes += job.size
        self._act(Send(worker, job, self._attempt))

    def _feed(self, worker: Worker, now: float) -> None:
        """Send a worker what it has room for, from its lines in turn."""
        lines = worker.lines
        while True:
            for line in lines:
                if line.waiting and line.heir is None:
                    break
            else:
                return
            if worker.state is not _READY or not worker.has_room:
                return
            if len(lines) > 1:
                lines.remove(line)
                lines.append(line)
            job = line.take()
            self._deadlines.discard(job, job.deadline)
            self._send(worker, line, job, now)
            if job.state is JobState.WAITING:
                return

    def _take_off(self, worker: Worker, job: Job) -> JobQueue:
        """Take a job off a worker; give its line."""
        del worker.sent[job.attempt]
        worker.sent_bytes -= job.size
        worker.alone = worker.alone and not job.alone
        line = job.line
        assert line is not None
        line.outstanding -= 1
        return line

    def _put_back(self, job: Job) -> None:
        job.become(JobState.WAITING)
        job.line = self._line_of.get(job.place) or self._find_line(job.place)
        job.line.put_back(job)
        self._deadlines.add(job, job.deadline)

    def _take_back(self, worker: Worker, now: float) -> None:
        """Take back what a worker has not begun, as far as it is known."""
        jobs = [job for job in worker.sent.values() if job.state is JobState.SENT]
        if jobs:
            self._act(Skip(worker, jobs[-1].attempt))
        for job in reversed(jobs):
            self._take_off(worker, job)
            self._put_back(job)
        worker.ahead = AHEAD_MIN
        for line in list(worker.lines):
            if line.heir is not None and not line.outstanding:
                self._settle(line, now)

    # Who serves which line

    def _find_line(self, place: Place) -> JobQueue:
        topic, partition = place
        lane = self._lanes[crc32(b"%s/%d" % (topic.encode(), partition)) % len(self._lanes)]
        if len(self._line_of) >= _PLACES_KEPT:
            self._line_of = dict(self._own)
        self._line_of[place] = lane
        return lane

    def _assign(self, line: JobQueue, worker: Worker | None) -> None:
        if line.server is not None:
            line.server.lines.remove(line)
        line.server, line.heir = worker, None
        if worker is not None:
            worker.lines.append(line)

    def _detach(self, worker: Worker, *, keep: JobQueue | None = None) -> None:
        for line in list(worker.lines):
            if line is not keep:
                self._assign(line, None)

    def _settle(self, line: JobQueue, now: float) -> None:
        """Do what waited for a line to have nothing at its worker."""
        if line.heir is not None:
            heir = line.heir
            self._assign(line, heir)
            self._feed(heir, now)
        elif self._dissolve(line) or line.server is None:
            self._arrange(now)

    def _hold_up(self, worker: Worker, job: Job | None, now: float) -> None:
        """Let other workers do what waits for one that is busy; its partition stays with it."""
        worker.become(WorkerState.HELD_UP)
        self._take_back(worker, now)
        own = None
        if job is not None:
            own = self._own.get(job.place)
            if own is None:
                lane = job.line
                assert lane is not None
                own = JobQueue(place=job.place)
                self._own[job.place] = self._line_of[job.place] = own
                lane.split(job.place, own)
                for waiting in own:
                    waiting.line = own
                for sent in worker.sent.values():
                    if sent.place == job.place:
                        lane.outstanding -= 1
                        own.outstanding += 1
                        sent.line = own
                self._assign(own, worker)
        self._detach(worker, keep=own)
        self._arrange(now)

    def _arrange(self, now: float) -> None:
        """Give each line the worker that suits it best, and get more workers if need be.

        The worker of its slot comes first; one that serves a partition that held it up, last.
        """
        if self.phase is not Phase.SERVING:
            return
        ready = [one for one in self.staff.judging if one.state is WorkerState.READY]
        dedicated = {one for one in ready if one.is_dedicated}
        for line in (*self._lanes, *self._own.values()):
            if not ready:
                break
            server = line.server
            if line.place is not None and server is not None:
                continue
            preferred = self.staff.slots[line.slot] if line.slot is not None else None
            if server is not None and server is preferred and server not in dedicated:
                line.heir = None
                continue
            best = min(
                ready,
                key=lambda one: (one in dedicated, one is not preferred, len(one.lines)),
            )
            if server is not None and server in ready and best is not preferred:
                keeps = (server in dedicated) <= (best in dedicated)
                best = server if keeps else best
            if best is server:
                line.heir = None
            elif line.outstanding:
                line.heir = best if server is not None else None
            else:
                self._assign(line, best)
        for worker in ready:
            self._feed(worker, now)
        self._get_help(now)

    def _get_help(self, now: float) -> None:
        """Have workers started for lines that wait and have nobody to serve them."""
        if self.phase is Phase.CLOSED or self.phase is Phase.CANNOT_OPEN:
            return
        wanted = 0
        for line in (*self._lanes, *self._own.values()):
            if line.waiting:
                server = line.heir or line.server
                wanted += server is None or (line.place is None and server.is_dedicated)
        self.staff.fill(now, wanted)

    # What becomes of workers

    def started(self, worker: Worker, now: float) -> None:
        """Take note that a process runs; it waits for policies."""
        if worker.state is WorkerState.STARTING:
            self.staff.started(worker)
            self._get_help(now)
            self._look_if_open()
            self._arrange(now)

    def loaded(self, worker: Worker, now: float) -> None:
        """Take note that a worker has its policies."""
        if worker.state is not WorkerState.LOADING:
            return
        self.staff.loaded(worker, now)
        self._look_if_open()
        self._arrange(now)

    def _look_if_open(self) -> None:
        if self.phase is Phase.OPENING:
            ready = all(one is not None and one.judges for one in self.staff.slots)
            if ready and not self.staff.count(WorkerState.STARTING):
                self._become(Phase.SERVING)

    def garbage(self, worker: Worker, now: float) -> None:
        """Take note that what a worker sent is no message."""
        if worker.state not in {WorkerState.KILLED, WorkerState.DEAD}:
            self._kill(worker, Reason.GARBLED, "sent what is not a message", now)

    def died(self, worker: Worker, hand: Hand, why: str, now: float) -> None:
        """Take note that a process is dead, or that it could not be started.

        Args:
            worker: Whose process it was.
            hand: What it had begun last.
            why: What is known, for the log.
            now: The time.
        """
        if worker.state is WorkerState.DEAD:
            return
        killed = worker.killed
        if worker.furthest is WorkerState.LOADING:
            why = "ended while its policies were loaded"
        why = worker.failure or (killed.text if killed else why)
        jobs = list(worker.sent.values())
        topic = next((job.place[0] for job in jobs if job.attempt == hand.attempt), None)
        victim = self._victim(worker, jobs, hand)
        for job in reversed(jobs):
            self._take_off(worker, job)
            if job is not victim:
                self._lost(job, hand)
        if victim is not None:
            self._charge(victim, worker, hand, now)
        self._detach(worker)
        fruit = worker.answered or victim is not None
        self.staff.gone(worker, why, topic, now, fruit=fruit)
        if self.phase is Phase.OPENING:
            self.failure = why
            self._become(Phase.CANNOT_OPEN)
        for job in jobs:
            assert job.line is not None
            self._dissolve(job.line)
        self._arrange(now)
        self._get_help(now)

    def _dissolve(self, line: JobQueue) -> bool:
        """Give up a partition's own line if it is empty."""
        if line.place is None or line.waiting or line.outstanding:
            return False
        if self._own.get(line.place) is line:
            del self._own[line.place]
            self._line_of.pop(line.place, None)
            self._assign(line, None)
        return True

    def _victim(self, worker: Worker, jobs: list[Job], hand: Hand) -> Job | None:
        """Tell which job a worker died of, if any."""
        killed = worker.killed
        if killed is None:
            in_hand = hand.attempt if hand.phase != DONE else 0
            return worker.sent.get(in_hand)
        if killed.reason is Reason.OVERDUE:
            return worker.sent.get(killed.hand.attempt)
        if len(jobs) == 1 and jobs[0].attempt == hand.attempt:
            return jobs[0]
        # What wrote to our socket may be any of them: the next worker gets them singly.
        for job in jobs:
            job.alone = True
        return None

    def _lost(self, job: Job, hand: Hand) -> None:
        """Have a job judged again whose worker died, not of it."""
        if job.state is _ANSWERED:
            return
        if job.attempt <= hand.attempt:
            job.lost += 1
            job.alone = True
            if job.lost > LOST_MAX:
                self._answer(job, failed(job.policies, "ended its process"))
                return
        self._put_back(job)

    def _charge(self, job: Job, worker: Worker, hand: Hand, now: float) -> None:
        """Answer a job that its worker died of, unless it has another attempt."""
        killed = worker.killed
        overdue = killed is not None and killed.reason is Reason.OVERDUE
        if job.state is _ANSWERED:
            if overdue:
                job.overdue += 1
                self._rest(job)
            return
        phase = killed.hand.phase if killed is not None and overdue else hand.phase
        if phase != INTERCEPTING:
            why = killed.text if killed is not None and overdue else "ended its process"
            self._answer(job, failed(job.policies, why))
        elif not overdue:
            code = self._limits.failed_code
            self._answer(
                job,
                unable(
                    job.interceptors, code, "their process ended", cause=FailureCause.PROCESS_ENDED
                ),
            )
        else:
            job.overdue += 1
            if job.overdue > self._limits.retries or now >= job.deadline:
                self._give_up(job)
            else:
                self._put_back(job)

    def _give_up(self, job: Job) -> None:
        """Answer a job whose client waits no longer."""
        if not job.overdue:
            if job.state is JobState.BEGUN:
                job.late = True
                verdict = timed_out(job.interceptors, _LATE)
            else:
                why = self.staff.trouble or "no worker was free for it in time"
                verdict = not_judged(job.policies, why)
            self._answer(job, verdict)
            return
        self._rest(job)
        each_ms = self._limits.interceptors_timeout_s * 1000
        why = f"did not decide in {job.overdue} attempts ({each_ms:.0f} ms each)"
        self._answer(job, timed_out(job.interceptors, why))

    def _rest(self, job: Job) -> None:
        """Have a batch that hung left alone for some time: its client sends it again."""
        self._act(Rest(job, job.overdue * self._limits.interceptors_timeout_s))

    def _kill(self, worker: Worker, reason: Reason, text: str, now: float) -> None:
        self._detach(worker)
        self.staff.kill(worker, reason, text)
        self._arrange(now)

    # The time

    def tick(self, hands: Mapping[Worker, Hand], now: float) -> None:
        """Look at the clock.

        Args:
            hands: What each worker has in hand.
            now: The time.
        """
        if self.phase is Phase.CLOSED:
            return
        for worker in self.staff.judging:
            self._look_at(worker, hands[worker], now)
        for worker in self.staff.ending:
            self._answer_overdue(worker, now)
        for job in self._deadlines.due(now):
            if job.state is JobState.WAITING:
                line = job.line
                assert line is not None
                line.discard(job)
                self._give_up(job)
                if self._dissolve(line):
                    self._arrange(now)
        self.staff.check_loading(now)
        for worker in self.staff.idle(now):
            self._detach(worker)
            self.staff.close(worker)
            self._arrange(now)
        self._get_help(now)

    def _look_at(self, worker: Worker, hand: Hand, now: float) -> None:
        job = worker.sent.get(hand.attempt)
        if hand != worker.hand:
            worker.hand, worker.since = hand, now
            if job is not None and job.state is JobState.SENT:
                job.become(JobState.BEGUN)
        idle = hand.phase == DONE or not hand.attempt
        took = now - worker.since
        if idle:
            if worker.state is WorkerState.HELD_UP:
                worker.become(WorkerState.READY)
                self._arrange(now)
            quiet = now - max(worker.since, worker.heard)
            if worker.sent and quiet > self._silent_s:
                self._kill(worker, Reason.GARBLED, "did not answer", now)
                return
            if worker.sent and quiet > STANDS_STILL_S:
                self._answer_overdue(worker, now)
        elif self._is_overdue(worker, job, took, now):
            return
        elif took > HELD_UP_S and worker.state is WorkerState.READY:
            self._hold_up(worker, job, now)
            return
        if len(worker.sent) > AHEAD_MIN and worker.state is WorkerState.READY:
            self._take_back_stale(worker, now)

    def _take_back_stale(self, worker: Worker, now: float) -> None:
        """Let other workers have what has waited behind a batch for long."""
        behind = (one for one in worker.sent.values() if one.state is JobState.SENT)
        first = next(behind, None)
        if first is not None and now - first.sent_at > STALE_S:
            self._take_back(worker, now)
            self._feed(worker, now)

    def _answer_overdue(self, worker: Worker, now: float) -> None:
        """Answer what a worker has that does nothing, and whose client waits no longer."""
        overdue = [
            job for job in worker.sent.values() if now > job.deadline and job.state is not _ANSWERED
        ]
        for job in overdue:
            line = self._take_off(worker, job)
            self._give_up(job)
            if not line.outstanding:
                self._settle(line, now)

    def _is_overdue(self, worker: Worker, job: Job | None, took: float, now: float) -> bool:
        intercepting = worker.hand.phase == INTERCEPTING
        limits = self._limits
        limit = limits.interceptors_timeout_s if intercepting else limits.timeout_s
        if took > limit:
            text = f"did not decide within {limit * 1000:.0f} ms"
            self._kill(worker, Reason.OVERDUE, text, now)
            return True
        if intercepting and job is not None and now > job.deadline and job.state is not _ANSWERED:
            self._give_up(job)  # the worker goes on, within the interceptors' own time
        return False

    # The end

    def close(self) -> None:
        """Answer all jobs, and let all workers end."""
        if self.phase is Phase.CLOSED:
            return
        self._become(Phase.CLOSED)
        for line in (*self._lanes, *self._own.values()):
            for job in list(line):
                line.discard(job)
                self._answer(job, not_judged(job.policies, "the gateway stops"))
        for worker in list(self.staff.alive):
            for job in list(worker.sent.values()):
                self._take_off(worker, job)
                if job.state is not _ANSWERED:
                    self._answer(job, not_judged(job.policies, "the gateway stops"))
            self._detach(worker)
            if worker.state not in {WorkerState.CLOSING, WorkerState.KILLED}:
                self.staff.close(worker)

"""Decides which worker judges which batch, its deadline, and how to react to a worker's death.

Input: jobs, the observed progress of workers, and the time. Output: actions. Nothing here waits,
and nothing here is a process or a socket.

- A job is either in its queue or at one worker, under the number of its attempt. A verdict
  about an outdated attempt is ignored.
- A partition is in one queue, and a queue is served by one worker at a time: its jobs are
  judged in order. Normally each queue is served by the worker of its slot.
- A worker that is busy with one batch for `BLOCKED_AFTER_S` is blocked. Later batches
  that were sent to it are recalled, the batch's partition gets a separate queue, which stays with
  that worker, and all other queues go to other workers, which are started if necessary.
- Clients take turns in each queue, by the time that their batches take (`turns.py`). A worker
  that has more than `AHEAD_S` of work gets nothing in advance, so a client of quick batches waits
  for about one slow batch of others.
- A worker that has batches and begins none, for as long as a policy may take, is replaced: it is
  stopped or swapped out. Another worker judges its batches.
- A worker may load topics while it has no batches. Meanwhile it is busy, as with a batch without a
  client.
- An answer is final only if a policy had begun the batch and ended its process, or exceeded
  its deadline, or if workers were lost with the batch every time. Any other problem
  costs time, and in the end results in an answer after which clients retry.

Rules for the next editor: nothing done for a verdict or in a tick may take longer because more
jobs wait; every job is answered exactly once.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from penstock.engine.interceptors.interceptor_chain import unable
from penstock.engine.verdict import (
    FailureCause,
    abandoned,
    failed,
    not_judged,
    prepared_too_late,
    timed_out,
)
from penstock.engine.workers.actions import Recall, ReturnVerdict, Send, Skip, Suspend
from penstock.engine.workers.deadlines import Deadlines
from penstock.engine.workers.jobs import JobQueue, JobState
from penstock.engine.workers.pool import WorkerPool
from penstock.engine.workers.processes.worker import IN_FLIGHT_MIN, KillReason, Worker, WorkerState
from penstock.engine.workers.progress import DONE, INTERCEPTING, PREPARING, CurrentAttempt
from penstock.engine.workers.turns import LEAST_S

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from penstock.engine.verdict import PolicyVerdict
    from penstock.engine.workers.actions import Action
    from penstock.engine.workers.jobs import JudgingJob, TopicPartition
    from penstock.engine.workers.rings import RingFigures

    Queue = JobQueue["Worker"]

BLOCKED_AFTER_S: Final = 0.1
"""A worker that is busy with one batch for this long gets no batches of other partitions."""
STALE_S: Final = 0.05
"""Batches sent and not begun for this long are recalled, except the next one."""
NO_PROGRESS_CHECK_S: Final = 1.0
"""Clients that gave up are answered where a worker has begun no batch for this long. None is
overdue before."""
LOST_MAX: Final = 2
"""How many attempts that were begun and lost, without being to blame for it, are repeated."""
_LOAD_MIN_S: Final = 30.0
_READY: Final = WorkerState.READY
_SENT: Final = JobState.SENT
_ANSWERED: Final = JobState.ANSWERED
_CLIENT_TIMED_OUT: Final = "did not decide within the client's own timeout"
_PARTITIONS_CACHED: Final = 10_000
_NO_RINGS: Final[Mapping[Worker, RingFigures]] = {}
_LOST_AT_START_MAX: Final = 3
"""How many processes are replaced before the first worker of each slot has its policies, if the
policies are not to blame for their end."""


class WorkerLimits(NamedTuple):
    """Limits from the configuration.

    Attributes:
        workers: How many judge.
        spare: Whether one more process waits.
        timeout_s: The deadline of policies, for one batch.
        interceptors_timeout_s: The deadline of interceptors, for one attempt.
        retries: How many more attempts interceptors have.
        failed_code: The error code where interceptors fail.
        preparation_timeout_s: The deadline of a policy that prepares, for one batch.
        blocked_after_s: A worker that is busy with one batch for so long is blocked.
    """

    workers: int
    spare: bool = True
    timeout_s: float = 5.0
    interceptors_timeout_s: float = 5.0
    retries: int = 0
    failed_code: int = -1
    preparation_timeout_s: float = 10.0
    blocked_after_s: float = BLOCKED_AFTER_S


class SchedulePhase(Enum):
    """The state of the schedule."""

    OPENING = "opening"
    SERVING = "serving"
    CANNOT_OPEN = "cannot open"
    CLOSED = "closed"


_LEGAL: Final = {
    SchedulePhase.OPENING: {SchedulePhase.SERVING, SchedulePhase.CANNOT_OPEN, SchedulePhase.CLOSED},
    SchedulePhase.SERVING: {SchedulePhase.CLOSED},
    SchedulePhase.CANNOT_OPEN: {SchedulePhase.CLOSED},
    SchedulePhase.CLOSED: set[SchedulePhase](),
}


def _free_server(queue: Queue) -> Worker | None:
    """Return the worker of a queue that nothing waits in, if it may be sent anything."""
    worker = queue.worker
    if worker is None or queue.next_worker is not None or queue.job_count:
        return None
    is_free = worker.state is _READY and not (worker.exclusive or worker.drains)
    return worker if is_free else None


class Schedule:
    """Decides what workers do.

    All times are seconds of one clock, which never goes back. An event about a worker that is
    dead is ignored.

    Attributes:
        actions: To be executed in this order, and removed, by the supervisor.
        failure: Why it cannot open.
        may_pass: Whether that may go away by itself.
        outstanding: How many jobs are not answered.
    """

    def __init__(self, limits: WorkerLimits) -> None:
        self._limits = limits
        self.actions: deque[Action] = deque()
        self._act = self.actions.append
        self.phase = SchedulePhase.OPENING
        self.failure = ""
        self.may_pass = False
        self._lost_at_start = 0
        self.outstanding = 0
        load_s = max(_LOAD_MIN_S, limits.timeout_s)
        self.pool = WorkerPool(self._act, limits.workers, spare=limits.spare, load_s=load_s)
        self._absent_clients: set[Hashable] = set()
        self._slot_queues: list[Queue] = [
            JobQueue(slot, gone=self._absent_clients) for slot in range(limits.workers)
        ]
        self._partition_queues: dict[TopicPartition, Queue] = {}
        self._queue_of: dict[TopicPartition, Queue] = {}
        self._deadlines: Deadlines[JudgingJob] = Deadlines()
        self._attempt = 0
        self._begin_s = max(NO_PROGRESS_CHECK_S, limits.timeout_s)
        self._rings = _NO_RINGS

    @property
    def judging(self) -> list[Worker]:
        """The workers that have policies."""
        return self.pool.judging

    @property
    def servers(self) -> list[Worker | None]:
        """The workers that serve the slots; None where batches have to go through the schedule."""
        split = {self._slot_of(partition) for partition in self._partition_queues}
        return [None if queue.slot in split else _free_server(queue) for queue in self._slot_queues]

    @property
    def waiting(self) -> int:
        """How many jobs wait for a worker, and how many batches for a place in its ring."""
        return self._waiting_jobs + sum(ring.waiting_count for ring in self._rings.values())

    @property
    def sent(self) -> int:
        """How many jobs, and batches of rings, workers have that are not answered."""
        in_rings = sum(ring.batch_count - ring.outcome_count for ring in self._rings.values())
        return self.outstanding - self._waiting_jobs + in_rings

    @property
    def _waiting_jobs(self) -> int:
        queues = (*self._slot_queues, *self._partition_queues.values())
        return sum(queue.job_count for queue in queues)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being judged, and no worker is missing."""
        judging = self.pool.judging
        return (
            not self.outstanding
            and len(judging) >= self._limits.workers
            and not any(worker.sent_jobs for worker in judging)
        )

    def _become(self, phase: SchedulePhase) -> None:
        assert phase in _LEGAL[self.phase], f"{self.phase} to {phase}"
        self.phase = phase

    # Jobs come and go

    def begin(self, now: float) -> None:
        """Start the workers."""
        self.pool.fill(now, 0)

    def submit(self, job: JudgingJob, now: float) -> None:
        """Submit a job, which will be answered exactly once."""
        self.outstanding += 1
        queue = self._queue_of.get(job.topic_partition) or self._find_queue(job.topic_partition)
        worker = queue.worker
        if (
            worker is not None
            and not queue.job_count
            and queue.next_worker is None
            and worker.state is _READY
            and worker.has_capacity
        ):
            queue.pass_through(job)
            self._send(worker, queue, job, now)
            return
        if self.phase is SchedulePhase.CLOSED:
            self._answer(job, not_judged(job.policies, "it is no longer in force"))
            return
        job.queue = queue
        queue.add(job)
        self._deadlines.add(job, job.deadline)
        if queue.job_count == 1 and (worker is None or len(worker.queues) > 1):
            self._request_workers(now)

    def leave(self, client: Hashable) -> None:
        """Move a client's jobs to those of clients that left, until `cancel`; they are judged."""
        for queue in (*self._slot_queues, *self._partition_queues.values()):
            queue.leave(client)
        self._absent_clients.add(client)

    def cancel(self, client: Hashable) -> None:
        """Answer the waiting jobs of a client that is gone."""
        for queue in (*self._slot_queues, *self._partition_queues.values()):
            for job in queue.cancel(client):
                self._deadlines.discard(job, job.deadline)
                self._answer(job, abandoned(job.policies))
            self._remove_if_empty(queue)
        self._absent_clients.discard(client)

    def verdict(
        self, worker: Worker, attempt: int, verdict: PolicyVerdict, now: float, took_s: float = 0.0
    ) -> None:
        """Handle a verdict about an attempt.

        Args:
            worker: Whose it is.
            took_s: How long the worker had the batch in hand.
        """
        if worker.state is WorkerState.DEAD:
            return
        worker.last_active = now
        if not worker.has_answered:
            self.pool.answered(worker)
        job = worker.sent_jobs.get(attempt)
        if job is not None:
            worker.record_latency(now - job.sent_at)
            queue = self._unassign(worker, job)
            if took_s > LEAST_S or job.expected_s:
                queue.settle(job, took_s)
            if job.state is not _ANSWERED:
                job.judged_s = took_s
                self._answer(job, verdict)
            if not queue.outstanding and (
                queue.worker is not worker or queue.topic_partition or queue.next_worker
            ):
                self._on_drained(queue, now)
        if worker.state is not _READY and self._is_released(worker, attempt):
            worker.become(_READY)
            self._assign_queues(now)
        if verdict.cause is FailureCause.OUT_OF_MEMORY and worker.judges:
            self.out_of_memory(worker, now)
            return
        self._dispatch(worker, now)

    def out_of_memory(self, worker: Worker, now: float) -> None:
        """Trust a process no further, which ends by itself."""
        if worker.judges:
            worker.out_of_memory = True
            self.pool.close(worker)
            self._recall(worker, now)
            self._detach(worker)
            self._assign_queues(now)

    def _is_released(self, worker: Worker, attempt: int) -> bool:
        """Return whether the batch that blocked a worker is done."""
        return worker.state is WorkerState.BLOCKED and attempt >= worker.current.attempt

    def _answer(self, job: JudgingJob, verdict: PolicyVerdict) -> None:
        job.become(_ANSWERED)
        self.outstanding -= 1
        self._act(ReturnVerdict(job, verdict))

    # Sending jobs

    def _send(self, worker: Worker, queue: Queue, job: JudgingJob, now: float) -> None:
        if job.exclusive and worker.sent_jobs:
            job.queue = queue
            queue.requeue(job)
            self._deadlines.add(job, job.deadline)
            # Later jobs are not sent before it.
            worker.queues.remove(queue)
            worker.queues.insert(0, queue)
            worker.drains = True
            return
        if not worker.sent_jobs:
            worker.last_active = now
        self._attempt += 1
        job.attempt = self._attempt
        job.queue = queue
        job.sent_at = now
        job.become(_SENT)
        queue.outstanding += 1
        worker.exclusive = job.exclusive
        worker.sent_jobs[self._attempt] = job
        worker.sent_bytes += job.size
        worker.sent_s += job.expected_s
        self._act(Send(worker, job, self._attempt))

    def _dispatch(self, worker: Worker, now: float) -> None:
        """Send jobs to a worker up to its capacity, from its queues round-robin."""
        queues = worker.queues
        while True:
            for queue in queues:
                if queue.job_count and queue.next_worker is None:
                    break
            else:
                return
            if worker.state is not _READY or not worker.has_capacity:
                return
            if len(queues) > 1:
                queues.remove(queue)
                queues.append(queue)
            job = queue.take()
            self._deadlines.discard(job, job.deadline)
            self._send(worker, queue, job, now)
            if job.state is JobState.WAITING:
                return

    def _unassign(self, worker: Worker, job: JudgingJob) -> Queue:
        """Remove a job from a worker, and return its queue."""
        del worker.sent_jobs[job.attempt]
        worker.sent_bytes -= job.size
        worker.sent_s = worker.sent_s - job.expected_s if worker.sent_jobs else 0.0
        worker.exclusive = worker.exclusive and not job.exclusive
        worker.drains = worker.drains and bool(worker.sent_jobs)
        queue = job.queue
        assert queue is not None
        queue.outstanding -= 1
        return queue

    def _requeue(self, job: JudgingJob) -> None:
        job.become(JobState.WAITING)
        job.queue = self._queue_of.get(job.topic_partition) or self._find_queue(job.topic_partition)
        job.queue.requeue(job)
        self._deadlines.add(job, job.deadline)

    def _recall(self, worker: Worker, now: float) -> None:
        """Recall the jobs that a worker is not known to have begun."""
        jobs = [job for job in worker.sent_jobs.values() if job.state is JobState.SENT]
        if jobs:
            self._act(Skip(worker, jobs[-1].attempt))
        for job in reversed(jobs):
            self._unassign(worker, job)
            self._requeue(job)
        worker.in_flight_max = IN_FLIGHT_MIN
        for queue in list(worker.queues):
            if queue.next_worker is not None and not queue.outstanding:
                self._on_drained(queue, now)

    # Assigning queues

    def _find_queue(self, topic_partition: TopicPartition) -> Queue:
        slot_queue = self._slot_queues[self._slot_of(topic_partition)]
        if len(self._queue_of) >= _PARTITIONS_CACHED:
            self._queue_of = dict(self._partition_queues)
        self._queue_of[topic_partition] = slot_queue
        return slot_queue

    def _slot_of(self, topic_partition: TopicPartition) -> int:
        """Return the slot of a partition; native threads compute the same."""
        topic, partition = topic_partition
        return crc32(b"%s/%d" % (topic.encode(), partition)) % len(self._slot_queues)

    def _assign(self, queue: Queue, worker: Worker | None) -> None:
        if queue.worker is not None:
            queue.worker.queues.remove(queue)
        queue.worker, queue.next_worker = worker, None
        if worker is not None:
            worker.queues.append(queue)

    def _detach(self, worker: Worker, *, keep: Queue | None = None) -> None:
        for queue in list(worker.queues):
            if queue is not keep:
                self._assign(queue, None)

    def _on_drained(self, queue: Queue, now: float) -> None:
        """Reassign or remove a queue whose worker has returned all its jobs."""
        if queue.next_worker is not None:
            next_worker = queue.next_worker
            self._assign(queue, next_worker)
            self._dispatch(next_worker, now)
        elif self._remove_if_empty(queue) or queue.worker is None:
            self._assign_queues(now)

    def _set_blocked(self, worker: Worker, job: JudgingJob | None, now: float) -> None:
        """Move queues away from a blocked worker, except that of the partition that blocks it."""
        worker.become(WorkerState.BLOCKED)
        self._act(Recall(worker))
        self._recall(worker, now)
        own = None
        if job is not None:
            own = self._partition_queues.get(job.topic_partition)
            if own is None:
                slot_queue = job.queue
                assert slot_queue is not None
                own = JobQueue(topic_partition=job.topic_partition, gone=self._absent_clients)
                self._partition_queues[job.topic_partition] = self._queue_of[
                    job.topic_partition
                ] = own
                slot_queue.split(job.topic_partition, own)
                for waiting_job in own:
                    waiting_job.queue = own
                for sent_job in worker.sent_jobs.values():
                    if sent_job.topic_partition == job.topic_partition:
                        slot_queue.outstanding -= 1
                        own.outstanding += 1
                        sent_job.queue = own
                self._assign(own, worker)
        self._detach(worker, keep=own)
        self._assign_queues(now)

    def _assign_queues(self, now: float) -> None:
        """Assign the best worker to each queue, and request more workers if need be.

        The worker of its slot is preferred; a dedicated worker is the last choice.
        """
        if self.phase is not SchedulePhase.SERVING:
            return
        ready = [worker for worker in self.pool.judging if worker.state is WorkerState.READY]
        dedicated = {worker for worker in ready if worker.is_dedicated}
        for queue in (*self._slot_queues, *self._partition_queues.values()):
            if not ready:
                break
            server = queue.worker
            if queue.topic_partition is not None and server is not None:
                continue
            preferred = self.pool.slots[queue.slot] if queue.slot is not None else None
            if server is not None and server is preferred and server not in dedicated:
                queue.next_worker = None
                continue
            best = min(
                ready,
                key=lambda worker: (
                    worker in dedicated,
                    worker is not preferred,
                    len(worker.queues),
                ),
            )
            if server is not None and server in ready and best is not preferred:
                keeps = (server in dedicated) <= (best in dedicated)
                best = server if keeps else best
            if best is server:
                queue.next_worker = None
            elif queue.outstanding:
                queue.next_worker = best if server is not None else None
            else:
                self._assign(queue, best)
        for worker in ready:
            self._dispatch(worker, now)
        self._request_workers(now)

    def _request_workers(self, now: float) -> None:
        """Request workers for queues that have jobs and no worker."""
        if self.phase is SchedulePhase.CLOSED or self.phase is SchedulePhase.CANNOT_OPEN:
            return
        demand = 0
        for queue in (*self._slot_queues, *self._partition_queues.values()):
            if queue.job_count:
                server = queue.next_worker or queue.worker
                demand += server is None or (queue.topic_partition is None and server.is_dedicated)
        self.pool.fill(now, demand)

    # Events of workers

    def started(self, worker: Worker, now: float) -> None:
        """Handle the start of a process, which has no policies yet."""
        if worker.state is WorkerState.STARTING:
            self.pool.started(worker)
            self._request_workers(now)
            self._check_opened()
            self._assign_queues(now)

    def loaded(self, worker: Worker, now: float) -> None:
        """Handle a worker that has loaded its policies."""
        if worker.state is not WorkerState.LOADING:
            return
        self.pool.loaded(worker, now)
        self._check_opened()
        self._assign_queues(now)

    def _check_opened(self) -> None:
        if self.phase is SchedulePhase.OPENING:
            ready = all(worker is not None and worker.judges for worker in self.pool.slots)
            if ready and not self.pool.count(WorkerState.STARTING):
                self._become(SchedulePhase.SERVING)

    def protocol_error(self, worker: Worker, now: float) -> None:
        """Handle a worker that sent something that is not a message."""
        if worker.state not in {WorkerState.KILLED, WorkerState.DEAD}:
            self._kill(worker, KillReason.PROTOCOL_ERROR, "sent what is not a message", now)

    def died(
        self,
        worker: Worker,
        current: CurrentAttempt,
        why: str,
        now: float,
        *,
        by_another: bool = False,
    ) -> None:
        """Handle the death of a process, or that it could not be started.

        Args:
            worker: Whose process it was.
            current: The attempt that it had begun last.
            why: The reason, for the log.
            by_another: Whether another process, or the kernel, has killed it: the attempt that it
                had begun is lost, but not to blame.
        """
        if worker.state is WorkerState.DEAD:
            return
        killed = worker.kill_cause
        if worker.state_reached is WorkerState.LOADING:
            why = f"{why} while its policies were loaded"
        why = worker.failure or (killed.text if killed else why)
        jobs = list(worker.sent_jobs.values())
        topic = next(
            (job.topic_partition[0] for job in jobs if job.attempt == current.attempt), None
        )
        is_lost = killed is None and by_another
        culprit = None if is_lost else self._find_culprit(worker, jobs, current)
        has_begun = any(job.attempt <= current.attempt for job in jobs)
        for job in reversed(jobs):
            self._unassign(worker, job)
            if job is not culprit:
                self._retry_lost(job, current)
        if culprit is not None:
            self._blame(culprit, worker, current, now)
        self._detach(worker)
        useful = worker.has_answered or culprit is not None or (by_another and has_begun)
        self.pool.died(worker, why, topic, now, useful=useful)
        if self.phase is SchedulePhase.OPENING:
            self._lose_at_start(worker, why, is_lost=is_lost)
        for job in jobs:
            assert job.queue is not None
            self._remove_if_empty(job.queue)
        self._assign_queues(now)
        self._request_workers(now)

    def _lose_at_start(self, worker: Worker, why: str, *, is_lost: bool) -> None:
        """Continue the start without a process, or end the start."""
        is_to_blame = worker.state_reached is WorkerState.LOADING or worker.kill_cause is not None
        blameless = is_lost or not is_to_blame
        self._lost_at_start += blameless
        if blameless and self._lost_at_start <= _LOST_AT_START_MAX:
            self._check_opened()
            return
        if worker.state_reached is WorkerState.STARTING:
            why = f"a policy process cannot be started: {why}"
        elif not (worker.failure or worker.kill_cause):
            why = f"a policy worker ended: {why}"
        self.failure = why
        # What a policy waits for in configure() may also be there another time.
        self.may_pass = worker.may_pass or blameless or worker.kill_cause is not None
        self._become(SchedulePhase.CANNOT_OPEN)

    def _remove_if_empty(self, queue: Queue) -> bool:
        """Remove the queue of a partition if it is empty; return whether it was."""
        if queue.topic_partition is None or queue.job_count or queue.outstanding:
            return False
        if self._partition_queues.get(queue.topic_partition) is queue:
            del self._partition_queues[queue.topic_partition]
            self._queue_of.pop(queue.topic_partition, None)
            self._assign(queue, None)
        return True

    def _find_culprit(
        self, worker: Worker, jobs: list[JudgingJob], current: CurrentAttempt
    ) -> JudgingJob | None:
        """Return the job that caused the death of its worker, if there is one."""
        killed = worker.kill_cause
        if killed is None:
            attempt = current.attempt if current.phase != DONE else 0
            return worker.sent_jobs.get(attempt)
        if killed.reason is KillReason.DEADLINE_EXCEEDED:
            return worker.sent_jobs.get(killed.current.attempt)
        if killed.reason is KillReason.STALLED:
            return None
        if len(jobs) == 1 and jobs[0].attempt == current.attempt:
            return jobs[0]
        # Any of them may have written to our socket: the next worker gets them one at a time.
        for job in jobs:
            job.exclusive = True
        return None

    def _retry_lost(self, job: JudgingJob, current: CurrentAttempt) -> None:
        """Retry a job that did not cause the death of its worker."""
        if job.state is _ANSWERED:
            return
        if job.attempt <= current.attempt:
            job.lost_attempts += 1
            job.exclusive = True
            if job.lost_attempts > LOST_MAX:
                self._answer_ended(job, current)
                return
        self._requeue(job)

    def _blame(self, job: JudgingJob, worker: Worker, current: CurrentAttempt, now: float) -> None:
        """Answer a job that caused the death of its worker, or retry it."""
        killed = worker.kill_cause
        if killed is None or killed.reason is not KillReason.DEADLINE_EXCEEDED:
            if job.state is not _ANSWERED:
                self._answer_ended(job, current)
            return
        phase = killed.current.phase
        if job.state is _ANSWERED:
            if phase != PREPARING:
                job.overdue_attempts += 1
                self._suspend(job)
            return
        if phase == PREPARING:
            self._answer(job, prepared_too_late(job.policies, killed.text))
        elif phase != INTERCEPTING:
            self._answer(job, failed(job.policies, killed.text))
        else:
            job.overdue_attempts += 1
            if job.overdue_attempts > self._limits.retries or now >= job.deadline:
                self._expire(job)
            else:
                self._requeue(job)

    def _answer_ended(self, job: JudgingJob, current: CurrentAttempt) -> None:
        """Answer a job whose worker ended, and which is given up."""
        if job.attempt == current.attempt and current.phase == INTERCEPTING:
            code, why = self._limits.failed_code, "their process ended"
            verdict = unable(job.interceptors, code, why, cause=FailureCause.PROCESS_ENDED)
        else:
            verdict = failed(job.policies, "ended its process")
        self._answer(job, verdict)

    def _expire(self, job: JudgingJob) -> None:
        """Answer a job whose client times out, or whose attempts are used up."""
        if not job.overdue_attempts:
            if job.state is JobState.BEGUN:
                job.is_abandoned = True
                verdict = timed_out(job.interceptors, _CLIENT_TIMED_OUT)
            else:
                why = self.pool.last_error or "no worker was free for it in time"
                verdict = not_judged(job.policies, why)
            self._answer(job, verdict)
            return
        self._suspend(job)
        each_ms = self._limits.interceptors_timeout_s * 1000
        why = f"did not decide in {job.overdue_attempts} attempts ({each_ms:.0f} ms each)"
        self._answer(job, timed_out(job.interceptors, why))

    def _suspend(self, job: JudgingJob) -> None:
        """Suspend a batch that timed out: its client sends it again."""
        self._act(Suspend(job, job.overdue_attempts * self._limits.interceptors_timeout_s))

    def _kill(self, worker: Worker, reason: KillReason, text: str, now: float) -> None:
        self._detach(worker)
        self.pool.kill(worker, reason, text)
        self._assign_queues(now)

    # Timers

    def tick(
        self,
        current: Mapping[Worker, CurrentAttempt],
        now: float,
        rings: Mapping[Worker, RingFigures] = _NO_RINGS,
    ) -> None:
        """Check progress and deadlines.

        Args:
            current: The attempt that each worker is at.
            rings: The state of the workers' rings.
        """
        self._rings = rings
        if self.phase is SchedulePhase.CLOSED:
            return
        for worker in self.pool.judging:
            ring = rings.get(worker)
            if ring is None or not self._is_busy_with(ring, worker, current[worker], now):
                self._check_worker(worker, current[worker], now)
        for worker in self.pool.ending:
            self._answer_expired(worker, now)
        for job in self._deadlines.due(now):
            if job.state is JobState.WAITING:
                queue = job.queue
                assert queue is not None
                queue.discard(job)
                self._expire(job)
                if self._remove_if_empty(queue):
                    self._assign_queues(now)
        self.pool.check_loading(now)
        for worker in self.pool.idle(now):
            self._detach(worker)
            self.pool.close(worker)
            self._assign_queues(now)
        self._request_workers(now)

    def _is_busy_with(
        self, ring: RingFigures, worker: Worker, current: CurrentAttempt, now: float
    ) -> bool:
        """Return whether a worker judges a batch of its ring, which has no job; or has to end."""
        if ring.is_broken:
            self.protocol_error(worker, now)
            return True
        state = ring.current, ring.outcome_count, current.phase if ring.current else DONE
        if state != worker.ring_state:
            worker.ring_state, worker.ring_since = state, now
            worker.last_active = now
            if ring.outcome_count and not worker.has_answered:
                self.pool.answered(worker)
        took = now - worker.ring_since
        if not ring.current:
            if ring.batch_count > ring.outcome_count and took > self._begin_s:
                worker.ring_since = now
                self._act(Recall(worker))
            return False
        does, limit = "decide", self._limits.timeout_s
        if current.phase == PREPARING:
            does, limit = "prepare", self._limits.preparation_timeout_s
        if took > limit:
            text = f"did not {does} within {limit * 1000:.0f} ms"
            self._kill(worker, KillReason.DEADLINE_EXCEEDED, text, now)
        elif took > self._limits.blocked_after_s and worker.state is WorkerState.READY:
            self._set_blocked(worker, None, now)
        return True

    def _check_worker(self, worker: Worker, current: CurrentAttempt, now: float) -> None:
        loads = bool(current.topic_number)  # after the attempt is done
        job = None if loads else worker.sent_jobs.get(current.attempt)
        if current != worker.current:
            worker.current, worker.current_since = current, now
            if job is not None and job.state is JobState.SENT:
                job.become(JobState.BEGUN)
        idle = not loads and (current.phase == DONE or not current.attempt)
        took = now - worker.current_since
        if idle:
            if worker.state is WorkerState.BLOCKED:
                worker.become(WorkerState.READY)
                self._assign_queues(now)
            quiet = now - max(worker.current_since, worker.last_active)
            if worker.sent_jobs and quiet > self._begin_s:
                text = f"began no batch within {self._begin_s * 1000:.0f} ms"
                self._kill(worker, KillReason.STALLED, text, now)
                return
            if worker.sent_jobs and quiet > NO_PROGRESS_CHECK_S:
                self._answer_expired(worker, now)
        elif self._exceeds_deadline(worker, job, took, now):
            return
        elif took > self._limits.blocked_after_s and worker.state is WorkerState.READY:
            self._set_blocked(worker, job, now)
            return
        if len(worker.sent_jobs) > IN_FLIGHT_MIN and worker.state is WorkerState.READY:
            self._recall_stale(worker, now)

    def _recall_stale(self, worker: Worker, now: float) -> None:
        """Let other workers serve the jobs that have waited behind a batch for long."""
        behind = (job for job in worker.sent_jobs.values() if job.state is JobState.SENT)
        first = next(behind, None)
        if first is not None and now - first.sent_at > STALE_S:
            self._recall(worker, now)
            self._dispatch(worker, now)

    def _answer_expired(self, worker: Worker, now: float) -> None:
        """Answer the jobs of an idle worker whose clients have given up."""
        overdue = [
            job
            for job in worker.sent_jobs.values()
            if now > job.deadline and job.state is not _ANSWERED
        ]
        for job in overdue:
            queue = self._unassign(worker, job)
            self._expire(job)
            if not queue.outstanding:
                self._on_drained(queue, now)

    def _exceeds_deadline(
        self, worker: Worker, job: JudgingJob | None, took: float, now: float
    ) -> bool:
        limits, phase = self._limits, worker.current.phase
        does, limit = "decide", limits.timeout_s
        if worker.current.topic_number:
            does, limit = "load a topic", limits.preparation_timeout_s
        elif phase == INTERCEPTING:
            limit = limits.interceptors_timeout_s
        elif phase == PREPARING:
            does, limit = "prepare", limits.preparation_timeout_s
        if took > limit:
            text = f"did not {does} within {limit * 1000:.0f} ms"
            self._kill(worker, KillReason.DEADLINE_EXCEEDED, text, now)
            return True
        if job is None or now <= job.deadline or job.state is _ANSWERED:
            return False
        # The worker continues in either case, within the limit of the phase.
        if phase == INTERCEPTING:
            self._expire(job)
        elif phase == PREPARING:
            job.is_abandoned = True
            self._answer(job, prepared_too_late(job.policies, _CLIENT_TIMED_OUT))
        return False

    # The end

    def close(self) -> None:
        """Answer all jobs, and close all workers."""
        if self.phase is SchedulePhase.CLOSED:
            return
        self._become(SchedulePhase.CLOSED)
        for queue in (*self._slot_queues, *self._partition_queues.values()):
            for job in list(queue):
                queue.discard(job)
                self._answer(job, not_judged(job.policies, "the gateway stops"))
        for worker in list(self.pool.alive):
            for job in list(worker.sent_jobs.values()):
                self._unassign(worker, job)
                if job.state is not _ANSWERED:
                    self._answer(job, not_judged(job.policies, "the gateway stops"))
            self._detach(worker)
            if worker.state not in {WorkerState.CLOSING, WorkerState.KILLED}:
                self.pool.close(worker)

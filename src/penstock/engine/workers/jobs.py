"""Jobs of the workers, each the batch of a partition or a request about a topic, and their queues.

The partitions of a topic are spread over as many queues as there are workers; a partition that
blocks its worker gets a separate queue. A queue is served by one worker at a time, so that
its jobs stay in order; clients take turns (`penstock.engine.workers.turns`).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from penstock.engine.workers.turns import ClientTurns

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator

    from penstock.engine.workers.turns import Turn

    TopicPartition = tuple[str, int]
    """A topic's name and a partition's number: judged by one worker at a time, in order."""


_GONE: Final = object()
"""Replaces all clients that have disconnected."""

WorkerT = TypeVar("WorkerT")
"""A worker that serves a queue."""


class JobState(IntEnum):
    """The state of a job."""

    WAITING = 0
    SENT = 1
    """Sent to a worker that is not known to have begun it."""
    BEGUN = 2
    ANSWERED = 3


_LEGAL: Final = (
    frozenset({JobState.SENT, JobState.ANSWERED}),
    frozenset({JobState.BEGUN, JobState.WAITING, JobState.ANSWERED}),
    frozenset({JobState.WAITING, JobState.ANSWERED}),
    frozenset[JobState](),
)
"""The legal next states. A job that a worker did not finish waits again."""


@dataclass(slots=True, eq=False)
class JudgingJob:
    """Something to be judged, with its client and deadline.

    Attributes:
        client: The client of the request; clients take turns.
        policies: The names of all classes that judge it, for texts.
        interceptors: The names of those that are interceptors, for texts.
        payload: The content for the worker; opaque to the schedule.
        callback: Called with the verdict by the supervisor.
        size: Bytes.
        deadline: When its client times out.
        attempt: The unique number of its last attempt.
        queue: The queue where it waits, or from which it was sent.
        sent_at: The time of its last attempt.
        expected_s: How long its client's batches took of late, when it was sent; 0 for little.
        overdue_attempts: How many of its attempts ran into the deadline of interceptors.
        lost_attempts: In how many attempts its verdict was lost after it was begun, and it was not
            to blame.
        exclusive: Whether its worker gets no other job, so that a crash can be attributed to it.
        is_abandoned: Whether it was answered while a worker was still judging it, because its
            client had given up.
        submitted_at: When it was submitted.
        judged_s: How long it was judged; None where a worker did not answer.
    """

    topic_partition: TopicPartition
    client: Hashable
    policies: str
    interceptors: str
    payload: Any
    callback: Any
    size: int
    deadline: float
    state: JobState = JobState.WAITING
    attempt: int = 0
    queue: JobQueue[Any] | None = None
    sent_at: float = 0.0
    expected_s: float = 0.0
    overdue_attempts: int = 0
    lost_attempts: int = 0
    exclusive: bool = False
    is_abandoned: bool = False
    submitted_at: float = 0.0
    judged_s: float | None = None

    def become(self, state: JobState) -> None:
        """Change to another state.

        Raises:
            AssertionError: The transition is not legal.
        """
        if state not in _LEGAL[self.state]:
            raise AssertionError(f"{self.state.name} to {state.name}")
        self.state = state


class JobQueue(Generic[WorkerT]):
    """Waiting jobs by client and partition; within a partition in the order of arrival.

    No operation takes longer because more jobs wait, except `split` and `leave` (clients) and
    `cancel` (removed jobs). The jobs of clients that are gone wait as those of a single
    client: otherwise each of these clients would have a share.

    Attributes:
        slot: The slot of the worker that normally serves it; None for the queue of a partition.
        topic_partition: The partition, where this is the queue of one partition.
        worker: The worker that serves it.
        next_worker: The worker that takes over once `worker` has returned what it was sent.
        job_count: How many jobs wait.
        outstanding: How many are sent and not answered.
    """

    __slots__ = (
        "_absent_clients",
        "_turns",
        "job_count",
        "next_worker",
        "outstanding",
        "slot",
        "topic_partition",
        "worker",
    )

    def __init__(
        self,
        slot: int | None = None,
        topic_partition: TopicPartition | None = None,
        gone: Collection[Hashable] = (),
    ) -> None:
        """Make an empty queue.

        Args:
            slot: See above.
            topic_partition: See above.
            gone: The clients that are gone; it may change, and `leave` follows then.
        """
        self._absent_clients = gone
        self.slot = slot
        self.topic_partition = topic_partition
        self.worker: WorkerT | None = None
        self.next_worker: WorkerT | None = None
        self.job_count = 0
        self.outstanding = 0
        self._turns = ClientTurns()

    def _place(self, job: JudgingJob) -> tuple[Turn, Hashable]:
        """Return where a job waits: whose turn it is, and the key of its client and partition."""
        if job.client in self._absent_clients:
            return self._turns.of(_GONE), (job.client, job.topic_partition)
        return self._turns.of(job.client), job.topic_partition

    def add(self, job: JudgingJob) -> None:
        """Append a job to those of its client and partition."""
        self.job_count += 1
        turn, key = self._place(job)
        jobs = turn.jobs.get(key)
        if jobs is None:
            jobs = turn.jobs[key] = OrderedDict()
        jobs[job] = None
        if not turn.number:
            self._turns.enter(turn)

    def requeue(self, job: JudgingJob) -> None:
        """Put a job that was taken back at the head of the queue."""
        self.add(job)
        turn, key = self._place(job)
        turn.jobs[key].move_to_end(job, last=False)
        turn.jobs.move_to_end(key, last=False)
        self._turns.enter_first(turn, job.expected_s)

    def take(self) -> JudgingJob:
        """Remove and return the next client's job; the queue must not be empty."""
        self.job_count -= 1
        turn = self._turns.next()
        key, jobs = next(iter(turn.jobs.items()))
        job: JudgingJob = jobs.popitem(last=False)[0]
        if jobs:
            turn.jobs.move_to_end(key)
        else:
            del turn.jobs[key]
        job.expected_s = turn.expected_s
        self._turns.begin(turn)
        return job

    def pass_through(self, job: JudgingJob) -> None:
        """Count a job that need not wait."""
        job.expected_s = self._turns.begin_at_once(self._account(job))

    def settle(self, job: JudgingJob, took_s: float) -> None:
        """Count how long a job took, which decides when its client is next.

        Not necessary if the job took, and was expected to take, less than `LEAST_S`.
        """
        self._turns.settle(self._account(job), job.expected_s, took_s)

    def _account(self, job: JudgingJob) -> Hashable:
        return _GONE if job.client in self._absent_clients else job.client

    def discard(self, job: JudgingJob) -> None:
        """Remove a waiting job, which is given up."""
        self.job_count -= 1
        turn, key = self._place(job)
        jobs = turn.jobs[key]
        del jobs[job]
        if not jobs:
            del turn.jobs[key]
            if not turn.jobs:
                turn.timed_out = bool(turn.expected_s)
                self._turns.leave(turn)

    def split(self, topic_partition: TopicPartition, into: JobQueue[WorkerT]) -> None:
        """Move a partition's jobs to another queue, in order."""
        for client, turn in list(self._turns):
            for key in _keys(turn, client, topic_partition):
                jobs = turn.jobs.pop(key)
                self.job_count -= len(jobs)
                into.job_count += len(jobs)
                theirs = into._turns.of(client)
                theirs.jobs[key] = jobs
                theirs.expected_s = turn.expected_s
                if not theirs.number:
                    into._turns.enter(theirs)
            if not turn.jobs:
                self._turns.leave(turn)

    def leave(self, client: Hashable) -> None:
        """Move the jobs of a client to those of the clients that are gone."""
        turn = self._turns.forget(client)
        if turn is None or not turn.jobs:
            return
        gone = self._turns.of(_GONE)
        for topic_partition, jobs in turn.jobs.items():
            gone.jobs[client, topic_partition] = jobs
        if not gone.number:
            gone.start = max(gone.start, turn.start)
            self._turns.enter(gone)

    def cancel(self, client: Hashable) -> list[JudgingJob]:
        """Remove and return all jobs of a client."""
        turn = self._turns.forget(client)
        job_groups = list(turn.jobs.values()) if turn else []
        if client in self._absent_clients:
            job_groups += self._cancel_gone(client)
        jobs = [job for some in job_groups for job in some]
        self.job_count -= len(jobs)
        return jobs

    def _cancel_gone(self, client: Hashable) -> list[OrderedDict[Any, None]]:
        gone = self._turns.of(_GONE)
        job_groups = [gone.jobs.pop(key) for key in list(gone.jobs) if _client_of(key) == client]
        if gone.number and not gone.jobs:
            self._turns.leave(gone)
        return job_groups

    def __iter__(self) -> Iterator[JudgingJob]:
        return (job for _, turn in self._turns for jobs in turn.jobs.values() for job in jobs)


def _client_of(key: Any) -> Hashable:
    """Return whose jobs have a key in the turn of the clients that are gone."""
    client: Hashable = key[0]
    return client


def _keys(turn: Turn, client: Hashable, topic_partition: TopicPartition) -> list[Hashable]:
    """Return the keys of a partition's jobs in a turn."""
    if client is not _GONE:
        return [topic_partition] if topic_partition in turn.jobs else []
    return [key for key in turn.jobs if _partition_of(key) == topic_partition]


def _partition_of(key: Any) -> TopicPartition:
    partition: TopicPartition = key[1]
    return partition

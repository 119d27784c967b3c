"""Jobs of the workers, each one partition's batch or a request about a topic, and their queues.

The partitions of a topic are spread over as many queues as there are workers; a partition that
blocks its worker gets a queue of its own. A queue is served by one worker at a time, so that
its jobs stay in order; clients are served round-robin.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    Jobs = OrderedDict["Job", None]
    ByPartition = OrderedDict["TopicPartition", Jobs]

    TopicPartition = tuple[str, int]
    """A topic's name and a partition's number: judged by one worker at a time, in order."""


WorkerT = TypeVar("WorkerT")
"""What serves a queue."""


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
class Job:
    """Something to be judged, with its client and deadline.

    Attributes:
        topic_partition: Topic and partition.
        client: Whose request it is; clients are served round-robin.
        policies: The names of all classes that look at it, for texts.
        interceptors: The names of those that are interceptors, for texts.
        payload: The content for the worker; opaque to the schedule.
        done: Called with the verdict by the supervisor.
        size: Bytes.
        deadline: When its client gives it up.
        state: Where it is.
        attempt: The unique number of its last attempt.
        queue: The queue where it waits, or from which it was sent.
        sent_at: The time of its last attempt.
        overdue: How many of its attempts ran into the deadline of interceptors.
        lost: In how many attempts its verdict was lost after it was begun, and it was not to blame.
        exclusive: Whether its worker gets no other job, so that a crash can be attributed to it.
        abandoned: Whether it was answered while a worker was still judging it, because its
            client had given up.
        submitted_at: When it was submitted.
        judged_s: How long it was judged; None where a worker did not answer.
    """

    topic_partition: TopicPartition
    client: Hashable
    policies: str
    interceptors: str
    payload: Any
    done: Any
    size: int
    deadline: float
    state: JobState = JobState.WAITING
    attempt: int = 0
    queue: JobQueue[Any] | None = None
    sent_at: float = 0.0
    overdue: int = 0
    lost: int = 0
    exclusive: bool = False
    abandoned: bool = False
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

    Every operation is O(1) in the number of waiting jobs, except `split` (clients) and `cancel`
    (removed jobs).

    Attributes:
        slot: The slot of the worker that normally serves it; None for the queue of a partition.
        topic_partition: The partition, where this is the queue of one partition.
        worker: The worker that serves it.
        next_worker: The worker that takes over once `worker` has returned what it was sent.
        waiting: How many jobs wait.
        outstanding: How many are sent and not answered.
    """

    __slots__ = (
        "_by_client",
        "next_worker",
        "outstanding",
        "slot",
        "topic_partition",
        "waiting",
        "worker",
    )

    def __init__(
        self, slot: int | None = None, topic_partition: TopicPartition | None = None
    ) -> None:
        self.slot = slot
        self.topic_partition = topic_partition
        self.worker: WorkerT | None = None
        self.next_worker: WorkerT | None = None
        self.waiting = 0
        self.outstanding = 0
        self._by_client: OrderedDict[Hashable, ByPartition] = OrderedDict()

    def add(self, job: Job) -> None:
        """Append a job to those of its client and partition."""
        self.waiting += 1
        partitions = self._by_client.get(job.client)
        if partitions is None:
            partitions = self._by_client[job.client] = OrderedDict()
        jobs = partitions.get(job.topic_partition)
        if jobs is None:
            jobs = partitions[job.topic_partition] = OrderedDict()
        jobs[job] = None

    def requeue(self, job: Job) -> None:
        """Put a job that was taken back at the head of the queue."""
        self.add(job)
        partitions = self._by_client[job.client]
        partitions[job.topic_partition].move_to_end(job, last=False)
        partitions.move_to_end(job.topic_partition, last=False)
        self._by_client.move_to_end(job.client, last=False)

    def take(self) -> Job:
        """Remove and return the next client's job; the queue must not be empty."""
        self.waiting -= 1
        client, partitions = next(iter(self._by_client.items()))
        topic_partition, jobs = next(iter(partitions.items()))
        job, _ = jobs.popitem(last=False)
        if jobs:
            partitions.move_to_end(topic_partition)
        else:
            del partitions[topic_partition]
        if partitions:
            self._by_client.move_to_end(client)
        else:
            del self._by_client[client]
        return job

    def discard(self, job: Job) -> None:
        """Remove a waiting job."""
        self.waiting -= 1
        partitions = self._by_client[job.client]
        jobs = partitions[job.topic_partition]
        del jobs[job]
        if not jobs:
            del partitions[job.topic_partition]
            if not partitions:
                del self._by_client[job.client]

    def split(self, topic_partition: TopicPartition, into: JobQueue[WorkerT]) -> None:
        """Move a partition's jobs to another queue, in order."""
        for client, partitions in list(self._by_client.items()):
            jobs = partitions.pop(topic_partition, None)
            if jobs is None:
                continue
            if not partitions:
                del self._by_client[client]
            self.waiting -= len(jobs)
            into.waiting += len(jobs)
            into._by_client[client] = OrderedDict({topic_partition: jobs})

    def cancel(self, client: Hashable) -> list[Job]:
        """Remove and return all jobs of a client."""
        partitions = self._by_client.pop(client, None)
        jobs = [job for jobs in partitions.values() for job in jobs] if partitions else []
        self.waiting -= len(jobs)
        return jobs

    def __iter__(self) -> Iterator[Job]:
        return (
            job
            for partitions in self._by_client.values()
            for jobs in partitions.values()
            for job in jobs
        )

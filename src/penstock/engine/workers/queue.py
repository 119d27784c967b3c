"""Jobs that wait for the same worker, taken in turns.

The partitions of a topic are spread over as many lines as there are workers; a partition that
holds up its worker gets a line of its own. A line is served by one worker at a time, so what
is in it keeps its order.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from penstock.engine.workers.jobs import Job, Place
    from penstock.engine.workers.worker import Worker

    Jobs = OrderedDict[Job, None]
    Turn = OrderedDict[Place, Jobs]


class JobQueue:
    """Waiting jobs: those of each turn by partition, and those in the order in which they came.

    Every operation takes the same time however many jobs wait, but for `split` and
    `withdraw`, which look at each turn or at what they take.

    Attributes:
        slot: Which worker is to serve it when all is well; None for a partition of its own.
        place: The partition whose own line this is.
        server: The worker that serves it.
        heir: The worker that will, once the server has answered what it was sent.
        waiting: How many jobs wait.
        outstanding: How many were sent and are not back.
    """

    __slots__ = ("_turns", "heir", "outstanding", "place", "server", "slot", "waiting")

    def __init__(self, slot: int | None = None, place: Place | None = None) -> None:
        self.slot = slot
        self.place = place
        self.server: Worker | None = None
        self.heir: Worker | None = None
        self.waiting = 0
        self.outstanding = 0
        self._turns: OrderedDict[Hashable, Turn] = OrderedDict()

    def add(self, job: Job) -> None:
        """Add a job behind those of its turn and partition."""
        self.waiting += 1
        turn = self._turns.get(job.turn)
        if turn is None:
            turn = self._turns[job.turn] = OrderedDict()
        jobs = turn.get(job.place)
        if jobs is None:
            jobs = turn[job.place] = OrderedDict()
        jobs[job] = None

    def put_back(self, job: Job) -> None:
        """Add a job before all others: it had its turn."""
        self.add(job)
        turn = self._turns[job.turn]
        turn[job.place].move_to_end(job, last=False)
        turn.move_to_end(job.place, last=False)
        self._turns.move_to_end(job.turn, last=False)

    def take(self) -> Job:
        """Take the first job of the next turn, of its next partition. One must be waiting."""
        self.waiting -= 1
        whose, turn = next(iter(self._turns.items()))
        place, jobs = next(iter(turn.items()))
        job, _ = jobs.popitem(last=False)
        if jobs:
            turn.move_to_end(place)
        else:
            del turn[place]
        if turn:
            self._turns.move_to_end(whose)
        else:
            del self._turns[whose]
        return job

    def discard(self, job: Job) -> None:
        """Take a certain job, which waits."""
        self.waiting -= 1
        turn = self._turns[job.turn]
        jobs = turn[job.place]
        del jobs[job]
        if not jobs:
            del turn[job.place]
            if not turn:
                del self._turns[job.turn]

    def split(self, place: Place, into: JobQueue) -> None:
        """Move a partition's jobs to another line, in their order."""
        for whose, turn in list(self._turns.items()):
            jobs = turn.pop(place, None)
            if jobs is None:
                continue
            if not turn:
                del self._turns[whose]
            self.waiting -= len(jobs)
            into.waiting += len(jobs)
            into._turns[whose] = OrderedDict({place: jobs})

    def withdraw(self, whose: Hashable) -> list[Job]:
        """Take all jobs of one turn."""
        turn = self._turns.pop(whose, None)
        jobs = [job for jobs in turn.values() for job in jobs] if turn else []
        self.waiting -= len(jobs)
        return jobs

    def __iter__(self) -> Iterator[Job]:
        return (job for turn in self._turns.values() for jobs in turn.values() for job in jobs)

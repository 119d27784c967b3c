"""Audits whole batches: the verdicts that policies would have had on a topic's latest records.

Policy workers judge stored batches as if their producers sent them now, with the code of the
gateway, deadlines included; as many at a time as their memory may hold. Nothing is written.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from penstock.engine.path_counts import PathTally
from penstock.engine.verdict import FailureCause
from penstock.engine.workers.batch_to_judge import BatchToJudge
from penstock.jobs.report.bounded_counter import BoundedCounter
from penstock.jobs.report.counts import AuditCounts
from penstock.jobs.tasks.whole_batches import count_batch, count_unjudged
from penstock.kafka.wire.names import NO_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from uuid import UUID

    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.engine.verdict import PolicyVerdict
    from penstock.engine.workers.observer import WorkerEnd
    from penstock.jobs.topics.excerpt_reading import ReadBatch

WAITING_MAX_BYTES: Final = 32 * 2**20
KILLS_MAX: Final = 20
"""After so many batches at which a policy was killed for its time, or ended its process, its
problem is known; each has cost seconds."""
REASONS_KEPT: Final = 200
"""Reasons of one topic: each topic has its own counts."""
_READ_AT_ONCE: Final = 64
_VERSION: Final = 9
"""Of Produce requests: a version that all current clients can send."""
_KILLED: Final = frozenset({FailureCause.TIMED_OUT, FailureCause.PROCESS_ENDED})


class Pool(Protocol):
    """What a `penstock.engine.workers.supervisor.Supervisor` does here."""

    def submit(self, batch: BatchToJudge, callback: Callable[[PolicyVerdict], None]) -> None: ...


class PathEvents:
    """Counts how often the paths of policies led to a field, from the events of workers."""

    def __init__(self) -> None:
        self.paths = PathTally()

    def judged(
        self, policies: str, cause: FailureCause | None, waited_s: float, judged_s: float
    ) -> None:
        """Ignore a verdict: its batch is counted by itself."""

    def ended(self, cause: WorkerEnd) -> None:
        """Ignore the end of a worker: the verdict on its batch says it."""

    def policy_event(self, event: str, result: str, amount: int) -> None:
        """Count the event."""
        self.paths.add_event(event, result, amount)


class BatchAudit:
    """Batches that workers judge, and the counts of their verdicts.

    Attributes:
        counts: By topic.
        records: How many records have come back.
        kills: How many batches cost a worker.
    """

    def __init__(
        self, pool: Pool, plans: Mapping[str, TopicPlan], topic_ids: Mapping[str, UUID]
    ) -> None:
        """Set the workers that judge.

        Args:
            pool: The workers, started.
            plans: The policies of each topic.
            topic_ids: The ids of topics, for policies that use them.
        """
        self.counts = {topic: AuditCounts(reasons=BoundedCounter(REASONS_KEPT)) for topic in plans}
        self.records = self.kills = 0
        self._pool = pool
        self._plans = {topic: plan.enforced() for topic, plan in plans.items()}
        self._topic_ids = topic_ids
        self._pending_bytes = self._pending_batches = 0
        self._change = asyncio.Event()

    def total(self) -> AuditCounts:
        """Return the counts of all topics together."""
        total_counts = AuditCounts()
        for counts in self.counts.values():
            total_counts.merge(counts)
        return total_counts

    async def judge(self, batches: Iterator[ReadBatch]) -> bool:
        """Judge batches, which are read in a thread meanwhile.

        Returns:
            Whether that was all: not so where policies cost too many workers.
        """
        while self.kills < KILLS_MAX:
            some = await asyncio.to_thread(lambda: list(islice(batches, _READ_AT_ONCE)))
            if not some:
                await self._until(lambda: not self._pending_batches)
                return self.kills < KILLS_MAX
            for batch in some:
                await self._until(lambda: self._pending_bytes < WAITING_MAX_BYTES)
                self._submit(batch)
            # A hanging policy is to be detected before there are many batches.
            await self._until(lambda: self._pending_batches < 2 * _READ_AT_ONCE)
        return False

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._change.clear()
            await self._change.wait()

    def _submit(self, batch: ReadBatch) -> None:
        if batch.data is None:
            count_unjudged(self.counts[batch.topic], batch)
            self.records += batch.record_count
            return
        if self.kills >= KILLS_MAX:
            return
        plan = self._plans[batch.topic]
        self._pending_batches += 1
        self._pending_bytes += len(batch.data)
        self._pool.submit(
            BatchToJudge(
                plan,
                batch.partition,
                self._topic_ids.get(batch.topic, NO_ID),
                _VERSION,
                batch.data,
                # Each partition by itself: a partition that hangs does not delay the others.
                client=(batch.topic, batch.partition),
            ),
            partial(self._judged, plan, batch._replace(data=None), len(batch.data)),
        )

    def _judged(self, plan: TopicPlan, batch: ReadBatch, size: int, verdict: PolicyVerdict) -> None:
        self._pending_batches -= 1
        self._pending_bytes -= size
        self.kills += verdict.cause in _KILLED
        self.records += batch.record_count
        count_batch(self.counts[batch.topic], batch, verdict, plan.interceptor_names)
        self._change.set()

"""Batches on their way through workers, with verdicts of the test."""

import asyncio
import uuid

from penstock.engine.path_counts import PathCount, events_of
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import ACCEPTED, FailureCause, failed, refused
from penstock.engine.workers.observer import WorkerEnd
from penstock.jobs import since
from penstock.jobs.since import BatchAudit, PathEvents
from penstock.jobs.topics.excerpt_reading import ReadBatch

PLANS = {"orders": TopicPlan(topic="orders", validators=("a.V",))}
ID = uuid.UUID(int=7)


def batch(number, size=100):
    return ReadBatch("orders", 0, b"x" * size, 2, size, range(2 * number, 2 * number + 2))


class Pool:
    """Answers when the test calls back, or at once."""

    def __init__(self, verdict=None):
        self.verdict, self.waiting, self.most, self.ids = verdict, [], 0, set()
        self.senders = set()

    def submit(self, batch, done):
        self.ids.add(batch.topic_id)
        self.senders.add(batch.sender)
        if self.verdict is not None:
            done(self.verdict)
            return
        self.waiting.append(done)
        self.most = max(self.most, len(self.waiting))


async def test_everything_is_judged_and_counted():
    pool = Pool(refused(87, "no", "a.V"))
    audit = BatchAudit(pool, PLANS, {"orders": ID})
    assert await audit.judge(iter([batch(n) for n in range(1000)]))
    assert audit.counts["orders"].outcomes == {"refused": 2000}
    assert audit.records == 2000
    assert pool.ids == {ID}
    assert pool.senders == {None}  # brokers do not store who sent a record


async def test_waiting_batches_are_bounded(monkeypatch):
    monkeypatch.setattr(since, "WAITING_MAX_BYTES", 1000)
    pool = Pool()
    audit = BatchAudit(pool, PLANS, {})
    task = asyncio.create_task(audit.judge(iter([batch(n) for n in range(50)])))
    answered = 0
    while answered < 50:
        while not pool.waiting:
            await asyncio.sleep(0)
        pool.waiting.pop(0)(ACCEPTED)
        answered += 1
    assert await task
    assert pool.most <= 10
    assert audit.counts["orders"].outcomes == {"accepted": 100}


async def test_a_batch_that_cannot_be_read_is_counted_and_not_judged():
    pool = Pool(ACCEPTED)
    audit = BatchAudit(pool, PLANS, {})
    assert await audit.judge(iter([batch(0)._replace(data=None)]))
    assert audit.counts["orders"].outcomes == {"not judged": 2}
    assert pool.ids == set()


async def test_an_audit_ends_if_a_policy_ends_too_many_workers():
    pool = Pool(failed("a.V", "took too long", cause=FailureCause.TIMED_OUT))
    audit = BatchAudit(pool, PLANS, {})
    assert not await audit.judge(iter([batch(n) for n in range(10_000)]))
    assert audit.kills == since.KILLS_MAX
    assert audit.counts["orders"].outcomes == {"failed": 2 * since.KILLS_MAX}


async def test_the_counts_of_all_topics_are_added():
    plans = {name: TopicPlan(topic=name, validators=("a.V",)) for name in ("orders", "returns")}
    audit = BatchAudit(Pool(refused(44, "no", "a.V")), plans, {})
    batches = [batch(0), batch(0)._replace(topic="returns"), batch(1)._replace(data=None)]
    assert await audit.judge(iter(batches))
    total = audit.total()
    assert total.outcomes == {"refused": 4, "not judged": 2}
    assert total.batches == {"refused": 2, "not judged": 1}
    assert (total.judged, total.share) == (4, 1.0)


def test_events_of_paths_are_counted():
    events = PathEvents()
    events.judged("p", None, 0.0, 0.0)
    events.ended(WorkerEnd.CRASHED)
    for event in (*events_of([PathCount("p", "a", 3, 0)]), ("output", "lost", 1)):
        events.policy_event(*event)

    assert events.paths.counts() == [PathCount("p", "a", 3, 0)]

"""Batches on their way through workers, with verdicts of the test."""

import asyncio
import uuid

from penstock.backtest import judging
from penstock.backtest.judging import Backtest
from penstock.backtest.stored_batches import ReadBatch
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import ACCEPTED, FailureCause, failed, refused

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
    backtest = Backtest(pool, PLANS, {"orders": ID})
    assert await backtest.judge(iter([batch(n) for n in range(1000)]))
    assert backtest.tallies["orders"].records == {"refused": 2000}
    assert backtest.records == 2000
    assert pool.ids == {ID}
    assert pool.senders == {None}  # brokers do not store who sent a record


async def test_waiting_batches_are_bounded(monkeypatch):
    monkeypatch.setattr(judging, "WAITING_MAX_BYTES", 1000)
    pool = Pool()
    backtest = Backtest(pool, PLANS, {})
    task = asyncio.create_task(backtest.judge(iter([batch(n) for n in range(50)])))
    answered = 0
    while answered < 50:
        while not pool.waiting:
            await asyncio.sleep(0)
        pool.waiting.pop(0)(ACCEPTED)
        answered += 1
    assert await task
    assert pool.most <= 10
    assert backtest.tallies["orders"].records == {"accepted": 100}


async def test_a_batch_that_cannot_be_read_is_counted_and_not_judged():
    pool = Pool(ACCEPTED)
    backtest = Backtest(pool, PLANS, {})
    assert await backtest.judge(iter([batch(0)._replace(data=None)]))
    assert backtest.tallies["orders"].records == {"not judged": 2}
    assert pool.ids == set()


async def test_a_backtest_ends_if_a_policy_ends_too_many_workers():
    pool = Pool(failed("a.V", "took too long", cause=FailureCause.TIMED_OUT))
    backtest = Backtest(pool, PLANS, {})
    assert not await backtest.judge(iter([batch(n) for n in range(10_000)]))
    assert backtest.kills == judging.KILLS_MAX
    assert backtest.tallies["orders"].records == {"failed": 2 * judging.KILLS_MAX}

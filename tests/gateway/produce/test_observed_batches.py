"""Batches that are judged in the background while they are forwarded, with verdicts of the test."""

import asyncio
import uuid

import pytest
from structlog.testing import capture_logs

from penstock import _native
from penstock.configuration import ConfigurationError
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import (
    ACCEPTED,
    FailureCause,
    PolicyVerdict,
    Replacement,
    failed,
    not_judged,
    refused,
    replaced,
)
from penstock.engine.workers.observer import WorkerEnd
from penstock.engine.workers.rings import FromRing
from penstock.gateway.observing.metrics.counts import GatewayCounts
from penstock.gateway.observing.metrics.exposition import render
from penstock.gateway.produce import observed_batches
from penstock.gateway.produce.observed_batches import ObservedBatch, TimesBeside
from penstock.policy import ClientContext
from tests.gateway.produce.observing import DATA, Observing
from tests.metrics import Metrics

PLAN = TopicPlan(topic="orders", interceptors=("a.I",), validators=("a.V",), mode="observe")
SENDER = ClientContext("User:alice", "client", "10.0.0.7")
BATCH = ObservedBatch(PLAN, 3, uuid.UUID(int=1), 9, "client", 7, SENDER)


@pytest.fixture
async def observing():
    return Observing()


@pytest.fixture
def log():
    with capture_logs() as events:
        yield events


async def test_workers_start_with_the_first_batch_to_observe(observing):
    assert observing.pools == []
    observing.batches.submit(BATCH, DATA)
    observing.batches.submit(BATCH, DATA)
    assert len(observing.pools) == 1


async def test_batches_before_the_start_of_workers_are_judged_after_it(observing):
    observing.batches.submit(BATCH, memoryview(DATA))
    assert observing.pools[0].jobs == []
    await observing.opened()
    ((data, done),) = observing.pools[0].jobs
    assert data == DATA
    assert isinstance(data, bytes)  # a view would hold the whole request
    assert observing.batches.held_bytes == len(DATA)
    done(ACCEPTED)
    assert (observing.batches.held_bytes, observing.batches.batches) == (0, 0)
    assert await observing.counted() == {("a.I, a.V", "accepted"): 4}
    assert observing.refusals == []


@pytest.mark.parametrize(
    ("verdict", "counted"),
    [
        (refused(87, "no", "a.V"), {("a.V", "would_refuse"): 4}),
        (failed("a.V", "raised"), {("a.V", "would_fail"): 4}),
    ],
)
async def test_refusals_are_counted_and_reported(observing, verdict, counted):
    observing.batches.submit(BATCH, DATA)
    await observing.opened()
    observing.pools[0].jobs[0][1](verdict)
    assert await observing.counted() == counted
    (refusal,) = observing.refusals
    assert (refusal.topic, refusal.partition, refusal.client_id) == ("orders", 3, "client")
    assert (refusal.principal, refusal.address) == ("User:alice", "10.0.0.7")
    assert refusal.verdict is verdict
    assert refusal.is_observed


async def test_an_unknown_client_is_not_reported(observing):
    observing.batches.submit(BATCH._replace(sender=None), DATA)
    await observing.opened()
    observing.pools[0].jobs[0][1](refused(87, "no", "a.V"))
    (refusal,) = observing.refusals
    assert (refusal.principal, refusal.client_id, refusal.address) == (None, "client", None)


@pytest.mark.parametrize(
    ("verdict", "counted"),
    [
        (replaced(b"new", [0, 2]), {("a.I", "would_drop"): 2, ("a.I", "would_change"): 2}),
        (replaced(b"new", []), {("a.I", "would_change"): 4}),
        (replaced(b"", [0, 1, 2, 3]), {("a.I", "would_drop"): 4}),
    ],
)
async def test_actions_of_interceptors_are_counted(observing, verdict, counted):
    assert isinstance(verdict, PolicyVerdict)
    assert isinstance(verdict.replacement, Replacement)
    observing.batches.submit(BATCH, DATA)
    await observing.opened()
    observing.pools[0].jobs[0][1](verdict)
    assert await observing.counted() == counted
    assert observing.refusals == []


async def test_batches_without_room_are_counted_and_not_judged():
    observing = Observing(max_bytes=2 * len(DATA))
    for _ in range(3):
        observing.batches.submit(BATCH, DATA)
    await observing.opened()
    jobs = observing.pools[0].jobs
    assert len(jobs) == 2
    assert await observing.counted() == {("a.I, a.V", "not_observed"): 4}
    jobs[0][1](ACCEPTED)
    observing.batches.submit(BATCH, DATA)
    assert len(jobs) == 3


async def test_the_number_of_waiting_batches_is_limited(observing, monkeypatch):
    monkeypatch.setattr(observed_batches, "BATCHES_MAX", 1)
    observing.batches.submit(BATCH, DATA)
    observing.batches.submit(BATCH, DATA)
    assert await observing.counted() == {("a.I, a.V", "not_observed"): 4}


async def test_a_batch_that_no_worker_has_begun_counts_as_not_observed_by_any_policy(observing):
    observing.batches.submit(BATCH, DATA)
    await observing.opened()
    observing.pools[0].jobs[0][1](not_judged("a.V", "no worker was free for it in time"))
    assert await observing.counted() == {("a.I, a.V", "not_observed"): 4}
    assert observing.refusals == []


async def test_a_batch_of_a_topic_that_cannot_be_judged_would_fail(observing):
    unusable = BATCH._replace(plan=TopicPlan(topic="orders", validators=("a.V",), unusable="why"))
    observing.batches.submit(unusable, DATA)
    assert observing.pools == []
    assert await observing.counted() == {("a.V", "would_fail"): 4}
    assert "why" in observing.refusals[0].verdict.message


async def test_loading_of_policies_is_retried_later(observing):
    observing.batches.submit(BATCH, DATA)
    await observing.opened(ConfigurationError("no"))
    assert await observing.counted() == {("a.I, a.V", "not_observed"): 4}
    observing.batches.submit(BATCH, DATA)
    assert len(observing.pools) == 1
    observing.now += 60
    observing.batches.submit(BATCH, DATA)
    assert len(observing.pools) == 2
    await observing.opened()
    assert len(observing.pools[1].jobs) == 1
    assert observing.batches.batches == 1


async def test_an_error_of_the_gateway_does_not_affect_the_client(observing):
    observing.batches.submit(BATCH, DATA)
    await observing.opened()
    observing.pools[0].submit = None  # not callable
    observing.batches.submit(BATCH, DATA)
    assert (observing.batches.batches, observing.batches.held_bytes) == (1, len(DATA))


async def test_judging_times_do_not_include_waiting():
    counts = GatewayCounts(records_max=1000)
    times = TimesBeside(counts)
    times.judged("a.V", None, 9.0, 0.5)
    times.judged("a.V", FailureCause.NOT_JUDGED, 9.0, 0.0)
    times.ended(WorkerEnd.DEADLINE)
    found = Metrics((await render(counts.families())).decode())
    assert found.of("penstock_judging_seconds_sum") == {("a.V",): 0.5}
    assert found.of("penstock_judging_seconds_count") == {("a.V",): 1}
    assert found.of("penstock_waiting_seconds_count") == {}
    assert found("penstock_worker_restarts_total", cause="deadline") == 1


async def test_close_judges_waiting_batches_for_a_limited_time(observing):
    await observing.batches.close(drain_s=60.0)
    assert observing.pools == []
    other = Observing()
    other.batches.submit(BATCH, DATA)
    await other.opened()
    await other.batches.close(drain_s=60.0)
    assert other.pools[0].closed == [pytest.approx(60.0, abs=30.0)]


async def test_close_does_not_wait_for_workers_that_have_not_started(observing):
    observing.batches.submit(BATCH, DATA)
    await observing.batches.close()
    await observing.opened(ConfigurationError("closed"))
    assert observing.pools[0].closed == [0.0]
    assert observing.batches.batches == 0
    observing.batches.submit(BATCH, DATA)
    assert len(observing.pools) == 1


async def test_workers_that_cannot_be_created_are_retried_later_and_logged_once(observing, log):
    def broken():
        observing.pools.append(None)
        raise OSError("no descriptors")

    observing.batches._make_pool = broken
    for _ in range(3):
        observing.batches.submit(BATCH, DATA)
    assert len(observing.pools) == 1
    assert (observing.batches.batches, observing.batches.held_bytes) == (0, 0)
    assert await observing.counted() == {("a.I, a.V", "not_observed"): 12}
    assert [batch["log_level"] for batch in log].count("error") == 1


async def test_a_start_of_workers_that_fails_with_any_error_is_retried_later(observing):
    observing.batches.submit(BATCH, DATA)
    await observing.opened(OSError("no processes"))
    assert (observing.batches.batches, observing.batches.held_bytes) == (0, 0)
    observing.now += 60
    observing.batches.submit(BATCH, DATA)
    await observing.opened()
    assert len(observing.pools[1].jobs) == 1


async def test_batches_that_were_not_observed_in_the_end_are_logged_at_close(observing, log):
    observing.batches.submit(BATCH, DATA)
    await observing.opened(ConfigurationError("no"))
    for _ in range(3):
        observing.batches.submit(BATCH, DATA)
    await observing.batches.close()
    warnings = [batch for batch in log if batch["event"].startswith("batches not observed")]
    assert sum(item["count"] for item in warnings) == 4


async def test_after_a_reload_batches_that_wait_for_starting_workers_are_judged(observing):
    observing.batches.submit(BATCH, DATA)
    closing = asyncio.create_task(observing.batches.close(drain_s=60.0))
    await asyncio.sleep(0)
    await observing.opened()
    ((_, done),) = observing.pools[0].jobs
    done(ACCEPTED)
    await closing
    assert len(observing.pools[0].closed) == 1
    assert observing.pools[0].closed[0] > 0
    assert await observing.counted() == {("a.I, a.V", "accepted"): 4}


async def test_the_wait_for_workers_that_do_not_start_is_limited(observing):
    observing.batches.submit(BATCH, DATA)
    await observing.batches.close(drain_s=0.01)
    await observing.opened(ConfigurationError("closed"))
    assert observing.pools[0].closed == [0.0]
    assert await observing.counted() == {("a.I, a.V", "not_observed"): 4}


rings_are_there = pytest.mark.skipif(
    not hasattr(_native, "RingPool"), reason="native threads need Linux"
)
FROM_RING = FromRing(
    PLAN.encoded, 3, bytes(16), 9, 7, "User:alice", "client", "10.0.0.7", DATA, len(DATA) + 20
)


def room(pool, most=10_000):
    """Return how many bytes more a native pool has room for."""
    free = next(size for size in range(most, -1, -1) if pool.reserve(size))
    pool.release(free)
    return free


@rings_are_there
async def test_batches_of_rings_and_others_have_one_limit():
    size = len(DATA) + len("client")
    pool = _native.RingPool([], 3, 10_000, 100)
    observing = Observing(ring_pool=pool)
    for _ in range(2):
        observing.batches.submit(BATCH, DATA)
    assert room(pool) == 10_000 - 2 * size
    assert pool.reserve(10)  # as a native thread does
    observing.batches.submit(BATCH, DATA)
    await observing.opened()
    assert len(observing.pools[0].jobs) == 2
    assert await observing.counted() == {("a.I, a.V", "not_observed"): 4}
    pool.release(10)
    observing.pools[0].jobs[0][1](ACCEPTED)
    assert room(pool) == 10_000 - size


@rings_are_there
@pytest.mark.parametrize("way", ["verdict", "again", "closed", "error"])
async def test_a_batch_of_a_ring_keeps_its_room_until_it_has_a_verdict(way):
    pool = _native.RingPool([], 3, 10_000, 100)
    observing = Observing(ring_pool=pool)
    observing.batches.submit(BATCH, DATA)
    await observing.opened()
    observing.pools[0].jobs[0][1](ACCEPTED)
    assert pool.reserve(FROM_RING.size)
    if way == "verdict":
        observing.batches.put_judged(FROM_RING, refused(87, "no", "a.V"), 0.5)
    elif way == "error":
        observing.batches._refused = None
        with pytest.raises(TypeError):
            observing.batches.put_judged(FROM_RING, refused(87, "no", "a.V"), 0.5)
    elif way == "closed":
        await observing.batches.close()
        observing.batches.judge_again(FROM_RING)
    else:
        observing.batches.judge_again(FROM_RING)
        assert room(pool) == 10_000 - FROM_RING.size
        observing.pools[0].jobs[1][1](ACCEPTED)
    assert room(pool) == 10_000


class GivenBack:
    """The native end of workers, which have no ring."""

    def __init__(self, *returned):
        self.returned, self.room = list(returned), -len(returned)

    def take_observed(self):
        returned, self.returned = self.returned, []
        return [], returned, []

    def reserve(self, _):
        self.room -= 1
        return True

    def release(self, _):
        self.room += 1


async def test_batches_that_native_threads_give_back_before_there_are_workers_are_judged():
    pool = GivenBack(FROM_RING)
    observing = Observing(ring_pool=pool)
    observing.batches.look()
    await observing.opened()
    ((_, done),) = observing.pools[0].jobs
    assert pool.room == -1
    done(ACCEPTED)
    assert pool.room == 0
    assert await observing.counted() == {("a.I, a.V", "accepted"): 4}

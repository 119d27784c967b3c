"""Records that are dropped again after all policies were removed."""

import asyncio
from types import SimpleNamespace
from uuid import UUID

import pytest

from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import FailureCause
from penstock.engine.workers.batch_to_judge import BatchToJudge
from penstock.gateway.produce.repeated_drops import RepeatedDrops
from penstock.kafka.records.batch import read_batch
from tests.kafka.records.encoding import encode_batch, values

LIMITS = SimpleNamespace(
    decompressed_batch_max_bytes=2**20,
    decompressed_batch_max_records=100,
    socket_request_max_bytes=2**20,
)
BATCH = encode_batch(values(b"a", b"b", b"c"), producer_id=5, base_sequence=7)


async def dropped_again(data, dropped_before, limits=LIMITS):
    verdict = asyncio.get_running_loop().create_future()
    drops = RepeatedDrops(limits, asyncio.ensure_future)
    plan = TopicPlan(topic="t")
    batch = BatchToJudge(plan, 0, UUID(int=0), 9, data, dropped_before=dropped_before, client=1)
    drops.submit(batch, verdict.set_result)
    return await asyncio.wait_for(verdict, 10)


async def test_the_same_records_are_dropped():
    verdict = await dropped_again(BATCH, (1,))
    assert list(verdict.replacement.dropped) == [1]
    left = read_batch(verdict.replacement.data, api_version=9, max_decompressed_bytes=2**20)
    assert [*left.records.values] == [b"a", b"c"]


@pytest.mark.parametrize(("data", "code"), [(BATCH[:40], 87), (BATCH[:-1] + b"x", 2)])
async def test_an_unreadable_batch_is_refused(data, code):
    assert (await dropped_again(data, (1,))).code == code


async def test_an_error_of_the_gateway_is_a_retriable_error():
    verdict = await dropped_again(BATCH, (1,), SimpleNamespace())
    assert (verdict.code, verdict.cause) == (7, FailureCause.NOT_JUDGED)

"""Which policies are in force, and which still finish their work."""

import asyncio
from types import SimpleNamespace

import pytest

from penstock.gateway.active_policies import ActivePolicies


class Part:
    """What runs policies; it ends when it is drained."""

    def __init__(self, *pids):
        self.pids = pids
        self.schedule = SimpleNamespace(pids=pids)
        self.pool = self
        self.may_end = asyncio.Event()
        self.closed = []

    async def close(self, drain_s=0.0):
        self.closed.append(drain_s)
        if drain_s:
            await self.may_end.wait()


def loaded(part, *, loads_topics=False, loses_records=False):
    """Policies whose topics are judged by the part; they have no pool for records."""
    pool = SimpleNamespace(
        schedule=part.schedule, pids=(), loads_topics=loads_topics, load_topics=None
    )
    policies = SimpleNamespace(topics=part, observed=None, plan=SimpleNamespace(globs=()))
    return SimpleNamespace(pool=pool, policies=policies, parts=[part], loses_records=loses_records)


@pytest.fixture
def active():
    return ActivePolicies(loader=None, run=asyncio.ensure_future)


async def test_without_policies_there_is_nothing_to_schedule(active):
    assert active.schedules == active.all_schedules == active.worker_pids == []
    assert not active.loses_records
    await active.close()


async def test_replaced_policies_finish_their_work(active):
    first, second = Part(1), Part(2)
    active.activate(loaded(first, loses_records=True))
    assert active.loses_records
    assert active.worker_pids == [1]

    active.activate(loaded(second))
    await asyncio.sleep(0)
    assert active.worker_pids == [2]
    assert not active.loses_records
    assert first.schedule not in active.schedules
    assert first.schedule in active.all_schedules
    assert first.closed == [60.0]

    first.may_end.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert first.schedule not in active.all_schedules


async def test_all_workers_end(active):
    first, second = Part(1), Part(2)
    active.activate(loaded(first))
    active.activate(loaded(second))
    await active.close()
    assert 0.0 in first.closed
    assert second.closed == [0.0]


async def test_topics_that_cannot_be_loaded_end_nothing(active):
    """`load_topics` of the pool is not callable here."""
    active.activate(loaded(Part(1), loads_topics=True))
    cluster = SimpleNamespace(topics=None)
    await active.load_topics(SimpleNamespace(), cluster)

"""Whether topics are compacted, as the cluster answers."""

import asyncio

import pytest
from structlog.testing import capture_logs

from penstock.gateway.produce.lookups.cleanup_policies import REFRESH_S, RETRY_S, CleanupPolicies


class Cluster:
    """Answers requests, and counts them."""

    def __init__(self):
        self.now = 100.0
        self.values = {"log": "delete", "table": "compact", "both": "delete,compact"}
        self.requests = []
        self.why = ""
        self.during = lambda: None
        self.policies = CleanupPolicies(self.read, asyncio.ensure_future, lambda: self.now)

    def read(self, topics):
        self.requests.append(list(topics))
        found = {topic: self.values[topic] for topic in topics if topic in self.values}
        self.during()
        return found, self.why

    async def found(self, *topics):
        await self.policies.look_up(topics)
        return [self.policies.is_compacted(topic) for topic in topics]


@pytest.fixture
async def cluster():
    return Cluster()


async def test_a_topic_is_known_once_the_cluster_has_answered(cluster):
    assert cluster.policies.is_compacted("table") is None
    assert await cluster.found("log", "table", "both") == [False, True, True]
    assert await cluster.found("log", "table") == [False, True]
    assert cluster.requests == [["log", "table", "both"]]


async def test_a_value_is_read_again_when_it_is_old_and_is_used_meanwhile(cluster):
    await cluster.found("log")
    cluster.values["log"] = "compact"
    cluster.now += REFRESH_S + 1
    assert cluster.policies.is_compacted("log") is False
    await cluster.policies._reading
    assert cluster.policies.is_compacted("log") is True
    assert len(cluster.requests) == 2


async def test_a_value_is_not_used_for_longer_than_a_minute(cluster):
    await cluster.found("log")
    cluster.now += 60
    assert cluster.policies.is_compacted("log") is None


async def test_a_topic_that_is_not_known_is_looked_up_again_after_a_second(cluster):
    cluster.why = "not authorized"
    with capture_logs() as logs:
        assert await cluster.found("secret") == [None]
        assert await cluster.found("secret") == [None]
        assert cluster.requests == [["secret"]]
        cluster.now += RETRY_S
        assert await cluster.found("secret") == [None]
    assert len(cluster.requests) == 2
    assert [(line["topic"], line["reason"]) for line in logs] == [("secret", "not authorized")]


async def test_a_change_through_this_gateway_is_effective_at_once(cluster):
    await cluster.found("log")
    cluster.values["log"] = "compact"
    cluster.policies.forget("log")
    assert await cluster.found("log") == [True]


async def test_an_answer_from_before_a_change_is_not_kept(cluster):
    cluster.during = lambda: cluster.policies.forget("log")
    assert await cluster.found("log") == [None]
    cluster.during = lambda: None
    assert await cluster.found("log") == [False]


async def test_requests_for_changes_do_not_hold_batches_back(cluster):
    """Any client may send AlterConfigs for any topic, and again before the cluster answers."""
    cluster.during = lambda: cluster.policies.forget("log")
    for _ in range(3):
        assert await cluster.policies.look_up(["log"]) == {"log": False}
    assert len(cluster.requests) == 3, "none is kept"


async def test_a_batch_that_comes_after_a_change_waits_for_the_value_after_it(cluster):
    later = []
    loop = asyncio.get_running_loop()

    async def change():
        cluster.during = lambda: None
        cluster.policies.forget("log")
        cluster.values["log"] = "compact"
        later.append(asyncio.ensure_future(cluster.policies.look_up(["log"])))

    cluster.during = lambda: asyncio.run_coroutine_threadsafe(change(), loop).result()
    assert await cluster.policies.look_up(["log"]) == {"log": False}
    assert await later[0] == {"log": True}


async def test_a_batch_does_not_wait_for_the_topics_behind_its_own(cluster):
    own = asyncio.ensure_future(cluster.policies.look_up(["log"]))
    others = asyncio.ensure_future(cluster.policies.look_up(f"t-{number}" for number in range(500)))
    assert await own == {"log": False}
    assert not others.done()
    await others


async def test_batches_that_come_together_share_a_request(cluster):
    await asyncio.gather(*(cluster.policies.look_up(["log"]) for _ in range(9)))
    assert cluster.requests == [["log"]]


async def test_changes_of_any_number_of_other_topics_take_no_memory(cluster):
    for number in range(100):
        cluster.policies.forget(f"t-{number}")
    assert not cluster.policies._changed


async def test_many_topics_are_read_in_requests_of_a_hundred(cluster):
    await cluster.found(*(f"t-{number}" for number in range(250)))
    assert list(map(len, cluster.requests)) == [100, 100, 50]


async def test_a_batch_waits_for_a_second_at_most(cluster, monkeypatch):
    monkeypatch.setattr("penstock.gateway.produce.lookups.cleanup_policies.WAIT_S", 0.0)
    release = asyncio.Event()
    loop = asyncio.get_running_loop()
    cluster.during = lambda: asyncio.run_coroutine_threadsafe(release.wait(), loop).result()
    assert await cluster.found("log") == [None]
    release.set()
    await cluster.policies._reading
    assert cluster.policies.is_compacted("log") is False

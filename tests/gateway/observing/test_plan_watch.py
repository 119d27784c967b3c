"""The digests of topics' plans, as they are looked up, and the changes that are reported."""

import asyncio
import uuid
from types import SimpleNamespace

import pytest

from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.topic_configs.index import UnreadableTopicConfigsError
from penstock.gateway.observing import plan_watch
from penstock.gateway.observing.plan_watch import PlanChange, PlanWatch
from penstock.kafka.cluster.metadata import MetadataUnavailableError


class FakePlan:
    def __init__(self, prefix="p"):
        self.prefix = prefix
        self.names = []

    def for_topic(self, name, own):
        self.names.append(name)
        if name.startswith("free"):
            return None
        key = "-".join([self.prefix, *own.values()])
        return TopicPlan(topic=name, validators=("a.V",), digest=key)


class FakeGateway:
    def __init__(self, *names):
        self.listed = dict.fromkeys(names, (1, 1))
        self.own = {}
        self.policies = SimpleNamespace(plan=FakePlan())
        self.topic_configs = SimpleNamespace(names=self.own.__contains__, of=self._of)
        self.cluster = SimpleNamespace(topics=self._topics, ids=self._ids)
        self.is_loaded = True

    async def _topics(self):
        if isinstance(self.listed, Exception):
            raise self.listed
        return self.listed

    def _ids(self, names):
        return {name: uuid.uuid4() for name in names}

    def _of(self, name, _):
        if self.own[name] is None:
            raise UnreadableTopicConfigsError(name)
        return self.own[name]


@pytest.fixture
def watched():
    gateway, changes = FakeGateway("a", "b", "free"), []
    return gateway, PlanWatch(gateway, changes.append), changes


def look(watch):
    asyncio.run(watch.look())


def test_topics_with_policies_have_digests(watched):
    gateway, watch, changes = watched
    gateway.own["b"] = {"k": "v"}
    look(watch)
    assert watch.digests == {"a": "p", "b": "p-v"}
    look(watch)
    assert changes == []


def test_a_change_says_its_cause(watched):
    gateway, watch, changes = watched
    look(watch)
    changes.clear()
    gateway.own["a"] = {"k": "v"}
    look(watch)
    gateway.policies.plan = FakePlan("q")
    look(watch)
    gateway.listed = {"a": (1, 1), "new": (1, 1)}
    look(watch)
    assert changes == [
        PlanChange("a", "p", "p-v", "topic"),
        PlanChange("a", "p-v", "q-v", "reload"),
        PlanChange("b", "p", "q", "reload"),
    ]


def test_a_change_says_who_altered_the_topic(watched):
    gateway, watch, changes = watched
    watch.altered("b", "User:early")
    look(watch)
    gateway.own |= {"a": {"k": "v"}, "b": {"k": "v"}}
    watch.altered("a", "User:alice")
    look(watch)
    assert changes == [
        PlanChange("a", "p", "p-v", "topic", "User:alice"),
        PlanChange("b", "p", "p-v", "topic"),
    ]


def test_a_topic_that_gets_policies_or_loses_them_changes(watched):
    gateway, watch, changes = watched
    look(watch)
    gateway.policies.plan = SimpleNamespace(
        for_topic=lambda name, own: TopicPlan(topic=name, digest="f") if name == "free" else None
    )
    look(watch)
    assert sorted(changes) == [
        PlanChange("a", "p", "", "reload"),
        PlanChange("b", "p", "", "reload"),
        PlanChange("free", "", "f", "reload"),
    ]


def test_principals_of_alterations_are_bounded(watched):
    _, watch, _ = watched
    for number in range(2 * plan_watch.TOPICS_MAX):
        watch.altered(str(number), None)
    assert len(watch._altered_by) == plan_watch.TOPICS_MAX


def test_a_topic_without_own_keys_is_looked_up_once_for_each_plan(watched):
    gateway, watch, _ = watched
    look(watch)
    look(watch)
    assert gateway.policies.plan.names == ["a", "b", "free"]


def test_the_first_topics_stay_and_give_their_place_back(watched, monkeypatch):
    monkeypatch.setattr(plan_watch, "TOPICS_MAX", 2)
    gateway, watch, _ = watched
    look(watch)
    gateway.listed = dict.fromkeys(["0", *gateway.listed], (1, 1))
    look(watch)
    assert sorted(watch.digests) == ["a", "b"]
    del gateway.listed["a"]
    look(watch)
    assert sorted(watch.digests) == ["0", "b"]


def test_without_the_cluster_the_known_topics_stay(watched):
    gateway, watch, changes = watched
    look(watch)
    changes.clear()
    gateway.listed = MetadataUnavailableError("away")
    gateway.policies.plan = FakePlan("q")
    look(watch)
    assert watch.digests == {"a": "q", "b": "q"}


def test_unreadable_keys_change_nothing(watched):
    gateway, watch, changes = watched
    look(watch)
    changes.clear()
    gateway.own["a"] = None
    look(watch)
    assert (watch.digests["a"], changes) == ("p", [])


def test_nothing_is_looked_up_before_policies_are_loaded(watched):
    gateway, watch, changes = watched
    gateway.is_loaded = False
    look(watch)
    assert changes == []


def test_it_looks_soon_after_it_is_woken_and_goes_on_after_an_error(watched, monkeypatch):
    monkeypatch.setattr(plan_watch, "_SOON_S", 0.0)
    gateway, watch, _ = watched

    async def scenario():
        running = asyncio.ensure_future(watch.run())
        gateway.policies = None  # an error of ours
        for _ in range(100):
            await asyncio.sleep(0.01)
        gateway.policies = SimpleNamespace(plan=FakePlan())
        watch.wake()
        while not watch.digests:
            await asyncio.sleep(0.01)
        running.cancel()

    asyncio.run(asyncio.wait_for(scenario(), 30))
    assert watch.digests == {"a": "p", "b": "p"}

"""Changes of topic level keys, and reloads, that change which records a topic loses."""

import asyncio
import re
from uuid import UUID

import pytest

from penstock.configuration import load_configuration
from penstock.engine.topic_configs.index import TopicConfigIndex, TopicConfigRecord, topic_key
from penstock.gateway.produce.producer_state.all_producers import Producers
from penstock.gateway.produce.producer_state.changes import Change
from penstock.gateway.produce.producer_state.doubts import DOUBTED_S
from penstock.gateway.produce.producer_state.last_interceptors import Interceptors
from penstock.gateway.produce.producer_state.opening import OpenedProducers
from penstock.gateway.produce.producer_state.presence import Announcement
from penstock.gateway.produce.producer_state.rollout import InForce, Rollout
from penstock.kafka.cluster.brokers import UnreachableError
from tests.engine.plans import VALIDATED, plan_of
from tests.gateways import write_configuration

OLD, NEW = UUID(int=1), UUID(int=2)
QUARANTINE = {"penstock.mode": "quarantine"}
MARK = {"penstock.mode": "mark"}
FILE = plan_of(VALIDATED)


class Stored:
    """The topic level keys of a gateway, and its state of producers."""

    def __init__(self, plan):
        self.now = 1.0
        self.position = 0
        self.index = TopicConfigIndex()
        self.running = []
        self.rollout = Rollout(self, lambda: self, self.running.append, lambda _: None)
        self.rollout.producers = Producers(now=lambda: self.now, is_shared=True)
        self.rollout.shared = self
        self.requested = []
        self.announced = []
        self.before = self.failure = None
        self.topic = "state"
        self.use(plan)

    def use(self, plan):
        self.rollout.in_force = InForce(plan)

    async def announce_change(self, topics, *, timeout_s=0.0):
        self.announced.append(topics)
        self.waited_s = timeout_s
        return self.failure

    def announce_topic(self, topic, *, loses_records):
        self.announced.append((topic, loses_records))

    async def topics(self):
        return {"orders": (2, 1), "payments": (1, 1)}

    def leader_epochs(self, partitions):
        self.requested = partitions
        return dict.fromkeys(partitions, 7)

    async def reload(self, plan):
        await self.rollout.change(InForce(plan), were_open=True)
        for seeing in self.running:
            await seeing
        self.running.clear()
        self.use(plan)

    def put(self, topic_id, settings, topic="orders"):
        """Apply a record; return whether the topic loses other records than before."""
        value = None if settings is None else TopicConfigRecord(topic, settings, "g").encode()
        before = self.index.apply(topic_key(topic_id).encode(), value, 0)[topic]
        loses_otherwise = self.rollout.loses_otherwise(topic, before)
        self.rollout.topic_keys_changed(topic, before)
        return loses_otherwise

    def doubts(self, topic="orders"):
        return self.rollout.producers.has_topic(topic)


def test_creating_a_topic_again_and_deleting_its_keys_change_its_losses():
    found = Stored(FILE)
    assert found.put(OLD, QUARANTINE)
    assert found.put(NEW, QUARANTINE)
    assert found.put(NEW, None)


def test_keys_that_lose_no_records_are_not_a_change():
    found = Stored(FILE)
    assert not found.put(OLD, MARK)
    assert not found.put(NEW, MARK)
    assert not found.put(NEW, None)
    assert not found.doubts()


async def test_deleting_a_key_that_named_a_removed_policy_is_in_doubt_from_the_deletion():
    named = {
        "policies": "mask",
        "policies.mask.type": "penstock.policies.RedactJsonFields",
        "policies.mask.fields": "a",
    }
    with_mask = plan_of(named)
    with_mask.set_interceptor_patterns([("mask", re.compile("^orders"))])
    found = Stored(with_mask)
    found.put(OLD, {"penstock.policies": "mask"})
    found.now += DOUBTED_S
    assert not found.doubts()

    await found.reload(plan_of({}))
    found.now += 1
    found.put(OLD, None)
    found.now += DOUBTED_S - 1
    assert found.doubts()
    found.now += 1
    assert not found.doubts()


async def test_a_reload_affects_topics_that_are_in_quarantine_only_by_topic_level_keys():
    found = Stored(FILE)
    found.put(OLD, QUARANTINE)
    found.put(NEW, MARK, "payments")
    found.now += DOUBTED_S
    assert not found.doubts()

    await found.reload(plan_of({**VALIDATED, "record.validator.classes": "a.Other"}))
    assert found.doubts()
    assert not found.doubts("payments")
    assert found.announced[0] == ("orders", True), "its settings, before any decision by them"
    topics = found.announced[-1]
    change = Change("1", topics)
    assert change.affects("orders")
    assert not any(
        change.affects(name) for name in ("orders-2", "my-orders", "payments", "orders\n")
    )
    assert found.requested == [("orders", 0), ("orders", 1)]


async def test_a_gateway_without_shared_state_looks_up_leaders_too():
    """A former leader may have batches that were sent before the change."""
    found = Stored(FILE)
    found.rollout.producers = Producers(now=lambda: found.now)
    found.rollout.shared = None
    found.put(OLD, QUARANTINE)
    await found.reload(plan_of({**VALIDATED, "record.validator.classes": "a.Other"}))
    assert found.requested == [("orders", 0), ("orders", 1)]
    assert found.doubts(), "all its batches are decided, also accepted batches"
    assert found.announced == [], "there are no other gateways"


async def test_a_reload_without_losses_is_not_announced():
    found = Stored(FILE)
    found.put(OLD, MARK)
    await found.reload(plan_of({**VALIDATED, "record.validator.classes": "a.Other"}))
    assert not found.doubts()
    assert found.announced == []
    found.put(OLD, {**MARK, "errors.deadletterqueue.topic.name": "dead"})
    assert not found.doubts(), "its configs are the same: no interceptor has changed"


async def started(found, plan):
    found.use(plan)
    await found.rollout.announce([plan], [], is_start=True)
    for seeing in found.running:
        await seeing


async def test_a_start_without_the_earlier_interceptors_is_a_change_for_their_topics():
    found = Stored(FILE)
    plan = plan_of({})
    await started(found, plan)
    assert (found.announced, found.doubts()) == ([], False)
    found.before = Announcement(Interceptors("a", in_doubt=False), 0, "p", Change("1", ["orders"]))
    await started(found, plan)
    assert found.announced == [[]]
    assert found.doubts()
    assert not found.doubts("payments")


async def test_a_start_fails_if_its_change_cannot_be_announced():
    found = Stored(FILE)
    found.failure = "not written"
    found.before = Announcement(None, 0, "", Change("1", ["orders"]))
    await started(found, plan_of({}))  # of an older version, which is compared with nothing
    assert found.waited_s == 0
    found.before = Announcement(Interceptors("a", in_doubt=False), 0, "p", Change("1", ["orders"]))
    with pytest.raises(UnreachableError, match="state: not written"):
        await started(found, plan_of({}))
    assert found.waited_s == 30, "the timeout of every request of a start"
    for seeing in found.running:
        seeing.close()


async def test_changed_interceptors_are_in_doubt_as_soon_as_they_are_known():
    found = Stored(FILE)
    for number in range(1, 400):
        found.put(UUID(int=number), MARK, f"topic{number}")
    plan = plan_of({**VALIDATED, **QUARANTINE})
    found.rollout.in_force = InForce(FILE, "a")
    changing = asyncio.create_task(found.rollout.change(InForce(plan, "b"), were_open=True))
    announced = set()
    while not changing.done():
        announced.add(found.rollout.interceptors())
        await asyncio.sleep(0)
    announced.add(found.rollout.interceptors())
    assert announced == {Interceptors("a/0", in_doubt=False), Interceptors("b/0", in_doubt=True)}
    for seeing in found.running:
        await seeing


async def test_a_start_with_unchanged_interceptors_looks_up_leaders(tmp_path, monkeypatch):
    """If another gateway changes its interceptors later, batches need not wait for 45 s."""

    class AsBefore(OpenedProducers):
        async def begin(self, *_, **__):
            return True

    async def opened(*_, **__):
        return AsBefore(Producers(now=lambda: 1.0, is_shared=True))

    monkeypatch.setattr("penstock.gateway.produce.producer_state.rollout.open_producers", opened)
    found = Stored(plan_of({**VALIDATED, **QUARANTINE}))
    configuration = load_configuration(write_configuration(tmp_path, "127.0.0.1:9092", 0, {}))
    await found.rollout.open(configuration, "c", "g", loses_records=True, is_start=True)
    for seeing in found.running:
        await seeing
    assert not found.doubts()
    assert sorted(found.requested) == [("orders", 0), ("orders", 1), ("payments", 0)]

"""The policies of topics, and the origin of their settings."""

import asyncio
import json
import re
from types import SimpleNamespace
from uuid import UUID

import pytest

from penstock.configuration import load_configuration
from penstock.engine.plans.plan import Plan
from penstock.engine.topic_configs.index import UnreadableTopicConfigsError
from penstock.gateway.observing.console import topic_plans
from penstock.gateway.observing.console.topic_plans import FRESH_S, TOPICS_MAX, TopicPlans
from penstock.kafka.cluster.metadata import MetadataUnavailableError

FILE = """
upstream.bootstrap.servers=kafka:9092
record.validator.classes=a.One
record.validation.policy.class.name=penstock.policies.JsonSchema
topics.pii-*.record.validation.policy=pii.json
topics.pii-*.penstock.mode=observe
topics.*.records.policy.class.name=a.Batch
topics.pii-x.records.policy.enabled=true
penstock.mode=enforce
"""


class Cluster:
    def __init__(self, *names):
        self.names = names
        self.requests = 0

    async def topics(self):
        self.requests += 1
        if self.names == (None,):
            raise MetadataUnavailableError("the topics cannot be listed")
        return dict.fromkeys(self.names, (3, 1))

    def ids(self, names):
        return {name: UUID(int=self.names.index(name) + 1) for name in names}


class Configs:
    def __init__(self, **own):
        self.own = own

    def names(self, topic):
        return topic in self.own

    def of(self, topic, topic_id):
        assert topic_id.int
        if self.own[topic] is None:
            raise UnreadableTopicConfigsError("cannot be understood")
        return self.own[topic]


@pytest.fixture
def planned(tmp_path):
    file = tmp_path / "penstock.properties"

    def make(cluster, configs, text=FILE):
        file.write_text(text)
        plan = Plan(load_configuration(file).policies)
        topics = SimpleNamespace(create_topic="a.Create", alter_config=None)
        gateway = SimpleNamespace(
            policies=SimpleNamespace(plan=plan, topics=topics),
            topic_configs=configs,
            cluster=cluster,
            is_loaded=True,
        )
        clock = SimpleNamespace(at=100.0)
        return TopicPlans(gateway, lambda: clock.at), clock, gateway

    return make


async def test_each_setting_has_its_origin(planned):
    configs = Configs(orders={"penstock.mode": "observe", "records.policy.enabled": "true"})
    plans, _, _ = planned(Cluster("pii-x", "orders", "plain"), configs)
    found = json.loads(await plans.read())

    by_name = {topic["topic"]: topic for topic in found["topics"]}
    assert list(by_name) == ["orders", "pii-x", "plain"]
    assert by_name["orders"] == {
        "topic": "orders",
        "partitions": 3,
        "plan": "",
        "observed": True,
        "mode": "observe",
        "unusable": "",
        "policies": [
            {"judges": "batch", "class": "a.Batch", "key": "records.policy.class.name"},
            {"judges": "record", "class": "a.One", "key": "record.validator.classes"},
        ],
        "settings": [
            {"key": "penstock.mode", "value": "observe", "from": "topic", "line": ""},
            {"key": "records.policy.class.name", "value": "a.Batch", "from": "pattern",
             "line": "topics.*.records.policy.class.name"},
            {"key": "records.policy.enabled", "value": "true", "from": "topic", "line": ""},
        ],
    }  # fmt: skip
    settings = {
        setting["key"]: (setting["from"], setting["line"])
        for setting in by_name["pii-x"]["settings"]
    }
    assert settings == {
        "penstock.mode": ("pattern", "topics.pii-*.penstock.mode"),
        "record.validation.policy": ("pattern", "topics.pii-*.record.validation.policy"),
        "records.policy.class.name": ("pattern", "topics.*.records.policy.class.name"),
        "records.policy.enabled": ("pattern", "topics.pii-x.records.policy.enabled"),
    }
    settings = {
        setting["key"]: (setting["from"], setting["line"])
        for setting in by_name["plain"]["settings"]
    }
    assert settings["penstock.mode"] == ("file", "penstock.mode")
    assert [pattern["pattern"] for pattern in found["patterns"]] == ["pii-*", "pii-x", "*"]
    assert found["topic_policies"] == [
        {"key": "create.topic.policy.class.name", "class": "a.Create", "observed": False}
    ]


async def test_settings_that_cannot_be_read_are_reported(planned):
    plans, _, _ = planned(Cluster("orders"), Configs(orders=None))
    (topic,) = json.loads(await plans.read())["topics"]
    assert topic["unusable"] == "cannot be understood"


async def test_topics_without_policy_are_counted(planned):
    text = "upstream.bootstrap.servers=k:1\ntopics.orders.records.policy.class.name=a.B\n"
    plans, _, _ = planned(Cluster("orders", "x", "y"), Configs(), text)
    found = json.loads(await plans.read())
    assert (found["topics"], found["topics_without_policy"]) == ([], 3)


async def test_a_cluster_that_does_not_respond_is_reported(planned):
    plans, _, _ = planned(Cluster(None), Configs())
    found = json.loads(await plans.read())
    assert found["topics_not_known"] == "the topics cannot be listed"
    assert found["patterns"]


async def test_plans_are_refreshed_periodically(planned):
    plans, clock, gateway = planned(Cluster("orders"), Configs())
    await asyncio.gather(*(plans.read() for _ in range(50)))
    assert gateway.cluster.requests == 1
    clock.at += FRESH_S + 0.1
    await plans.read()
    assert gateway.cluster.requests == 2
    plans.forget()
    await plans.read()
    assert gateway.cluster.requests == 3


async def test_before_policies_are_loaded_there_are_no_plans(planned):
    plans, _, gateway = planned(Cluster("orders"), Configs())
    gateway.is_loaded = False
    assert await plans.read() == "{}"
    gateway.is_loaded = True
    assert json.loads(await plans.read())["topics"]


async def test_many_topics_are_bounded_and_processed_in_slices(planned):
    plans, _, _ = planned(
        Cluster(*(f"t{number:05}" for number in range(TOPICS_MAX + 500))), Configs()
    )
    turns = 0

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    found = json.loads(await plans.read())
    beside.cancel()

    assert len(found["topics"]) == TOPICS_MAX
    assert turns > TOPICS_MAX / 20


async def test_names_of_topics_are_escaped(planned):
    plans, _, _ = planned(Cluster("a\x1b[2J"), Configs())
    assert json.loads(await plans.read())["topics"][0]["topic"] == "a\ufffd[2J"


async def test_topic_settings_are_bounded_and_escaped(planned):
    """Any client with the right to alter a topic's configs chooses their text."""
    own = {
        "records.policy.enabled": "true",
        "records.policy.class.name": "a.\u202e" + "x" * 100_000,
        "record.validation.policy": "\x1b[2J" * 10_000,
    }
    plans, _, _ = planned(Cluster("t"), Configs(t=own))
    found = json.loads(await plans.read())
    texts = await plans.read()
    assert len(texts) < 5_000
    assert not re.search(r"\\u202e|\\u001b", texts)
    assert found["topics"][0]["unusable"].startswith("records.policy.class.name: a.\ufffdxx")


async def test_long_texts_are_encoded_in_slices(planned, monkeypatch):
    """Encoding a megabyte of JSON at once would block the event loop for tens of milliseconds."""
    sizes = []

    def as_text(data):
        sizes.append(len(text := json.dumps(data)))
        return text

    monkeypatch.setattr(topic_plans, "as_text", as_text)
    plans, _, _ = planned(Cluster(*(f"t{number:05}" for number in range(TOPICS_MAX))), Configs())
    whole = await plans.read()
    assert len(json.loads(whole)["topics"]) == TOPICS_MAX
    assert max(sizes) < 3_000
    assert await plans.read() is whole  # and not again for the next request

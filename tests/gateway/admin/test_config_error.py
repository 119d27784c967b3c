"""Topic level keys that a client may not set, with the reason in the response."""

from types import SimpleNamespace

import pytest

from penstock.configuration.file import read_configuration
from penstock.engine.plans.plan import Plan
from penstock.gateway.admin.policy_checks import (
    config_error,
    explained,
    judging_error,
    syntax_error,
)
from penstock.policy import TopicConfig
from tests.kafka.client.settings import FILE


class Worker:
    """The worker that tries settings; `why` maps a setting to the reason of its failure."""

    def __init__(self, **why):
        self.why = why
        self.tried = []

    async def cannot_judge(self, plan):
        self.tried.append((plan.validation_policy, plan.validation_setting, plan.named))
        return self.why.get("topic")

    async def cannot_use(self, name):
        self.tried.append(name)
        return self.why.get("cls")


def gateway(worker=None, *, are_stored=True, declared=(), **properties):
    given = {
        "upstream.bootstrap.servers": "k:9",
        "record.validation.policy.class.name": "a.V",
        "records.policy.class.names.allowed": "b.*",
        "policies": "first",
        "policies.first.type": "KeyRequired",
        **{key.replace("_", "."): value for key, value in properties.items()},
    }
    given = {key: value for key, value in given.items() if value is not None}
    plan = Plan(read_configuration(FILE, given, declared=declared).policies)
    return SimpleNamespace(
        policies=SimpleNamespace(plan=plan, topics=worker or Worker()),
        topic_configs=SimpleNamespace(are_stored=are_stored),
    )


@pytest.mark.parametrize(
    ("key", "value", "why", "error", "tried"),
    [
        ("penstock.mode", "mark", {}, None, []),
        ("penstock.mode", "loud", {}, "loud", []),
        ("errors.deadletterqueue.topic.name", "${topic}.dead", {}, None, []),
        ("errors.deadletterqueue.topic.name", "payments", {}, "one of those in the gateway's", []),
        ("errors.deadletterqueue.topic.name", "${topic}ers", {}, "or ${topic}.dead", []),
        ("records.policy.class.name", " b.P ", {}, None, ["b.P"]),
        ("records.policy.class.name", "c.P", {}, "Class c.P may not be named", []),
        ("records.policy.class.name", "b.P", {"cls": "see the log"},
         "Class b.P cannot be used: see the log", ["b.P"]),
        ("penstock.policies", "first", {}, None, []),
        ("penstock.policies", "first, second", {}, "second", []),
        ("record.validation.policy", "text", {}, None, []),
    ],
)  # fmt: skip
async def test_a_value_that_cannot_be_set_is_an_error(key, value, why, error, tried):
    worker = Worker(**why)
    found = await config_error(gateway(worker), key, value)
    assert worker.tried == tried
    if error is None:
        assert found is None
    else:
        assert found.startswith(f"Invalid value {value} for configuration {key}: ")
        assert error in found


async def test_a_key_without_the_class_that_reads_it_is_an_error():
    found = gateway(record_validation_policy_class_name=None)
    error = await config_error(found, "record.validation.policy", "text")
    assert error.endswith("the gateway has no record.validation.policy.class.name to read it")


@pytest.mark.parametrize(
    ("keys", "own", "tried"),
    [
        ({"penstock.mode"}, {"penstock.mode": "mark", "penstock.policies": "first"}, None),
        ({"penstock.policies"}, {"penstock.policies": "first"}, (None, None, ("first",))),
        ({"record.validation.policy"}, {"record.validation.policy": "x"}, ("a.V", "x", ())),
        ({"record.validation.policy"}, {}, None),
        ({"test.file"}, {"test.file": "f", "record.validation.policy": "x"}, ("a.V", "x", ())),
        ({"test.file", "penstock.policies"}, {"test.switch": "true", "penstock.policies": "first"},
         ("a.V", "", ("first",))),
        ({"records.policy.enabled"}, {"records.policy.enabled": "true", "penstock.policies": "first"},
         (None, None, ())),
    ],
)  # fmt: skip
async def test_the_policies_that_read_changed_keys_are_tried(keys, own, tried):
    declared = (
        TopicConfig("test.file", "STRING"),
        TopicConfig("test.switch", "BOOLEAN", switches_on=True),
    )
    worker = Worker(topic="no such file")
    found = gateway(worker, declared=declared)
    error = await judging_error(found, "t", keys, own)
    if tried is None or tried == (None, None, ()):
        assert (worker.tried, error) == ([], None)
        return
    (policy, setting, names) = tried
    assert worker.tried == [(policy, setting if policy else worker.tried[0][1], names)]
    key = "penstock.policies" if policy is None else min(keys - {"penstock.policies"})
    value = own.get(key, "null")
    assert error == f"Invalid value {value} for configuration {key}: no such file"
    worker.why = {}
    assert await judging_error(found, "t", keys, own) is None


async def test_a_topic_that_could_not_be_judged_stays_as_it_is():
    own = {"records.policy.class.name": "c.P", "records.policy.enabled": "true"}
    found = gateway()
    error = await judging_error(found, "t", {"records.policy.enabled"}, own)
    assert error.startswith(
        "Topic t could not be judged: records.policy.class.name: c.P is neither"
    )
    assert await judging_error(found, "t", {"penstock.mode"}, own) is None


async def test_a_dead_letter_topic_of_the_file_may_be_named():
    found = gateway(**{"topics.*.errors.deadletterqueue.topic.name": "all.dead"})
    key = "errors.deadletterqueue.topic.name"
    assert await config_error(found, key, "all.dead") is None


async def test_only_allowed_keys_can_be_set():
    found = gateway(topic_settings_keys_allowed="penstock.mode")
    assert await config_error(found, "penstock.mode", "mark") is None
    error = await config_error(found, "penstock.policies", "first")
    assert error.startswith("Configuration penstock.policies cannot be set on a topic: ")
    assert error == syntax_error(found, "penstock.policies", "first")


@pytest.mark.parametrize("are_stored", [True, False])
def test_a_misspelt_key_is_explained(are_stored):
    text = explained(gateway(are_stored=are_stored), "Unknown topic config name: penstock.mod")
    assert "did you mean penstock.mode?" in text
    assert ("The gateway keeps no topic level keys" in text) is not are_stored

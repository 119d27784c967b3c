"""Config names that are not topic level keys of Penstock, and the suggested names."""

import subprocess
from pathlib import Path

import pytest

from penstock.configuration.topic_keys import KEYS_OF_KAFKA, TOPIC_KEYS, Scope
from penstock.engine.topic_configs import misnamed
from tests.java import program

UNKNOWN = "Unknown topic config name: "
OF_FILE = "it belongs in the gateway's configuration file"
KEYS = (
    "the topic level keys of Penstock are errors.deadletterqueue.topic.name, penstock.mode, "
    "penstock.policies, penstock.quarantine.max.ratio, produce.rejection.reasons, "
    "record.validation.policy, "
    "records.policy.class.name, records.policy.enabled"
)
BY_SCHEMA_POLICY = (
    "penstock.policies.SchemaPolicy reads it, and the gateway has no such "
    "record.validation.policy.class.name"
)
NOT_KEPT = (
    "the gateway keeps no topic level keys: its configuration file has no policy for them, or an "
    "empty topic.settings.topic"
)
NOT_ALLOWED = (
    "The gateway's configuration file does not allow it on topics (topic.settings.keys.allowed)"
)
ALLOWED = [name for name in sorted(TOPIC_KEYS) if Scope.TOPIC in TOPIC_KEYS[name].scopes]
MEANT = [
    ("penstock.mod", "did you mean penstock.mode?"),
    ("penstock.modes", "did you mean penstock.mode?"),
    ("Penstock.Mode", "did you mean penstock.mode?"),
    ("penstock.policy", "did you mean penstock.policies?"),
    ("penstock.polices", "did you mean penstock.policies?"),
    ("penstock.quarantine.ratio", "did you mean penstock.quarantine.max.ratio?"),
    ("penstock.quarantine.max.ration", "did you mean penstock.quarantine.max.ratio?"),
    ("penstock.colour", KEYS),
    ("errors.deadletterqueue.topic", "did you mean errors.deadletterqueue.topic.name?"),
    ("errors.deadletterqueue.topics.name", "did you mean errors.deadletterqueue.topic.name?"),
    ("errors.deadletterqueue.topic.replication.factor", OF_FILE),
    ("errors.deadletterqueue.context.headers.enable", OF_FILE),
    (
        "errors.deadletterqueue.context.header.enable",
        (
            "did you mean errors.deadletterqueue.context.headers.enable? "
            "It belongs in the gateway's configuration file"
        ),
    ),
    ("record.validation.polcy", "did you mean record.validation.policy?"),
    ("record.validation.policies", "did you mean record.validation.policy?"),
    ("record.validation.policy.class.name", OF_FILE),
    ("record.validator.classes", OF_FILE),
    ("records.policy.classname", "did you mean records.policy.class.name?"),
    ("produce.rejection.reason", "did you mean produce.rejection.reasons?"),
    ("records.policy.enable", "did you mean records.policy.enabled?"),
    ("produce.request.interceptors", OF_FILE),
    ("policies", f"{OF_FILE}; on a topic, penstock.policies has the names of policies"),
    ("policies.orderSchema.mode", OF_FILE),
    ("policies.orderSchema.type", OF_FILE),
    ("topics.orders-*.penstock.mode", f"{OF_FILE}; on a topic, it is penstock.mode"),
    ("topics.*.x.penstock.policies", f"{OF_FILE}; on a topic, it is penstock.policies"),
    ("topics.orders.colour", OF_FILE),
    ("topic.settings.topic", OF_FILE),
    ("policy.timeout.ms", OF_FILE),
    ("schema.registry.url", OF_FILE),
    ("topic.rules.name", OF_FILE),
    ("confluent.value.schema.validation", BY_SCHEMA_POLICY),
    ("schema.validation.level", BY_SCHEMA_POLICY),
]  # fmt: skip
OF_KAFKA_3 = {
    "message.downconversion.enable",
    "message.format.version",
    "message.timestamp.difference.max.ms",
}
OF_OTHERS = [
    "retention.m", "retention.mss", "cleanup.polcy", "penstok.mode", "colour", "",
    "record.size", "records.count", "confluent.placement.constraints", "confluent.tier.enable",
    "confluent.value.colour", "schema.colour", "max.connections", "listeners", "topic", "policy",
    "redpanda.value.schema.id.validation", "errors.tolerance", "produce.colour",
    "compression.type", "policies" * 40, "topic.colour",
]  # fmt: skip


@pytest.mark.parametrize(("name", "meant"), MEANT)
def test_the_suggestion_follows_the_brokers_message(name, meant):
    assert misnamed.explained(UNKNOWN + name, ALLOWED) == f"{UNKNOWN}{name}; {meant}"
    assert misnamed.may_be_own(name)


@pytest.mark.system
def test_every_config_that_brokers_have_for_topics_is_known():
    run = program(Path(__file__).parent / "java" / "TopicConfigs.java")
    names = set(subprocess.run(run, capture_output=True, text=True, check=True).stdout.split())
    assert len(names) > 30
    assert names ^ KEYS_OF_KAFKA == OF_KAFKA_3


@pytest.mark.parametrize("name", [*OF_OTHERS, *sorted(KEYS_OF_KAFKA)])
def test_names_that_are_not_penstocks_are_not_explained(name):
    assert misnamed.explained(UNKNOWN + name, ALLOWED) is None


@pytest.mark.parametrize("name", ["retention.ms", "cleanup.polcy", "colour", "listeners", ""])
def test_requests_with_other_names_are_not_held(name):
    assert not misnamed.may_be_own(name)


@pytest.mark.parametrize(
    "message", [None, "", "Invalid value x for configuration penstock.mod", "penstock.mod"]
)
def test_other_messages_of_brokers_stay(message):
    assert misnamed.explained(message, ALLOWED) is None


@pytest.mark.parametrize("key", TOPIC_KEYS)
def test_a_long_name_costs_little(key):
    """Each client that may create topics chooses the names."""
    name = key + "x" * 30_000

    message = misnamed.explained(UNKNOWN + name, ALLOWED)

    assert message is None or message == f"{UNKNOWN}{name}; {KEYS}"


@pytest.mark.parametrize(
    ("name", "allowed", "meant"),
    [
        ("penstock.mode", None, NOT_KEPT),
        ("record.validation.policy", None, NOT_KEPT),
        ("penstock.mod", None, f"did you mean penstock.mode? T{NOT_KEPT[1:]}"),
        ("penstock.colour", None, NOT_KEPT),
        ("policies", None, OF_FILE),
        ("topics.a.penstock.mode", None, OF_FILE),
        ("penstock.mod", ["penstock.policies"], f"did you mean penstock.mode? {NOT_ALLOWED}"),
        ("penstock.mod", [], f"did you mean penstock.mode? {NOT_ALLOWED}"),
        (
            "penstock.colour",
            ["penstock.policies"],
            "the topic level keys of Penstock are penstock.policies",
        ),
        ("policies", ["penstock.mode"], OF_FILE),
        ("topics.a.penstock.mode", ["penstock.policies"], OF_FILE),
    ],
)
def test_a_key_that_cannot_be_set_on_topics_is_not_suggested(name, allowed, meant):
    assert misnamed.explained(UNKNOWN + name, allowed) == f"{UNKNOWN}{name}; {meant}"


@pytest.mark.parametrize("name", ["penstock.mode", "penstock.colour"])
def test_without_allowed_keys_there_is_no_explanation(name):
    assert misnamed.explained(UNKNOWN + name, []) is None

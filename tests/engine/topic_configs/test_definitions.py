"""The topic level keys: the values that they take, and that these values can be used."""

import pytest

from penstock.configuration import ConfigurationError, PolicyConfiguration
from penstock.configuration.file import read_configuration
from penstock.configuration.topic_keys import (
    MODE,
    RECORDS_POLICY,
    RECORDS_POLICY_ENABLED,
    VALIDATION_POLICY,
)
from penstock.engine.plans.plan import Plan
from penstock.engine.topic_configs import definitions


def test_select_returns_the_gateways_keys_only():
    configs = {"retention.ms": "1", RECORDS_POLICY: None, RECORDS_POLICY_ENABLED: "true"}

    assert definitions.select(configs) == {RECORDS_POLICY: None, RECORDS_POLICY_ENABLED: "true"}


def test_keys_are_sorted_by_name():
    assert list(definitions.config_keys()) == sorted(definitions.config_keys())


@pytest.mark.parametrize("value", ["true", "false", "TRUE", " True "])
def test_booleans(value):
    assert definitions.value_error(RECORDS_POLICY_ENABLED, value) is None


@pytest.mark.parametrize("value", ["", "yes", "1", "on"])
def test_invalid_booleans(value):
    assert definitions.value_error(RECORDS_POLICY_ENABLED, value) == (
        f"Invalid value {value} for configuration records.policy.enabled: "
        "Expected value to be either true or false"
    )


@pytest.mark.parametrize("value", ["", "Policy", "policies.", ".Policy", "a b.Policy", "a.*"])
def test_invalid_classes(value):
    assert definitions.value_error(RECORDS_POLICY, value).startswith(
        f"Invalid value {value} for configuration records.policy.class.name: Expected "
    )


@pytest.mark.parametrize("value", ["", "off", "observed"])
def test_invalid_modes(value):
    assert definitions.value_error(MODE, value) == (
        f"Invalid value {value} for configuration penstock.mode: String must be one of: enforce, "
        "quarantine, mark, observe"
    )


@pytest.mark.parametrize("value", ["observe", " Observe\n"])
def test_a_mode(value):
    assert definitions.value_error(MODE, value) is None
    assert definitions.normalize(MODE, value) == "observe"


@pytest.mark.parametrize("value", ["", " ", "any text", "\n"])
def test_the_validation_policy_takes_any_text(value):
    assert definitions.value_error(VALIDATION_POLICY, value) is None


@pytest.mark.parametrize("name", ["policies.A", "policies:A", " policies.A ", "policies.A\n"])
@pytest.mark.parametrize("enabled", ["true", " True "])
def test_valid_values_can_be_used(tmp_path, name, enabled):
    """Kafka trims values of type CLASS and BOOLEAN: spaces must not make a topic unusable."""
    own = {RECORDS_POLICY: name, RECORDS_POLICY_ENABLED: enabled}
    assert [definitions.value_error(key, value) for key, value in own.items()] == [None, None]
    properties = {
        "upstream.bootstrap.servers": "127.0.0.1:1",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "records.policy.class.names.allowed": "policies.A, policies:A",
    }

    plan = Plan(read_configuration(tmp_path / "penstock.properties", properties).policies)
    topic_plan = plan.for_topic("t", own)

    assert topic_plan is not None
    assert topic_plan.unusable == ""


@pytest.mark.parametrize(
    ("allowed", "name", "may_be_named"),
    [
        ("policies.A", "policies:A", True),
        ("policies:A", "policies.A", True),
        ("policies.*", "policies:A", True),
        ("policies.*", "policies.inner:A", True),
        ("policies:*", "policies.A", True),
        ("policies:*", "policies:A", True),
        ("policies:*", "policies.inner.A", False),
        ("policies:*", "policies.inner:A", False),
        ("policies.A", "policies:B", False),
        ("policies.*", "policies2:A", False),
    ],
)
def test_a_class_is_the_same_with_a_dot_and_with_a_colon(tmp_path, allowed, name, may_be_named):
    found = plan(tmp_path, "*", **{"records.policy.class.names.allowed": allowed})
    assert found.allows_class(name) is may_be_named


def test_a_class_of_the_file_may_be_named_with_a_dot_and_with_a_colon(tmp_path):
    of_file = {
        "records.policy.class.names.allowed": "",
        "topics.a.records.policy.class.name": "policies.A",
        "topics.b.records.policy.class.name": "policies:B",
    }
    found = plan(tmp_path, "*", **of_file)
    assert all(map(found.allows_class, ("policies.A", "policies:A", "policies.B", "policies:B")))


def plan(folder, allowed, **properties):
    read = read_configuration(
        folder / "penstock.properties",
        {
            "upstream.bootstrap.servers": "127.0.0.1:1",
            "record.validator.classes": "policies.A",
            "records.policy.class.names.allowed": "policies.*",
            "topic.settings.keys.allowed": allowed,
            **properties,
        },
    )
    return Plan(PolicyConfiguration.decode(read.policies.encode()))  # as workers and Spark do


@pytest.mark.parametrize(
    ("allowed", "may_observe", "may_name_a_class"),
    [
        ("*", True, True),
        ("penstock.mode", True, False),
        ("records.policy.*", False, True),
        ("records.policy.*, penstock.m?de", True, True),
        ("record.validation.policy", False, False),
        ("", False, False),
    ],
)
def test_keys_that_may_not_be_set_on_a_topic_have_no_effect_there(
    tmp_path, allowed, may_observe, may_name_a_class
):
    """A client that may create topics could otherwise disable the policies of the file."""
    own = {MODE: "observe", RECORDS_POLICY: "policies.B", RECORDS_POLICY_ENABLED: "true"}
    of_topic = plan(tmp_path, allowed)
    found = of_topic.for_topic("t", own)
    assert (found.mode == "observe") == may_observe
    assert (found.records_policy is not None) == may_name_a_class
    assert not found.unusable
    shown = {origin.key for origin in of_topic.settings_and_origins("t", own)}
    assert (MODE in shown, RECORDS_POLICY in shown) == (may_observe, may_name_a_class)
    assert of_topic.allows_key(MODE) == may_observe


def test_the_file_can_set_keys_that_a_topic_cannot(tmp_path):
    of_topic = plan(tmp_path, "records.policy.*", **{"topics.free-*.penstock.mode": "observe"})
    assert of_topic.for_topic("free-1", {MODE: "enforce"}).mode == "observe"
    assert of_topic.for_topic("other", {MODE: "observe"}).mode == "enforce"


@pytest.mark.parametrize(
    ("allowed", "close"),
    [
        ("penstock.mod", "; did you mean penstock.mode?"),
        ("records.policy.class.name, retention.ms", ""),
        ("confluent.*", ""),
    ],
)
def test_an_unknown_allowed_key_is_an_error(tmp_path, allowed, close):
    with pytest.raises(ConfigurationError) as raised:
        plan(tmp_path, allowed)
    wrong = allowed.split(", ")[-1]
    text = str(raised.value)
    assert f"topic.settings.keys.allowed: {wrong} is not one of the topic level keys" in text
    assert text.endswith(close)


def test_keys_that_the_validation_policy_declares_can_be_allowed(tmp_path):
    policy = "penstock.policies.SchemaPolicy"
    properties = {"record.validation.policy.class.name": policy, "schema.registry.url": "http://r"}
    of_topic = plan(tmp_path, "confluent.*", **properties)
    assert of_topic.allows_key("confluent.value.schema.validation")
    assert not of_topic.allows_key(MODE)

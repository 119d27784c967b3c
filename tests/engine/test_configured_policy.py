"""A policy as the configuration has it: by its class, or by a name."""

from pathlib import Path

from penstock.configuration.file import read_configuration
from penstock.configuration.interfaces import VALIDATION
from penstock.engine.plans.configured_policy import ConfiguredPolicy

FILE = Path("/f.properties")


def policies_of(properties):
    file = {"upstream.bootstrap.servers": "a:9092", **properties}
    return read_configuration(FILE, file).policies


def test_a_class_under_a_key_gets_the_file_and_no_keys_of_its_own():
    configuration = policies_of({VALIDATION: "penstock.policies.KeyRequired"})
    policy = ConfiguredPolicy.by_class(configuration, "penstock.policies.KeyRequired", VALIDATION)
    assert (policy.name, policy.key, policy.is_named) == (policy.class_name, VALIDATION, False)
    assert policy.where == f"/f.properties: {VALIDATION}: penstock.policies.KeyRequired"
    assert policy.configs["upstream.bootstrap.servers"] == "a:9092"
    assert (policy.own, policy.own_prefix, policy.topic_configs) == ((), "", None)


def test_a_name_has_keys_of_its_own_that_win_over_those_of_the_file():
    configuration = policies_of({
        "policies": "keys", "policies.keys.type": "MaxBytes",
        "policies.keys.key.max.bytes": "5", "key.max.bytes": "7", "value.max.bytes": "9",
        "record.validation.policy.class.name": "penstock.policies.MaxBytes",
    })  # fmt: skip
    policy = ConfiguredPolicy.by_name(configuration, configuration.named("keys"))
    assert (policy.name, policy.is_named) == ("keys", True)
    assert policy.where == "/f.properties: policies.keys.type: penstock.policies.MaxBytes"
    assert policy.own_prefix == "policies.keys."
    assert policy.own == ["key.max.bytes"]
    assert (policy.configs["key.max.bytes"], policy.configs["value.max.bytes"]) == ("5", "9")

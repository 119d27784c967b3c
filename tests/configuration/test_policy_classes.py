"""Descriptions of classes: keys, documentation."""

import pytest

from penstock.configuration.interfaces import VALIDATION
from penstock.configuration.policy_classes import (
    PolicyClass,
    as_config_keys,
    class_of_own,
    encode_classes,
    value_error,
)
from penstock.policy import ConfigKey, RecordValidationPolicy, TopicConfig


class Declared(RecordValidationPolicy):
    """Refuses what is
    not good. And more of it.

    Even more.
    """

    config_keys = (
        ConfigKey("rules.<name>", documentation="A rule."),
        ConfigKey("rules.<name>.message"),
        ConfigKey("format", default="json", valid_values=("json", "avro")),
        ConfigKey("limit", "INT", required=True),
    )
    topic_configs = (TopicConfig("shop.level"),)


def test_a_class_is_looked_at():
    found = PolicyClass.of(Declared)

    assert found.interface == VALIDATION
    assert found.documentation == "Refuses what is not good."
    assert found.config_keys == Declared.config_keys
    assert PolicyClass.decode(found) == found


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("limit", "limit"),
        ("rules.positive", "rules.<name>"),
        ("rules.positive.message", "rules.<name>.message"),
        ("rules.positive.else", None),
        ("rules.", None),
        ("rulesXpositive", None),
        ("Limit", None),
    ],
)
def test_a_part_in_angle_brackets_is_for_any_word(name, expected):
    found = PolicyClass.of(Declared).key(name)

    assert (found and found.name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("limits", "limit"),
        ("rule.positive", "rules.positive"),
        ("rules.positive.mesage", "rules.positive.message"),
        ("shop.levle", "shop.level"),
        ("colour", None),
    ],
)
def test_the_key_that_was_meant(name, expected):
    assert PolicyClass.of(Declared).close_to(name) == expected


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (ConfigKey("k", "INT"), "7", None),
        (ConfigKey("k", "INT"), "x", "a whole number"),
        (ConfigKey("k", "DOUBLE"), "0.5", None),
        (ConfigKey("k", "DOUBLE"), "nan", "a number"),
        (ConfigKey("k", "LIST"), "a,b", None),
        (ConfigKey("k", "LIST", valid_values=("a", "b")), "b, a", None),
        (ConfigKey("k", "LIST", valid_values=("a", "b")), "a,c", "one of a, b"),
        (ConfigKey("k", "PASSWORD"), "x", None),
        (ConfigKey("k", "BOOLEAN"), "maybe", "one of true, false"),
        (ConfigKey("k", valid_values=("a", "b")), "c", "one of a, b"),
    ],
)
def test_values_are_of_their_types(key, value, why):
    found = value_error(key, value)

    assert found is None if why is None else (found or "").startswith(why)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (7, "config_keys must be a sequence of ConfigKey"),
        (("limit",), "config_keys must be a sequence of ConfigKey"),
        ((ConfigKey("a b"),), "is not a valid name"),
        ((ConfigKey("a", "TEXT"),), "has the type TEXT, not one of"),
        ((ConfigKey("a", "INT", default="x"),), "must be a whole number"),
        ((ConfigKey("a", documentation=7),), "must be text"),
        ((ConfigKey("a", required="yes"),), "required must be True or False"),
        ((ConfigKey("a", valid_values="ab"),), "config_keys must be a sequence of ConfigKey"),
        ((ConfigKey(f"a{n}") for n in range(10_000)), "more than 200 keys"),
    ],
)
def test_declarations_of_a_class_may_have_any_type(given, why):
    with pytest.raises(ValueError, match=why):
        as_config_keys(given)


def test_a_class_that_is_not_there():
    assert class_of_own("somewhere.Else") is None
    with pytest.raises(ValueError, match="has no Gone"):
        class_of_own("penstock.policies.Gone")
    with pytest.raises(ValueError, match="cannot be imported"):
        class_of_own("penstock.policies.gone.Gone")
    with pytest.raises(ValueError, match="judges topics"):
        class_of_own("penstock.policies.TopicRules")


def test_an_answer_is_never_longer_than_a_pipe_takes():
    long = PolicyClass(VALIDATION, (ConfigKey("a", documentation="x" * 100_000),))

    assert len(encode_classes({"policies.a.type": long})) < 60 * 1024

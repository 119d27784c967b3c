"""Which rules of a data contract records are judged by."""

import pytest

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.rules.rule_set import read_rule_set


def rule(name="r", **more):
    return {
        "name": name,
        "kind": "CONDITION",
        "mode": "WRITE",
        "type": "CEL",
        "expr": "true",
        **more,
    }


def read(*rules, properties=None, **more):
    return read_rule_set({"domainRules": list(rules), **more}, properties or {})


def names(found):
    return [condition.name for condition in found.conditions]


def test_conditions_of_writing_are_run_in_order():
    found = read(rule("a"), rule("b", mode="WRITEREAD", type="CEL_FIELD", tags=["PII"]))
    assert names(found) == ["a", "b"]
    assert [condition.by_field for condition in found.conditions] == [False, True]
    assert found.conditions[1].tags == {"PII"}
    assert found.not_run == ()


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"disabled": True}, "it is disabled"),
        ({"mode": "READ"}, "its mode is READ"),
        ({"mode": "UPGRADE"}, "its mode is UPGRADE"),
        ({"kind": "TRANSFORM", "type": "JSONATA"}, "type JSONATA changes values"),
        ({"kind": "TRANSFORM", "type": "ENCRYPT"}, "type ENCRYPT changes values"),
        ({"type": "SQL", "onFailure": "NONE"}, "its onFailure is NONE"),
        ({"onFailure": "NONE"}, "its onFailure is NONE"),
        ({"mode": "WRITEREAD", "onFailure": "NONE,ERROR"}, "its onFailure is NONE"),
    ],
)
def test_rules_that_are_not_run_are_listed(more, reason):
    found = read(rule("x", **more))
    assert names(found) == []
    assert found.not_run == (f'rule "x": {reason}',)


@pytest.mark.parametrize("action", ["ERROR", "DLQ", "ERROR,NONE", "none", "OTHER", "", None])
def test_other_actions_refuse(action):
    assert names(read(rule("x", mode="WRITEREAD", onFailure=action))) == ["x"]


def test_a_pair_of_actions_is_split_only_in_rules_for_both():
    # For writing alone, Confluent's clients look for an action of the name "NONE,ERROR" and fail.
    assert names(read(rule("x", mode="WRITE", onFailure="NONE,ERROR"))) == ["x"]
    assert names(read(rule("x", mode="WRITEREAD", onFailure="NONE,ERROR"))) == []


@pytest.mark.parametrize("more", [{"type": "SQL"}, {"type": None}, {"kind": "OTHER"}])
def test_a_rule_that_is_not_known_cannot_be_used(more):
    with pytest.raises(InvalidSchemaError, match='rule "x"'):
        read(rule("x", **more))
    assert names(read(rule("x", **more, disabled=True))) == []
    assert names(read(rule("x", **more), enableAt="CLIENT")) == []


@pytest.mark.parametrize(
    ("given", "engine"), [(None, None), ("", None), ("pcre", "pcre"), ("RE2", "re2")]
)
def test_the_engine_of_patterns(given, engine):
    [condition] = read(rule(params={"cel.regex.engine": given})).conditions
    assert (condition.engine and condition.engine.value) == engine
    [condition] = read(rule(), properties={"cel.regex.engine": given}).conditions
    assert (condition.engine and condition.engine.value) == engine
    with pytest.raises(InvalidSchemaError, match=r'rule "r": cel\.regex\.engine must be'):
        read(rule(params={"cel.regex.engine": "java"}))


@pytest.mark.parametrize(
    ("where", "run"),
    [
        (None, True),
        ("ALL", True),
        ("GATEWAY", True),
        ("SERVER", True),
        ("CLIENT", False),
        ("NONE", False),
    ],
)
def test_modes_in_which_a_rule_set_is_enabled(where, run):
    assert bool(read(rule(), enableAt=where).conditions) is run


def test_conditions_in_front_of_a_change_are_about_another_value():
    change = rule("change", kind="TRANSFORM", type="ENCRYPT")
    found = read(rule("before"), change, rule("after"))
    assert names(found) == ["after"]
    assert found.not_run[0] == ('rule "before": the value is changed after it, by rule "change"')
    assert found.transformed_by == '"change"'
    assert names(read(rule("before"), {**change, "disabled": True})) == ["before"]
    assert names(read(rule("before"), {**change, "mode": "READ"})) == ["before"]
    # Clients do not run a rule set that is for gateways: nothing has changed the value.
    assert names(read(rule("before"), change, enableAt="GATEWAY")) == ["before"]


def test_guards_are_split_off():
    [condition] = read(rule(expr="name == 'a' ; value != ''")).conditions
    assert (condition.guard, condition.expression) == ("name == 'a'", "value != ''")
    [condition] = read(
        rule(expr="a == ';'", params={"cel.ignore.guard.separator": "true"})
    ).conditions
    assert (condition.guard, condition.expression) == ("", "a == ';'")
    [condition] = read(rule(expr="a"), properties={"cel.ignore.guard.separator": "true"}).conditions
    assert condition.guard == ""


def test_a_shown_rule_is_one_short_line():
    [condition] = read(rule(doc="first\nsecond " + "x" * 500)).conditions
    assert condition.failure_text.startswith("first second xxx")
    assert len(condition.failure_text) == 200
    assert read(rule(expr="a == 1")).conditions[0].failure_text == "a == 1"


def test_rules_of_migration_and_encoding_are_named():
    found = read(migrationRules=[rule("m")], encodingRules=[rule("e", type="ENCRYPT_PAYLOAD")])
    assert found.not_run == (
        'rule "m": it is for consumers that read by another version',
        'rule "e": type ENCRYPT_PAYLOAD changes payloads',
    )


@pytest.mark.parametrize(
    "rules",
    [
        5,
        [5],
        [{}],
        [rule(kind=None)],
        [rule(kind="OTHER")],
        [rule(expr=None)],
        [rule(expr=" ")],
        [rule(tags="PII")],
        [rule()] * 201,
    ],
)
def test_an_invalid_rule_set_is_refused(rules):
    with pytest.raises(InvalidSchemaError):
        read_rule_set({"domainRules": rules}, {})

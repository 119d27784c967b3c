"""Rules of data contracts."""

import json
from io import BytesIO

import fastavro
import orjson
import pytest

from penstock.policies.schema_policy.errors import InvalidSchemaError
from tests.policies.schema_policy.messages import Messages, meta, order_class
from tests.policies.schema_policy.rules.judged import field_rule, judge, rule, rules_of

SECRET = "123-45-6789"


USER = {
    "type": "record",
    "name": "User",
    "namespace": "com.acme",
    "fields": [
        {"name": "ssn", "type": ["null", "string"], "confluent:tags": ["PII"]},
        {"name": "age", "type": "int"},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "confluent:tags": ["PII"]},
        {"name": "scores", "type": {"type": "map", "values": "int"}, "confluent:tags": ["S"]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
    ],
}


def user(**more):
    return {"ssn": SECRET, "age": 5, "tags": [], "scores": {}, "kind": "A", **more}


def test_a_condition_of_the_whole():
    rules = rules_of(USER, rule("message.age > 3", name="age", doc="older than 3"))
    assert judge(rules, user()) is None
    assert judge(rules, user(age=3)) == 'rule "age" failed: older than 3'
    assert not rules.is_empty


def test_a_condition_without_doc_shows_its_expression():
    rules = rules_of(USER, rule("message.age > 3 && message.kind == 'A'"))
    assert judge(rules, user(kind="B")) == (
        "rule \"r\" failed: message.age > 3 && message.kind == 'A'"
    )


def test_a_guard_decides_whether_a_condition_is_evaluated():
    rules = rules_of(USER, rule("message.kind == 'A' ; message.age > 3"))
    assert judge(rules, user(kind="B", age=1)) is None
    assert "failed" in judge(rules, user(age=1))


def test_a_guard_without_a_result_refuses():
    rules = rules_of(USER, rule("message.nothing == 1 ; true"))
    assert 'rule "r" has no result: a field or key that it reads is not there' in judge(
        rules, user()
    )


def test_fields_of_a_tag():
    rules = rules_of(USER, field_rule("value == null || size(value) == 11", "PII", doc="11 long"))
    assert judge(rules, user()) is None
    assert judge(rules, user(ssn=None)) is None
    objection = judge(rules, user(ssn="short-secret"))
    assert objection == 'rule "r" failed at ssn: 11 long'
    assert judge(rules, user(tags=[SECRET, "x"])) == 'rule "r" failed at tags[1]: 11 long'


def test_keys_of_maps_are_not_shown():
    rules = rules_of(USER, field_rule("value > 0", "S"))
    assert judge(rules, user(scores={SECRET: 0})) == 'rule "r" failed at scores[*]: value > 0'


def test_fields_of_every_primitive_type_without_tags():
    compiled = rules_of(USER, field_rule("typeName != 'STRING' || value != 'bad'"))
    assert judge(compiled, user(tags=["bad"])) is not None
    # An enum is no primitive type.
    assert judge(rules_of(USER, field_rule("value != 'B'")), user(kind="B")) is None


def test_the_variables_of_field_rules():
    rules = rules_of(
        USER,
        field_rule(
            "name == 'ssn' ; fullName == 'com.acme.User.ssn' && typeName == 'STRING' "
            "&& tags == ['PII', 'X'] && message.age == 5 && value.size() == 11"
        ),
        tags={"com.acme.User.s*": ["X"]},
    )
    assert judge(rules, user()) is None
    assert judge(rules, user(age=6)) is not None


def test_inline_rules_of_records_and_fields():
    schema = {
        "type": "record",
        "name": "R",
        "confluent:rules": [{"name": "sum", "expr": "this.a < this.b"}],
        "fields": [
            {"name": "a", "type": "int"},
            {"name": "b", "type": "int"},
            {
                "name": "c",
                "type": ["null", "string"],
                "confluent:rules": [{"name": "c", "doc": "c is short", "expr": "size(this) < 5"}],
            },
            {
                "name": "list",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "I",
                        "fields": [
                            {
                                "name": "x",
                                "type": "int",
                                "confluent:rules": [{"expr": "this > 0 ? '' : 'positive please'"}],
                            }
                        ],
                    },
                },
            },
        ],
    }
    rules = rules_of(schema)
    good = {"a": 1, "b": 2, "c": None, "list": [{"x": 1}]}
    assert judge(rules, good) is None
    assert judge(rules, {**good, "b": 0}) == 'rule "sum" failed: this.a < this.b'
    assert judge(rules, {**good, "c": SECRET}) == 'rule "c" failed at c: c is short'
    assert judge(rules, {**good, "list": [{"x": 1}, {"x": 0}]}) == (
        'rule "unnamed" failed at list[1].x: positive please'
    )


def test_inline_rules_are_not_run_if_values_are_transformed():
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": "int", "confluent:rules": [{"expr": "this > 0"}]}],
    }
    change = rule("x", name="change", kind="TRANSFORM", type="ENCRYPT")
    rules = rules_of(schema, change)
    assert rules.is_empty
    assert rules.not_run == (
        'rule "change": type ENCRYPT changes values',
        'rules within the schema: values are changed by rule "change"',
    )


def test_unions_of_records_as_fastavro_returns_them():
    schema = {
        "type": "record",
        "name": "Out",
        "fields": [
            {
                "name": "one",
                "type": [
                    {"type": "record", "name": "A", "fields": [{"name": "x", "type": "string"}]},
                    {
                        "type": "record",
                        "name": "B",
                        "fields": [{"name": "x", "type": "string", "confluent:tags": ["PII"]}],
                    },
                ],
            }
        ],
    }
    out = BytesIO()
    fastavro.schemaless_writer(out, schema, {"one": ("B", {"x": SECRET})})
    out.seek(0)
    value = fastavro.schemaless_reader(
        out, schema, None, return_named_type=True, return_named_type_override=True
    )
    assert value == {"one": ("B", {"x": SECRET})}
    rules = rules_of(schema, field_rule("message.x == 'a'", "PII"))
    assert judge(rules, value) == "rule \"r\" failed at one.x: message.x == 'a'"
    assert judge(rules, {"one": ("A", {"x": SECRET})}) is None
    assert judge(rules_of(schema, rule(f"message.one.x == '{SECRET}'")), value) is None


JSON = {
    "type": "object",
    "properties": {
        "ssn": {"type": ["string", "null"], "confluent:tags": ["PII"]},
        "card": {"$ref": "#/$defs/card"},
        "list": {"type": "array", "items": {"type": "integer"}, "confluent:tags": ["L"]},
    },
    "$defs": {
        "card": {
            "type": "object",
            "confluent:rules": [{"name": "card", "expr": "has(this.n)"}],
            "properties": {"n": {"type": "string", "confluent:tags": ["PII"]}},
        }
    },
}


def test_json():
    rules = rules_of(
        JSON, field_rule("size(value) < 5", "PII"), field_rule("value > 0", "L"), kind="JSON"
    )
    assert judge(rules, orjson.loads('{"ssn": "1234", "card": {"n": "1"}, "list": [1]}')) is None
    assert judge(rules, {"ssn": SECRET}) == 'rule "r" failed at $.ssn: size(value) < 5'
    assert judge(rules, {"ssn": None}) is None
    assert judge(rules, {"card": {"n": SECRET}}) == 'rule "r" failed at $.card.n: size(value) < 5'
    assert judge(rules, {"card": {}}) == 'rule "card" failed at $.card: has(this.n)'
    assert judge(rules, {"list": [1, 0]}) == 'rule "r" failed at $.list[1]: value > 0'
    for other in (None, 5, [], "text", [SECRET], {"card": 5, "list": {"a": 1}}):
        judge(rules, other)


def test_a_wrong_rule_of_protobuf_is_found_before_a_record_comes():
    of = order_class(ssn_meta=meta(rules=[{1: "short", 3: "size(this"}]))
    with pytest.raises(InvalidSchemaError, match=r'^rule "short": its expression is not valid'):
        rules_of("", kind="PROTOBUF", compiled=Messages(of))


def test_protobuf():
    of = order_class(ssn_meta=meta("PII"), message_meta=meta(rules=[{1: "id", 3: "this.id >= 0"}]))
    rules = rules_of(
        "",
        rule("message.state != shop.State.PAID", name="whole"),
        field_rule("typeName != 'STRING' || value != 'bad'", "PII"),
        kind="PROTOBUF",
        compiled=Messages(of),
    )
    assert judge(rules, of(id=1, ssn="good")) is None
    assert judge(rules, of(state=1)).startswith('rule "whole" failed: ')
    assert judge(rules, of(ssn="bad")).startswith('rule "r" failed at ssn: ')
    assert judge(rules, of(names=["a", "bad"])).startswith('rule "r" failed at names[1]: ')
    assert judge(rules, of(inner=of(id=-1))) == 'rule "id" failed at inner: this.id >= 0'
    assert judge(rules, of(others=[of(), of(ssn="bad")])).startswith(
        'rule "r" failed at others[1].ssn'
    )
    value = of()
    value.scores[SECRET].id = -1
    assert judge(rules, value) == 'rule "id" failed at scores[*]: this.id >= 0'


def test_several_conditions_are_evaluated_in_order():
    rules = rules_of(
        USER,
        rule("now > timestamp('2020-01-01T00:00:00Z') && message.age > 0", name="first"),
        rule("message.ssn.contains(message.kind)", name="second"),
        rule("message.age == 5", name="third"),
    )
    assert judge(rules, user(ssn="A")) is None
    assert judge(rules, user(age=0, ssn="x")).startswith('rule "first" failed')
    assert judge(rules, user(ssn="x")).startswith('rule "second" failed')
    assert judge(rules, user(ssn="A", age=6)) == 'rule "third" failed: message.age == 5'
    assert judge(rules, user(ssn="A" * 20_000)) is None
    assert "too much work" in judge(rules, user(ssn="A" * 1_000_000))


def test_the_wrong_rule_is_named():
    with pytest.raises(InvalidSchemaError, match=r'^rule "bad": its expression is not valid: '):
        rules_of(USER, rule("true"), rule("nothing == 1", name="bad"))
    with pytest.raises(InvalidSchemaError, match=r'^rule "bad": its guard is not valid: '):
        rules_of(USER, rule("nothing == 1; true", name="bad"))
    with pytest.raises(InvalidSchemaError, match=r'^rule "unnamed" has no expression'):
        rules_of({"type": "record", "name": "R", "fields": [], "confluent:rules": [{"sql": "a"}]})


@pytest.mark.parametrize(
    "expr", ["variant(message.ssn) != null", "variants.type(message.ssn) == 'object'"]
)
def test_functions_of_variants_make_rules_unusable(expr):
    with pytest.raises(InvalidSchemaError, match=r'^rule "r": its expression is not valid: '):
        rules_of(USER, rule(expr))


def test_no_rules_is_empty():
    rules = rules_of(USER)
    assert rules.is_empty
    assert judge(rules, user()) is None
    assert rules_of("", kind="PROTOBUF", compiled=Messages(order_class())).is_empty
    assert rules_of(USER, rule("true"), enableAt="CLIENT").is_empty


def test_a_value_without_end_is_refused():
    schema = {
        "properties": {"a": {"$ref": "#"}, "ssn": {"type": "string", "confluent:tags": ["P"]}}
    }
    rules = rules_of(schema, field_rule("value == 'a'", "P"), kind="JSON")
    value = {}
    for _ in range(3000):
        value = {"a": value}
    assert judge(rules, value) == "its values are nested too deeply for the rules"


def test_a_recursive_schema_with_several_ways_is_walked_once():
    """With 60 levels, there are more ways than could be gone in a lifetime."""
    branch = {
        "properties": {"a": {"$ref": "#"}, "ssn": {"type": "string", "confluent:tags": ["P"]}}
    }
    rules = rules_of(
        {"anyOf": [branch, dict(branch)]}, field_rule("value == 'x'", "P"), kind="JSON"
    )
    value, bad = {"ssn": "x"}, {"ssn": "y"}
    for _ in range(60):
        value, bad = {"a": value, "ssn": "x"}, {"a": bad, "ssn": "x"}
    assert judge(rules, value) is None
    assert "failed" in judge(rules, bad)


def test_fields_that_each_see_a_large_whole_are_bounded():
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "list", "type": {"type": "array", "items": "string"}, "confluent:tags": ["P"]}
        ],
    }
    rules = rules_of(schema, field_rule("size(message.list) > 0", "P"))
    assert judge(rules, {"list": ["x"] * 1000}) is None
    assert judge(rules, {"list": ["x" * 1000] * 200}) is None
    assert judge(rules, {"list": ["x" * 1000] * 1000}) == (
        "its rules about fields read a large whole too often"
    )
    alone = rules_of(schema, field_rule("size(value) > 0", "P"))
    assert judge(alone, {"list": ["x" * 1000] * 1000}) is None


def test_no_objection_shows_a_value():
    expressions = [
        "message.ssn == 'a'",
        "int(message.ssn) > 1",
        "message.ssn > 1",
        "message.scores[message.ssn] > 1",
        "message.ssn",
        "timestamp(message.ssn) > now",
        "message.ssn.substring(0, 99) == ''",
        "duration(message.ssn) > duration('1s')",
    ]
    for text in expressions:
        objection = judge(rules_of(USER, rule(text)), user())
        assert objection is not None, text
        assert SECRET not in objection


HIDDEN = "a@b.co\0<script>"


@pytest.mark.parametrize("expr", ["{}.isEmail()", "size({}) <= 6", "!{}.contains('<')"])
def test_text_after_a_nul_character_is_judged_too(expr):
    whole, field, inline = (expr.format(name) for name in ("message.ssn", "value", "this"))
    avro = {
        "type": "record",
        "name": "R",
        "fields": [
            {
                "name": "ssn",
                "type": "string",
                "confluent:tags": ["P"],
            }
        ],
    }
    within = json.loads(json.dumps(avro))
    within["fields"][0]["confluent:rules"] = [{"expr": inline}]
    json_schema = {"properties": {"ssn": {"type": "string", "confluent:tags": ["P"]}}}
    json_within = {"properties": {"ssn": {"type": "string", "confluent:rules": [{"expr": inline}]}}}
    of = order_class(ssn_meta=meta("P"))
    of_within = order_class(ssn_meta=meta(rules=[{1: "r", 3: inline}]))
    for rules, value in (
        (rules_of(avro, rule(whole)), {"ssn": HIDDEN}),
        (rules_of(avro, field_rule(field, "P")), {"ssn": HIDDEN}),
        (rules_of(within), {"ssn": HIDDEN}),
        (rules_of(json_schema, rule(whole), kind="JSON"), {"ssn": HIDDEN}),
        (rules_of(json_schema, field_rule(field, "P"), kind="JSON"), {"ssn": HIDDEN}),
        (rules_of(json_within, kind="JSON"), {"ssn": HIDDEN}),
        (rules_of("", rule(whole), kind="PROTOBUF", compiled=Messages(of)), of(ssn=HIDDEN)),
        (
            rules_of("", field_rule(field, "P"), kind="PROTOBUF", compiled=Messages(of)),
            of(ssn=HIDDEN),
        ),
        (rules_of("", kind="PROTOBUF", compiled=Messages(of_within)), of_within(ssn=HIDDEN)),
    ):
        assert "failed" in judge(rules, value)


def test_a_map_whose_key_has_a_nul_character_is_refused():
    rules = rules_of(USER, rule("!('admin' in message.scores)"), rule("true"))
    assert judge(rules, user(scores={"x": 1})) is None
    assert "a key of a map has a NUL character" in judge(rules, user(scores={"admin\0": 1}))
    around = rules_of(USER, field_rule("message.age > 0", "PII"))
    assert "a key of a map has a NUL character" in judge(around, user(scores={"admin\0": 1}))

"""Fields of some tags replaced."""

import json
import random

import pytest

from penstock.policies.json_paths import EVERY, parse
from penstock.policies.schema_policy.fields import avro, json_schema, protobuf
from penstock.policies.schema_policy.json_redaction import JsonRedaction
from penstock.policies.schema_policy.payloads.avro.compile import compile_avro
from penstock.policies.schema_policy.payloads.compiled import SchemaSource
from penstock.policies.schema_policy.redaction import MessageRedaction, Redaction
from penstock.policies.schema_policy.tags import read_patterns
from tests.policies.json_paths import PATHS, Writer
from tests.policies.schema_policy.messages import meta, order_class

TAGS = frozenset({"PII"})
NOTHING = read_patterns({})
CARD = {
    "type": "record",
    "name": "Card",
    "fields": [{"name": "n", "type": "string"}, {"name": "m", "type": ["null", "int"]}],
}


def avro_field(kind, tag="PII"):
    return {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": kind, "confluent:tags": [tag]}],
    }


def of_avro(schema, value):
    source = SchemaSource("AVRO", json.dumps(schema))
    return Redaction(avro.read_fields(source, NOTHING), TAGS, "***").apply(value)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("string", "secret", "***"),
        (["null", "string"], "secret", "***"),
        (["null", "string"], None, None),
        ("int", 5, 0),
        (["null", "int"], 5, None),
        ("double", 5.5, 0.0),
        ("boolean", True, False),
        ("bytes", b"secret", b""),
        ({"type": "fixed", "name": "F", "size": 3}, b"abc", b"\0\0\0"),
        ({"type": "enum", "name": "E", "symbols": ["X", "Y"]}, "Y", "X"),
        (["null", {"type": "enum", "name": "E", "symbols": ["X", "Y"]}], "Y", None),
        ({"type": "array", "items": "string"}, ["secret"], []),
        ({"type": "map", "values": "string"}, {"secret": "secret"}, {}),
        (["int", "string"], 5, 0),
        (CARD, {"n": "secret", "m": 5}, {"n": "***", "m": None}),
        (["null", CARD], {"n": "secret", "m": 5}, None),
    ],
)
def test_avro(kind, value, expected):
    assert of_avro(avro_field(kind), {"a": value}) == ({"a": expected}, True)
    compiled = compile_avro(SchemaSource("AVRO", json.dumps(avro_field(kind))))
    compiled.encode({"a": expected})
    assert of_avro(avro_field(kind, "OTHER"), {"a": value}) == ({"a": value}, False)


def test_avro_deep_inside():
    schema = {
        "type": "record",
        "name": "Out",
        "fields": [
            {
                "name": "list",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "map",
                        "values": [
                            "null",
                            avro_field("string"),
                            {
                                "type": "record",
                                "name": "S",
                                "fields": [{"name": "a", "type": "string"}],
                            },
                        ],
                    },
                },
            }
        ],
    }
    value = {"list": [{"k": ("R", {"a": "secret"}), "s": ("S", {"a": "stays"}), "n": None}]}
    assert of_avro(schema, value) == (
        {"list": [{"k": ("R", {"a": "***"}), "s": ("S", {"a": "stays"}), "n": None}]},
        True,
    )


def test_a_recursive_schema():
    schema = {
        "type": "record",
        "name": "T",
        "fields": [
            {"name": "ssn", "type": "string", "confluent:tags": ["PII"]},
            {"name": "next", "type": ["null", "T"]},
        ],
    }
    value = {"ssn": "1", "next": {"ssn": "2", "next": None}}
    assert of_avro(schema, value)[0] == {"ssn": "***", "next": {"ssn": "***", "next": None}}


def test_a_recursive_schema_with_several_ways_is_looked_through_once():
    """With 60 levels, there are more ways than could be gone in a lifetime."""
    branch = {
        "properties": {"a": {"$ref": "#"}, "ssn": {"type": "string", "confluent:tags": ["PII"]}}
    }
    value, expected = {"ssn": "1"}, {"ssn": "***"}
    for _ in range(60):
        value, expected = {"a": value, "ssn": "2"}, {"a": expected, "ssn": "***"}
    assert of_json({"anyOf": [branch, dict(branch)]}, value) == expected


def of_json(schema, value, tags=None):
    source = SchemaSource("JSON", json.dumps(schema))
    root = json_schema.read_fields(source, read_patterns({"tags": tags or {}}), widely=True)
    return json.loads(JsonRedaction(root, TAGS, "***").apply(json.dumps(value).encode()))


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "string"}, "secret", "***"),
        ({"type": ["integer", "null"]}, 5, None),
        ({"type": "integer"}, 5, 0),
        ({"type": "number"}, 5.5, 0.0),
        ({"type": "boolean"}, True, False),
        ({"type": "array"}, ["secret"], []),
        ({"type": "object"}, {"secret": 1}, {}),
        ({}, "secret", "***"),
        ({"enum": ["secret", "b"]}, "secret", "***"),
        ({"enum": [1, 2]}, 2, 0),
        ({"type": "string"}, None, None),
        ({"type": "string"}, 4111, 0),
    ],
)
def test_json(schema, value, expected):
    root = {"properties": {"a": {**schema, "confluent:tags": ["PII"]}}}
    assert of_json(root, {"a": value, "b": 1}) == {"a": expected, "b": 1}


class TagWriter(Writer):
    """Writes documents whose tagged fields may be null."""

    def replacement_of(self, sent):
        return '"***"' if sent.startswith('"') else "null"


def schema_of(path):
    if not path:
        return {"type": ["string", "null"], "confluent:tags": ["PII"]}
    below = schema_of(path[1:])
    if path[0] is EVERY:
        return {"items": below, "additionalProperties": below}
    return {"properties": {path[0]: below}}


def test_random_json_is_stored_as_a_writer_writes_it():
    chance = random.Random(52)
    changed = 0
    for _ in range(1500):
        paths = [parse(path) for path in chance.sample(PATHS, chance.randrange(1, 4))]
        sent, stored = TagWriter(chance, paths).document()
        schema = {"anyOf": [schema_of(path) for path in paths]}
        source = SchemaSource("JSON", json.dumps(schema))
        root = json_schema.read_fields(source, NOTHING, widely=True)
        assert JsonRedaction(root, TAGS, "***").apply(sent.encode()) == stored.encode(), schema
        changed += sent != stored
    assert changed > 250


TAGGED = {"type": "string", "confluent:tags": ["PII"]}
OF_OTHER = {"confluent:tags": ["OTHER"], "properties": {"a": TAGGED}}


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (
            {"$ref": "#/$defs/r", "$defs": {"r": {"properties": {"a": TAGGED}}}},
            {"a": "s"},
            {"a": "***"},
        ),
        (
            {"properties": {"a": {"$ref": "#/$defs/s"}}, "$defs": {"s": TAGGED}},
            {"a": "s"},
            {"a": "***"},
        ),
        (
            {"oneOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"a": TAGGED}}]},
            {"a": "s"},
            {"a": "***"},
        ),
        ({"if": True, "then": {"properties": {"a": TAGGED}}}, {"a": "s"}, {"a": "***"}),
        ({"additionalProperties": TAGGED}, {"x": "s"}, {"x": "***"}),
        ({"patternProperties": {"^x": TAGGED}}, {"x": "s"}, {"x": "***"}),
        (
            {"additionalProperties": {"properties": {"a": TAGGED}}},
            {"x": {"a": "s"}},
            {"x": {"a": "***"}},
        ),
        ({"items": {"properties": {"a": TAGGED}}}, [{"a": "s"}], [{"a": "***"}]),
        ({"items": TAGGED}, ["s"], ["***"]),
        ({"prefixItems": [TAGGED]}, ["s", 1], ["***", 0]),
        ({"items": OF_OTHER}, [{"a": "s"}], [{"a": "***"}]),
        ({"additionalProperties": OF_OTHER}, {"x": {"a": "s"}}, {"x": {"a": "***"}}),
        (OF_OTHER, {"a": "s"}, {"a": "***"}),
        (
            {"allOf": [{"properties": {"a": {"properties": {"b": TAGGED}}}}]},
            {"a": {"b": "s"}},
            {"a": {"b": "***"}},
        ),
    ],
)
def test_json_wherever_a_tag_stands(schema, value, expected):
    assert of_json(schema, value) == expected


def test_json_by_path():
    schema = {"properties": {"a": {"properties": {"ssn": {}}}}}
    assert of_json(schema, {"a": {"ssn": "s"}}, {"$.a.ssn": ["PII"]}) == {"a": {"ssn": "***"}}
    assert of_json(schema, {"a": {"ssn": "s"}}, {"**.ssn": ["PII"]}) == {"a": {"ssn": "***"}}


def test_protobuf():
    of = order_class(ssn_meta=meta("PII"))
    root = protobuf.read_fields(of.DESCRIPTOR, NOTHING)
    redaction = MessageRedaction(root, TAGS, "***")
    message = of(id=1, ssn="secret", names=["secret"], count=5)
    message.inner.ssn = "secret"
    message.others.add(ssn="secret", id=2)
    message.scores["k"].ssn = "secret"
    assert redaction.apply(message) is True
    assert b"secret" not in message.SerializeToString()
    assert (message.id, message.ssn, message.count, list(message.names)) == (1, "***", 0, [])
    assert (message.others[0].id, message.others[0].ssn) == (2, "***")
    assert redaction.apply(of(id=1)) is False


def test_a_required_message_of_protobuf_is_emptied():
    of = order_class(ssn_meta=meta("PII"), syntax="proto2")
    root = protobuf.read_fields(
        of.DESCRIPTOR, read_patterns({"tags": {"shop.Order.inner": ["PII"]}})
    )
    message = of(id=1)
    message.inner.ssn = "secret"
    assert MessageRedaction(root, TAGS, "***").apply(message) is True
    assert not message.HasField("inner")

"""The fields of Avro schemas."""

import json

import pytest

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.fields.avro import read_fields
from penstock.policies.schema_policy.fields.tree import leading_to, reachable
from penstock.policies.schema_policy.payloads.compiled import SchemaSource
from penstock.policies.schema_policy.tags import read_patterns


def fields_of(schema, tags=None, references=None):
    texts = {name: json.dumps(text) for name, text in (references or {}).items()}
    source = SchemaSource("AVRO", json.dumps(schema), texts)
    return read_fields(source, read_patterns({"tags": tags or {}}))


def record(name, *fields, **more):
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name, kind, **more):
    return {"name": name, "type": kind, **more}


def test_names_types_and_tags():
    root = fields_of(
        record(
            "User",
            field("ssn", ["null", "string"], **{"confluent:tags": ["PII"]}),
            field("age", "int"),
            field("day", {"type": "int", "logicalType": "date"}),
            namespace="com.acme",
        ),
        {"com.acme.User.age": ["AGE"], "**.ssn": ["SECRET"]},
    )
    ssn, age, day = root.fields
    assert ssn.full_name == "com.acme.User.ssn"
    assert ssn.tags == {"PII", "SECRET"}
    assert ssn.node.nullable
    assert (age.tags, age.node.type_name) == ({"AGE"}, "INT")
    assert day.node.type_name == "INT"


def test_named_types_are_found_before_and_after_their_place_and_in_references():
    root = fields_of(
        record(
            "a.Outer",
            field("first", record("Inner", field("other", "b.Other"))),
            field("again", "Inner"),
        ),
        references={"b.Other": record("b.Other", field("x", "long"))},
    )
    first, again = root.fields
    assert first.node is again.node
    assert first.node.name == "a.Inner"
    assert first.node.fields[0].node.fields[0].full_name == "b.Other.x"


def test_recursive_schemas_end():
    root = fields_of(
        record("Tree", field("left", ["null", "Tree"]), field("ssn", "string")),
        {"Tree.ssn": ["PII"]},
    )
    assert root.fields[0].node.alternatives[1] is root
    ways = leading_to(reachable(root), lambda field: bool(field.tags))
    assert id(root) in ways
    assert id(root.fields[1].node) not in ways


def test_branches_of_unions_are_distinguished():
    root = fields_of(
        [
            "null",
            "int",
            "string",
            {"type": "array", "items": "int"},
            "double",
            record("R", field("x", "int")),
            {"type": "enum", "name": "E", "symbols": ["A"]},
        ]
    )
    names = [
        [branch.type_name for branch in root.alternatives_of(value)]
        for value in (None, 5, "text", [1], 1.5, {"x": 1}, ("E", "A"), {"y": 1})
    ]
    assert names == [["NULL"], ["INT"], ["STRING"], ["ARRAY"], ["DOUBLE"], ["RECORD"], ["ENUM"], []]


@pytest.mark.parametrize("text", ["{", '{"type": "record", "name": "a"}', '"nothing"', "[" * 5000])
def test_an_invalid_schema_is_refused(text):
    with pytest.raises(InvalidSchemaError):
        read_fields(SchemaSource("AVRO", text), read_patterns({}))

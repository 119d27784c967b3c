"""The properties of JSON Schemas."""

import json

import pytest

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.fields.json_schema import read_fields
from penstock.policies.schema_policy.payloads.compiled import SchemaSource
from penstock.policies.schema_policy.tags import read_patterns


def fields_of(schema, tags=None, references=None, *, widely=False):
    texts = {name: json.dumps(text) for name, text in (references or {}).items()}
    source = SchemaSource("JSON", json.dumps(schema), texts)
    return read_fields(source, read_patterns({"tags": tags or {}}), widely=widely)


def test_names_types_and_tags():
    root = fields_of(
        {
            "type": "object",
            "properties": {
                "ssn": {"type": ["string", "null"], "confluent:tags": ["PII"]},
                "address": {"properties": {"zip": {"type": "integer"}}},
                "state": {"enum": ["NEW"]},
            },
        },
        {"$.address.zip": ["ZIP"]},
    )
    ssn, address, state = root.fields
    assert (ssn.tags, ssn.node.type_name, ssn.node.nullable) == ({"PII"}, "STRING", True)
    assert address.node.fields[0].full_name == "$.address.zip"
    assert address.node.fields[0].tags == {"ZIP"}
    assert state.node.type_name == "ENUM"


def test_references_are_followed():
    root = fields_of(
        {
            "properties": {
                "a": {"$ref": "#/$defs/one"},
                "b": {"$ref": "other.json#/$defs/two"},
                "c": {"$ref": "#anchored"},
            },
            "$defs": {"one": {"type": "string"}, "x": {"$anchor": "anchored", "type": "number"}},
        },
        references={"other.json": {"$defs": {"two": {"type": "boolean"}}}},
    )
    kinds = [field.node.alternatives[0].type_name for field in root.fields]
    assert kinds == ["STRING", "BOOLEAN", "DOUBLE"]


def test_a_recursive_schema_ends():
    tree = {"properties": {side: {"$ref": "#"} for side in ("left", "middle", "right")}}
    tree["properties"]["ssn"] = {"type": "string", "confluent:tags": ["PII"]}
    root = fields_of(tree)
    assert [field.name for field in root.fields] == ["left", "middle", "right", "ssn"]


@pytest.mark.thorough
def test_a_schema_that_grows_without_end_is_refused():
    definitions = {
        f"d{level}": {"properties": {name: {"$ref": f"#/$defs/d{level + 1}"} for name in "abcd"}}
        for level in range(30)
    }
    definitions["d30"] = {"type": "string"}
    with pytest.raises(InvalidSchemaError, match="more than 20000 properties"):
        fields_of({"$ref": "#/$defs/d0", "$defs": definitions})


def test_one_branch_of_one_of_is_chosen_and_all_for_redaction():
    schema = {
        "oneOf": [
            {"properties": {"kind": {"const": "a"}, "x": {"type": "string"}}},
            {"properties": {"kind": {"const": "b"}, "y": {"type": "string"}}, "required": ["y"]},
        ]
    }
    [branches] = fields_of(schema).alternatives
    chosen = [
        [field.name for field in branch.fields]
        for branch in branches.alternatives_of({"kind": "b", "y": "1"})
    ]
    assert chosen == [["kind", "y"]]
    [branches] = fields_of(schema, widely=True).alternatives
    assert len(list(branches.alternatives_of({"kind": "b"}))) == 2


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"$ref": "#/nowhere"}}},
        {"properties": {"a": {"$ref": "http://x/y"}}},
        {"properties": 5},
        {"properties": {"a": {"type": "nothing"}}},
    ],
)
def test_a_reference_that_cannot_be_followed_is_refused(schema):
    with pytest.raises(InvalidSchemaError):
        fields_of(schema)

"""Schemas as texts: `$ref` leads to the references by their names, and nowhere else."""

import json

import pytest

from penstock.policies.json_schema.check import compile_check
from penstock.policies.json_schema.documents import SchemaError
from penstock.policies.json_schema.texts import SchemaTexts
from tests.policies.json_schema.schemas import Judged, compiled

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


def check(schema, references):
    texts = {name: json.dumps(reference) for name, reference in references.items()}
    return Judged(compile_check(SchemaTexts(json.dumps(schema), texts), formats=False))


@pytest.mark.parametrize(
    ("root", "reference", "name"),
    [
        ({}, "b.json", "b.json"),
        ({}, "./b.json", "b.json"),
        ({}, "b.json", "./b.json"),
        ({}, "com.acme.B", "com.acme.B"),
        ({}, "a%20folder/b.json", "a folder/b.json"),
        ({}, "urn:acme:b", "urn:acme:b"),
        ({}, "https://acme.com/b.json", "https://acme.com/b.json"),
        ({}, "b.json#/$defs/x", "b.json"),
        ({"$id": "https://acme.com/x/a.json"}, "b.json", "b.json"),
        ({"$id": "https://acme.com/x/a.json"}, "b.json", "https://acme.com/x/b.json"),
        ({"$id": "https://acme.com/x/a.json"}, "../b.json", "https://acme.com/b.json"),
    ],
)
def test_a_name_leads_to_its_reference(root, reference, name):
    judged = check(root | {"$ref": reference}, {name: NUMBER | {"$defs": {"x": NUMBER}}, "c": TEXT})

    assert judged.objection(b"1", "value") is None
    assert judged.objection(b'""', "value") == "the value must be of type integer"


@pytest.mark.parametrize(
    ("reference", "second"),
    [
        ({"$ref": "b.json"}, "b.json"),
        ({"$id": "https://acme.com/x/a.json", "$ref": "b.json"}, "b.json"),
        ({"$id": "https://acme.com/x/a.json", "$ref": "b.json"}, "https://acme.com/x/b.json"),
        (
            {
                "$id": "https://acme.com/x/a.json",
                "$ref": "https://acme.com/x/a.json#/$defs/n",
                "$defs": {"n": NUMBER},
            },
            "c",
        ),
    ],
)
def test_a_reference_leads_on(reference, second):
    judged = check({"properties": {"p": {"$ref": "a.json"}}}, {"a.json": reference, second: NUMBER})

    assert judged.objection(b'{"p": 1}', "value") is None
    assert judged.objection(b'{"p": ""}', "value") == "the value at /p must be of type integer"


def test_a_reference_is_found_by_its_id():
    judged = check({"$ref": "https://acme.com/b"}, {"any": NUMBER | {"$id": "https://acme.com/b"}})

    assert judged.objection(b"1", "value") is None
    assert judged.objection(b'""', "value") is not None


def test_references_may_lead_to_each_other():
    a = {"properties": {"b": {"$ref": "b"}}, "type": "object"}
    judged = check({"$ref": "a"}, {"a": a, "b": {"properties": {"a": {"$ref": "a"}}}})

    assert judged.objection(b'{"b": {"a": {}}}', "value") is None
    assert (
        judged.objection(b'{"b": {"a": 1}}', "value") == "the value at /b/a must be of type object"
    )


@pytest.mark.parametrize(
    "reference",
    ["c.json", "https://other.com/b.json", "file:///etc/passwd", "x/b.json", "//h/b.json"],
)
def test_a_missing_reference_is_not_found(reference):
    with pytest.raises(
        SchemaError, match="no reference has this name, and schemas are never fetch"
    ):
        check({"$ref": reference}, {"b.json": NUMBER})


def test_a_reference_that_is_wrong_is_named():
    with pytest.raises(SchemaError, match=r"^the schema: .ref to b.json: it is not a valid schema"):
        check({"$ref": "b.json"}, {"b.json": {"type": 7}})
    texts = SchemaTexts('{"$ref": "b.json"}', {"b.json": "{"})
    with pytest.raises(SchemaError, match=r"the reference b.json is not JSON"):
        compile_check(texts, formats=False)


@pytest.mark.parametrize("uri", [None, "https://acme.com/our-own", "urn:none", 7])
def test_without_a_draft_that_is_known_it_is_draft_7(uri, implementation):
    """As for Confluent's serializer for Java: `items` may be a list, as in no later draft."""
    schema = {"items": [{"type": "integer"}], "additionalItems": False}
    if uri is not None:
        schema["$schema"] = uri
    judged = Judged(compiled(SchemaTexts(json.dumps(schema), {}), implementation))

    assert judged.objection(b"[1]") is None
    assert judged.objection(b'["a"]') is not None
    assert judged.objection(b"[1, 2]") is not None

"""Ciphertext is not judged by the keywords about the text before it was encrypted."""

import base64
import json

import pytest

from penstock.policies.schema_policy.compiled_schemas import CompiledSchemas
from penstock.policies.schema_policy.encrypted import as_it_arrives, encrypts
from penstock.policies.schema_policy.payloads import compile_schema
from penstock.policies.schema_policy.payloads.compiled import SchemaSource
from penstock.policies.schema_policy.registered import RegisteredSchema, SchemaReference

ENCRYPT = {
    "name": "encrypt",
    "kind": "TRANSFORM",
    "mode": "WRITEREAD",
    "type": "ENCRYPT",
    "tags": ["PII"],
}
CIPHERTEXT = base64.b64encode(bytes(range(60))).decode()
SSN = {"type": "string", "pattern": "^[0-9]{3}$", "maxLength": 3}


class Registry:
    def __init__(self, **references):
        self._references = references

    def source(self, schema):
        return SchemaSource(schema.schema_type, schema.text, self._references)


def fits(properties, value, rule=ENCRYPT, tags=None, references=None, **more):
    rules = {"domainRules": [rule]} if rule else {}
    schema = RegisteredSchema(
        "JSON",
        json.dumps({"type": "object", "properties": properties, **more}),
        tuple(SchemaReference(reference, reference, 1) for reference in references or {}),
        metadata={"tags": tags} if tags else {},
        rule_set=rules,
    )
    texts = {name: json.dumps(text) for name, text in (references or {}).items()}
    compiled = CompiledSchemas(Registry(**texts)).of(schema, 1)
    assert not compiled.problem, compiled.problem
    return not list(compiled.schema.objections([json.dumps(value).encode()]))


TAGGED = SSN | {"confluent:tags": ["PII"]}


@pytest.mark.parametrize(
    ("properties", "more"),
    [
        ({"a": TAGGED}, {}),
        ({"a": SSN}, {"tags": {"$.a": ["PII", "X"]}}),
        ({"a": SSN}, {"tags": {"$.*": ["PII"]}}),
        ({"a": SSN}, {"rule": ENCRYPT | {"tags": []}}),
        ({"a": {"confluent:tags": ["PII"], "allOf": [SSN]}}, {}),
        ({"a": {"confluent:tags": ["PII"], "oneOf": [{"type": "null"}, SSN, SSN]}}, {}),
        ({"a": {"$ref": "#/$defs/s", "confluent:tags": ["PII"]}}, {"$defs": {"s": SSN}}),
        (
            {"a": {"$ref": "s#/d/0", "confluent:tags": ["PII"]}},
            {"references": {"s": {"d": [SSN]}}},
        ),
        ({"a": {"enum": ["x"], "confluent:tags": ["PII"]}}, {}),
        ({"a": {"not": {"minLength": 9}, "if": True, "then": SSN, "confluent:tags": ["PII"]}}, {}),
    ],
)
def test_of_an_encrypted_field_the_type_alone_is_judged(properties, more):
    assert fits(properties, {"a": CIPHERTEXT}, **more)
    if "enum" not in properties["a"] and "not" not in properties["a"]:
        assert not fits(properties, {"a": 7}, **more)
    assert not fits(properties, {"a": CIPHERTEXT}, **more | {"rule": None})


def test_items_of_an_encrypted_field_are_encrypted():
    properties = {"a": {"type": "array", "items": SSN, "maxItems": 1, "confluent:tags": ["PII"]}}
    assert fits(properties, {"a": [CIPHERTEXT]})
    assert not fits(properties, {"a": [CIPHERTEXT, CIPHERTEXT]})


def test_other_fields_are_judged_as_always():
    properties = {
        "a": TAGGED,
        "b": SSN,
        "c": {"properties": {"a": SSN | {"confluent:tags": ["X"]}}},
    }
    good = {"a": CIPHERTEXT, "b": "123", "c": {"a": "123"}}
    assert fits(properties, good)
    assert not fits(properties, good | {"b": CIPHERTEXT})
    assert not fits(properties, good | {"c": {"a": CIPHERTEXT}})
    assert not fits(properties, good, required=["d"])


def test_a_schema_that_refers_to_itself_has_an_end():
    node = {"properties": {"next": {"$ref": "#"}, "a": TAGGED}}
    assert fits(node["properties"], {"a": CIPHERTEXT, "next": {"a": CIPHERTEXT}})


@pytest.mark.parametrize(
    ("rule", "tags"),
    [
        (ENCRYPT, {"PII"}),
        (ENCRYPT | {"tags": None}, set()),
        (ENCRYPT | {"disabled": True}, None),
        (ENCRYPT | {"mode": "READ"}, None),
        (ENCRYPT | {"kind": "CONDITION"}, None),
        (ENCRYPT | {"type": "CEL"}, None),
        ("x", None),
    ],
)
def test_rules_that_encrypt_are_known(rule, tags):
    assert encrypts({"domainRules": [rule]}) == tags
    assert encrypts({"domainRules": [rule], "enableAt": "SERVER"}) is None
    assert encrypts({"domainRules": rule}) is None


def test_other_schemas_are_left_unchanged():
    for source in (SchemaSource("AVRO", '"int"'), SchemaSource("JSON", "no JSON")):
        schema = RegisteredSchema(
            source.schema_type, source.text, rule_set={"domainRules": [ENCRYPT]}
        )
        assert as_it_arrives(schema, source) is source


DRAFT_7 = "http://json-schema.org/draft-07/schema#"
TAGGED = {"type": "string", "confluent:tags": ["PII"]}
D2020 = "https://json-schema.org/draft/2020-12/schema"
CIPHER = b"Q0lQSEVS+/=="


def texts_of(schema, tags, *values):
    """Return the reasons for values, by the schema of values that their producer encrypts."""
    text = json.dumps({"$schema": DRAFT_7} | schema)
    rules = {"domainRules": [
        {"name": "e", "kind": "TRANSFORM", "mode": "WRITEREAD", "type": "ENCRYPT", "tags": tags}
    ]}  # fmt: skip
    arrives = as_it_arrives(
        RegisteredSchema("JSON", text, rule_set=rules), SchemaSource("JSON", text, {})
    )
    payloads = [json.dumps(value).encode() for value in values]
    return dict(compile_schema(arrives).objections(payloads, 0))


@pytest.mark.parametrize("anchor", [{"$id": "#ssn"}, {"$anchor": "ssn"}])
def test_a_reference_to_an_anchor_leads_to_its_schema_alone(anchor):
    schema = {
        "$schema": DRAFT_7 if "$id" in anchor else "https://json-schema.org/draft/2020-12/schema",
        "not": {"required": ["forbidden"]},
        "properties": {"ssn": {"$ref": "#ssn", "confluent:tags": ["PII"]}},
        "definitions": {"s": anchor | {"type": "string", "pattern": "^[0-9]+$"}},
    }
    found = texts_of(schema, ["PII"], {"ssn": CIPHER.decode()}, {"ssn": "1", "forbidden": 1})
    assert found == {1: "fits the schema of not"}


def branch(pattern):
    return {"properties": {"id": TAGGED | {"pattern": pattern}, "n": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "tags"),
    [
        ({"oneOf": [branch("^US"), branch("^UK")]}, ["PII"]),
        (
            {"oneOf": [{"properties": {"id": {"const": kind}}} for kind in "ab"]
             , "properties": {"n": {"type": "integer"}}},
            [],
        ),
        ({"if": branch("^US"), "then": False, "else": branch("^UK")}, ["PII"]),
        ({"not": branch("^Q"), "properties": {"n": {"type": "integer"}}}, ["PII"]),
        ({"allOf": [{"patternProperties": {"^i": TAGGED | {"pattern": "^US"}}},
                    {"properties": {"n": {"type": "integer"}}}]}, ["PII"]),
        ({"properties": {"n": {"type": "integer"}},
          "additionalProperties": TAGGED | {"maxLength": 3}}, ["PII"]),
    ],
    ids=["oneOf", "union", "if", "not", "patternProperties", "additionalProperties"],
)  # fmt: skip
def test_encrypted_values_decide_nothing_and_the_rest_is_judged(schema, tags):
    good, bad = {"id": CIPHER.decode(), "n": 1}, {"id": CIPHER.decode(), "n": "x"}
    found = texts_of(schema, tags, good, bad)
    assert 0 not in found
    assert (1 in found) == ("if" not in schema)


SHORT = TAGGED | {"maxLength": 3}
ID = {"id": CIPHER.decode()}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"dependencies": {"id": {"properties": {"id": SHORT}}}}, ID),
        ({"properties": {"id": {
            "confluent:tags": ["PII"], "items": [True], "additionalItems": {"maxLength": 3}}}}, {"id": [1, ID["id"]]}),
        ({"properties": {"ids": {"confluent:tags": ["PII"], "contains": {"maxLength": 3}}}},
         {"ids": [ID["id"]]}),
        ({"$schema": D2020, "unevaluatedProperties": SHORT}, ID),
        ({"$schema": D2020, "properties": {"ids": {
            "confluent:tags": ["PII"], "prefixItems": [True], "unevaluatedItems": {"maxLength": 3}}}},
         {"ids": [1, ID["id"]]}),
        ({"definitions": {"s": {"$id": "https://a.b/s", "definitions": {"t": SHORT},
                                "properties": {"id": {"$ref": "#/definitions/t",
                                                      "confluent:tags": ["PII"]}}}},
          "allOf": [{"$ref": "https://a.b/s"}]}, ID),
        ({"$defs": {"b": {"properties": {"id": SHORT}}}, "$schema": D2020,
          "$ref": "#/$defs/b", "not": {"$ref": "#/$defs/b"}}, ID),
        ({"definitions": {"b": {"properties": {"id": SHORT}}},
          "if": {"$ref": "#/definitions/b"}, "else": False, "allOf": [{"$ref": "#/definitions/b"}]}, ID),
        ({"$schema": D2020, "$dynamicRef": "#node",
          "$defs": {"n": {"$dynamicAnchor": "node", "properties": {"id": SHORT}}}}, ID),
    ],
    ids=["dependencies", "additionalItems", "contains", "unevaluatedProperties",
         "unevaluatedItems", "$id", "$ref and not", "if and allOf", "$dynamicRef"],
)  # fmt: skip
def test_an_encrypted_field_is_found_by_each_way_to_it(schema, value):
    assert texts_of(schema, ["PII"], value) == {}

"""Schemas of registries: valid schemas, and invalid schemas with their messages."""

import json

import pytest

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.payloads.avro.parse import parse
from tests.policies.schema_policy.payloads.avro.schemas import compiled, objection


def record(name, *types, **others):
    fields = [{"name": f"f{at}", "type": kind} for at, kind in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields, **others}


FIXED = {"type": "fixed", "name": "F", "size": 2}


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ('"string"', b"\2a"),
        ({"type": "string"}, b"\2a"),
        ({"type": {"type": "string"}}, b"\2a"),
        ({"type": ["null", "string"]}, b"\0"),
        ({"type": "error", "name": "E", "fields": []}, b""),
        ({"type": "int", "logicalType": "no such", "avro.java.string": "String"}, b"\0"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 0, "scale": 9}, b"\0"),
        (record("a.B", FIXED, "F", "a.F"), b"xxyyzz"),
        (record("B", FIXED, namespace="a"), b"xx"),
        (record("a.B", dict(FIXED, namespace="c"), "c.F"), b"xxyy"),
        (record("a.B", dict(FIXED, namespace=""), "F"), b"xxyy"),
        (record("B", "F", FIXED), b"xxyy"),
        (record("Straße", "int"), b"\0"),
        (record("com.acme.Outer$Inner", "int"), b"\0"),
        (record("com.acme.Outer$.Inner", record("a-b", "int"), "a-b"), b"\0\0"),
        (record("1R", {"type": "enum", "name": "E", "symbols": ["a-b", "$", "1"]}), b"\2"),
        (record("R", "a b", namespace="x-y") | {"fields": [{"name": "a.b", "type": "int"}]}, b"\0"),
    ],
)
def test_valid_schemas(schema, payload):
    assert objection(schema, payload) is None


@pytest.mark.parametrize("default", [1, "x", None, [], {}, {"f": 1}])
@pytest.mark.parametrize("schema", ["int", "string", ["null", "int"], "double", record("R")])
def test_no_default_is_refused(schema, default):
    fields = [{"name": "f", "type": schema, "default": default, "aliases": "a", "order": 7}]
    compiled({"type": "record", "name": "X", "fields": fields, "aliases": "x"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is not JSON: Expecting value"),
        ("record", "it is not JSON: Expecting value"),
        ("[" * 100_000, "it is not JSON: "),
        ("7", "a type is a name, an object or a list of types"),
        ("true", "a type is a name, an object or a list of types"),
        ("{}", "an object has no type"),
        ('{"type": 7}', "a type is a name, an object or a list of types"),
        ('"Strin"', "it refers to Strin, which is not defined"),
        (record("a.B", "C"), "it refers to a.C, which is not defined"),
        ({"type": "record", "fields": []}, "a type record has no name"),
        ({"type": "record", "name": "R"}, "the fields of R are not a list of them"),
        ({"type": "record", "name": "R", "fields": [7]}, "the fields of R are not a list of them"),
        (
            {"type": "record", "name": "R", "fields": [{"type": "int"}]},
            "the names of fields of R are not a list of names",
        ),
        ({"type": "record", "name": "R", "fields": [{"name": "a"}]}, "a field of R has no type"),
        (
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}] * 2},
            "the names of fields of R are not different",
        ),
        ({"type": "record", "name": "", "fields": []}, "a type record has no name"),
        ({"type": "record", "name": "a.", "fields": []}, "a type record has no name"),
        (
            {"type": "record", "name": "R", "fields": [{"name": "", "type": "int"}]},
            "the names of fields of R are not a list of names",
        ),
        (
            {"type": "record", "name": "string", "fields": []},
            "string is the name of a primitive type",
        ),
        ({"type": "enum", "name": "E"}, "the symbols of E are not a list of names"),
        (
            {"type": "enum", "name": "E", "symbols": ["a", "a"]},
            "the symbols of E are not different",
        ),
        (
            {"type": "enum", "name": "E", "symbols": [""]},
            "the symbols of E are not a list of names",
        ),
        ({"type": "fixed", "name": "F"}, "the size of F is not a number from 0 to"),
        ({"type": "fixed", "name": "F", "size": -1}, "the size of F is not a number from 0 to"),
        ({"type": "fixed", "name": "F", "size": True}, "the size of F is not a number from 0 to"),
        ({"type": "fixed", "name": "F", "size": 2**31}, "the size of F is not a number from 0 to"),
        ({"type": "array"}, "a type array has no items"),
        ({"type": "map"}, "a type map has no values"),
        (record("R", FIXED, FIXED), "F is defined twice"),
        (["int", ["null"]], "a union has a union as a branch"),
        (["int", "int"], "a union has int twice"),
        (
            [{"type": "array", "items": "int"}, {"type": "array", "items": "long"}],
            "a union has array twice",
        ),
        ({"type": "array", "items": "a\n\x1b[31m"}, "it refers to a??[31m, which is not defined"),
        (record("R", "n" * 1000), "nnn..., which is not defined"),
    ],
)
def test_invalid_schemas(text, message):
    with pytest.raises(InvalidSchemaError) as raised:
        compiled(text)
    assert message in str(raised.value)
    assert len(str(raised.value)) < 300


def test_references_in_any_order_and_in_circles():
    a = record("x.A", ["null", "x.B"])
    b = record("x.B", ["null", "x.A"])

    assert objection(a, b"\2\2\0", b=b) is None
    assert objection('"x.A"', b"\2\0", b=b, a=a, again=a) is None
    assert objection(record("R", "x.C"), b"", c=record("x.C", "x.D"), d=record("x.D")) is None


def test_a_reference_that_defines_a_type_again_is_an_error():
    with pytest.raises(InvalidSchemaError, match=r"x.A is defined twice"):
        compiled(record("R", "x.A"), a=record("x.A"), other=record("x.A", "int"))
    with pytest.raises(InvalidSchemaError, match=r"x.A is defined twice"):
        compiled(record("x.A"), a=record("x.A", "int"))


def test_a_reference_that_is_wrong_is_an_error_even_if_it_is_not_used():
    with pytest.raises(InvalidSchemaError, match="it is not JSON"):
        compiled('"int"', other="{")


def nested(levels):
    schema = "int"
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


def test_levels_are_bounded():
    assert objection(nested(126), b"\0") is None
    with pytest.raises(InvalidSchemaError, match="more than 127 levels of types"):
        compiled(nested(127))
    chain = {f"r{at}": record(f"R{at}", f"R{at + 1}") for at in range(200)}
    with pytest.raises(InvalidSchemaError, match="more than 127 levels of records"):
        compiled('"R0"', **chain, last=record("R200", "int"))


@pytest.mark.thorough
def test_types_are_bounded():
    text = json.dumps([{"type": "map", "values": "int"}] * 100_000)
    with pytest.raises(InvalidSchemaError, match="more than 200000 types"):
        parse(text, {})


@pytest.mark.parametrize("end", ["null", "int"])
def test_records_that_double_are_bounded(end):
    doubling = {f"r{at}": record(f"R{at}", f"R{at + 1}", f"R{at + 1}") for at in range(60)}
    last = record("R60", "null", end)

    with pytest.raises(InvalidSchemaError, match="more than 1000 values that take no bytes"):
        compiled('"R0"', **doubling, last=last)


def test_records_that_double_with_bytes_take_as_long_as_their_bytes():
    doubling = {f"r{at}": record(f"R{at}", f"R{at + 1}", f"R{at + 1}") for at in range(60)}
    assert objection('"R0"', b"\0" * 1000, **doubling, last=record("R60", "int")).startswith(
        "Avro: ends before the field f0.f0"
    )
    assert objection('"R0"', b"\0" * 1000, **doubling, last=record("R60", "double")) == (
        "Avro: ends before the value does"
    )

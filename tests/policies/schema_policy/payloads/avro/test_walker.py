"""The reason for a payload that does not fit: the flaw and the place, but no value."""

import json

import pytest

from penstock.policies.schema_policy.payloads.avro.parse import parse
from penstock.policies.schema_policy.payloads.avro.table import flatten
from tests.policies.schema_policy.payloads.avro import walk
from tests.policies.schema_policy.payloads.avro.schemas import objection


def record(name, **fields):
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": schema} for field, schema in fields.items()],
    }


ORDER = record(
    "Order",
    id="string",
    address=record("Address", street="string", zip="string"),
    lines={"type": "array", "items": record("Line", count="int", note=["null", "string"])},
    tags={"type": "map", "values": record("Tag", on="boolean")},
)
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
START = b"\2a" + b"\2b\2c"


@pytest.mark.parametrize(
    ("schema", "payload", "message"),
    [
        (ORDER, START[:-1], "ends before the field address.zip does"),
        (ORDER, START[:-3], "ends before the field address.street does"),
        (
            ORDER,
            START + b"\4\2\0\2\4\0\0",
            "the field lines[1].note has an index of no branch of its union",
        ),
        (
            ORDER,
            START + b"\2\2\2\1\0\0",
            "the field lines[0].note has a length that is negative or too large",
        ),
        (
            ORDER,
            START + b"\2\2\0\0" + b"\2\x0csecret\2\0",
            "the field tags[*].on is a boolean of another byte than 0 and 1",
        ),
        (
            ORDER,
            START + b"\0" + b"\2\4\xff\xff\1\0",
            "the field tags[*] has a key that is not UTF-8",
        ),
        (ORDER, START + b"\0\0\0", "has 1 bytes after its end"),
        (ORDER, b"\4\xc3(", "the field id is not UTF-8"),
        (
            ORDER,
            START + b"\1\2\2\0\0\0",
            "the field lines has a block that does not end where it says",
        ),
        (ORDER, START + b"\1\3\2\0\0\0", "the field lines has a block with a wrong count or size"),
        ("boolean", b"\2", "the value is a boolean of another byte than 0 and 1"),
        ("boolean", b"", "ends before the value does"),
        ("int", b"\x80" * 5 + b"\0", "the value has a number that is longer than one of type int"),
        (
            "int",
            b"\xff" * 4 + b"\x10",
            "the value has a number that is longer than one of type int",
        ),
        (
            "long",
            b"\xff" * 9 + b"\2",
            "the value has a number that is longer than one of type long",
        ),
        (["bytes"], b"\0\1", "the value has a length that is negative or too large"),
        ("double", b"\0" * 7, "ends before the value does"),
        (ENUM, b"\1", "the value has an index of no symbol of its enum"),
        (ENUM, b"\4", "the value has an index of no symbol of its enum"),
        (["null", "int"], b"\1\0", "the value has an index of no branch of its union"),
        ([], b"\0", "the value has an index of no branch of its union"),
        ({"type": "fixed", "name": "F", "size": 3}, b"ab", "ends before the value does"),
        ({"type": "array", "items": "int"}, b"\0\0", "has 1 bytes after its end"),
        ("null", b"\0", "has 1 bytes after its end"),
    ],
)
def test_a_payload_that_does_not_fit(schema, payload, message):
    assert objection(schema, payload) == f"Avro: {message}"


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ("int", b"\xff" * 4 + b"\x0f"),
        ("int", b"\x80\0"),
        ("long", b"\xff" * 9 + b"\1"),
        (ENUM, b"\x82\0"),
        (["null", "int"], b"\x80\0"),
        ("string", b"\x82\0a"),
        ({"type": "array", "items": "int"}, b"\3\4\2\2\0"),
        ({"type": "array", "items": "null"}, b"\xa0\x9c\1\0"),
        ({"type": "map", "values": "null"}, b"\4\2a\2a\0"),
        ("null", b""),
        ("bytes", b""),
        ("bytes", b"\4ab"),
        ("bytes", b"bare"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4}, b"\1"),
        (record("Empty"), b""),
    ],
)
def test_a_payload_that_fits(schema, payload):
    assert objection(schema, payload) is None


def test_a_long_path_is_cut():
    name = "n" * 300
    text = objection(record("R", **{name: record("S", end="int")}), b"")
    assert text.startswith("Avro: ends before the field ...nnn")
    assert text.endswith("n.end does")
    assert len(text) < 260


def test_the_work_is_bounded_by_the_bytes_if_fields_have_none(monkeypatch):
    empty = {f"n{i}": "null" for i in range(900)}
    schema = {"type": "array", "items": record("R", on="boolean", **empty)}
    items, reads = 60, []
    read = walk._PayloadWalk.read
    monkeypatch.setattr(walk._PayloadWalk, "read", lambda *given: reads.append(1) or read(*given))
    payload = bytes([2 * items]) + b"\0" * (items - 1) + b"\2\0"
    expected = "Avro: the field [59].on is a boolean of another byte than 0 and 1"
    assert objection(schema, payload) == expected
    assert walk.objection(flatten(parse(json.dumps(schema), {})), payload) == expected
    assert 0 < len(reads) <= 4 * len(payload)

"""Avro schemas from `compile_schema`: columns judged, values decoded and encoded."""

import math
import struct
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.policies.schema_policy.payloads.avro.schemas import (
    LIST,
    SCHEMAS,
    compiled,
    objection,
    values,
    written,
)

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}


def test_a_column_is_judged_and_each_objection_has_its_position():
    schema = compiled({"type": "array", "items": "string"})
    payloads = [b"\0", b"\2\2\xff\0", memoryview(b"\2\2a\0"), b"", b"\0\0\0"]

    assert list(schema.objections(payloads)) == [
        (1, "Avro: the field [0] is not UTF-8"),
        (3, "Avro: ends before the value does"),
        (4, "Avro: has 2 bytes after its end"),
    ]


def test_logical_types_are_neither_judged_nor_converted():
    payload = b"\2a" + b"\x14" + b"\xff" * 10 + b"\xff" * 9 + b"\1" + b"\2z"
    schema = compiled(ORDER)

    assert list(schema.objections([payload])) == []
    value = schema.decode(payload)
    assert value == {"id": "a", "amount": b"\xff" * 10, "at": -(2**63), "key": "z"}
    assert schema.encode(value) == payload


@pytest.mark.thorough
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_values_are_made_and_written_again(data):
    schema = data.draw(SCHEMAS)
    value = data.draw(values(schema))
    ready = compiled(schema)
    payload = written(schema, value)

    again = ready.encode(ready.decode(payload))

    assert list(ready.objections([again])) == []
    assert plain(ready.decode(again)) == plain(ready.decode(payload))


def plain(value):
    """Return a value that equals another value of the same bytes."""
    if isinstance(value, float):
        return struct.pack("d", math.nan if math.isnan(value) else value)
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value


def test_a_value_of_a_union_of_several_named_types_is_a_pair_and_keeps_its_branch():
    branches = [
        {"type": "record", "name": name, "fields": [{"name": "x", "type": "int"}]} for name in "AB"
    ]
    schema = compiled(branches)

    assert schema.decode(b"\2\6") == ("B", {"x": 3})
    assert schema.encode(("B", {"x": 4})) == b"\2\x08"
    assert schema.encode(("A", {"x": 4})) == b"\0\x08"


def test_names_that_only_java_without_validation_takes_are_those_of_values():
    schema = compiled(
        {
            "type": "record",
            "name": "com.acme.Outer$Order",
            "fields": [
                {"name": "order-id", "type": "int"},
                {"name": "$kind", "type": {"type": "enum", "name": "a-b", "symbols": ["-", "$"]}},
            ],
        }
    )

    value = schema.decode(b"\2\2")
    assert value == {"order-id": 1, "$kind": "$"}
    assert schema.encode(value) == b"\2\2"


@pytest.mark.parametrize("name", ["record", "enum", "fixed", "array", "map", "union", "error"])
def test_a_type_may_have_the_name_of_a_kind_of_types(name):
    fixed = {"type": "fixed", "name": name, "size": 2}
    other = {"type": "fixed", "name": "other", "size": 3}
    schema = compiled(
        {
            "type": "record",
            "name": "R",
            "fields": [
                {"name": "a", "type": fixed},
                {"name": "b", "type": {"type": "array", "items": name}},
                {"name": "c", "type": [name, other]},
            ],
        }
    )
    payload = b"ab\2cd\0\0ef"

    value = schema.decode(payload)
    assert (value["a"], value["b"], value["c"][1]) == (b"ab", [b"cd"], b"ef")
    assert schema.encode(value) == payload


@pytest.mark.parametrize("payload", [b"", b"bare", b"\4ab"])
def test_bytes_that_a_schema_is_nothing_but_are_bare_as_confluents_serializers_write_them(payload):
    schema = compiled({"type": "bytes"})

    assert list(schema.objections([payload])) == []
    assert schema.decode(payload) == payload
    assert schema.encode(payload) == payload
    with pytest.raises(ValueError, match="the value does not fit its schema"):
        schema.encode("text")


def test_a_type_without_namespace_inside_a_type_with_a_namespace():
    schema = compiled(
        {
            "type": "record",
            "name": "a.B",
            "fields": [
                {"name": "c", "type": {"type": "fixed", "name": "C", "namespace": "", "size": 1}},
                {"name": "d", "type": "C"},
            ],
        }
    )

    assert schema.decode(b"xy") == {"c": b"x", "d": b"y"}


def test_six_hundred_types_that_lead_to_each_other():
    types = [
        {
            "type": "record",
            "name": f"T{at}",
            "fields": [{"name": "next", "type": ["null", f"T{(at + 1) % 600}"]}],
        }
        for at in range(600)
    ]
    schema = compiled('"T0"', **{kind["name"]: kind for kind in types})

    assert list(schema.objections([b"\2\2\0", b"\2\4\0"])) == [
        (1, "Avro: the field next.next has an index of no branch of its union")
    ]
    assert schema.decode(b"\2\2\0") == {"next": {"next": {"next": None}}}


@pytest.mark.parametrize("value", [{"id": 1}, {}, "secret", {"id": "a", "more": "secret"}, None])
def test_a_value_that_does_not_fit_is_not_written_and_not_shown(value):
    with pytest.raises(ValueError, match=r"^the value does not fit its schema$") as raised:
        compiled(ORDER).encode(value)
    assert raised.value.__suppress_context__


@pytest.mark.parametrize("payload", [b"", b"\2a", b"\1"])
def test_a_payload_that_does_not_fit_is_not_decoded(payload):
    with pytest.raises(ValueError, match=r"^the payload does not fit its schema$"):
        compiled(ORDER).decode(payload)


HOSTILE = {
    "100,000 levels": (LIST, b"\2" * 100_000 + b"\0", "inside more than 127 records"),
    "8 million nulls": (
        {"type": "array", "items": "null"},
        b"\x80\xc8\xd0\x07\0",
        "has more than 10000 items that take no bytes",
    ),
    "8 million empty records": (
        {"type": "array", "items": {"type": "record", "name": "E", "fields": []}},
        b"\x80\xc8\xd0\x07\0",
        "has more than 10000 items that take no bytes",
    ),
    "many arrays of nulls": (
        {"type": "array", "items": {"type": "array", "items": "null"}},
        b"\xe8\x07" + b"\x90\x4e\0" * 500 + b"\0",
        "the field [2] has more than 10000 items that take no bytes",
    ),
    "2^63 nulls": (
        {"type": "array", "items": "null"},
        b"\xff" * 9 + b"\1\0\0",
        "has more than 10000 items that take no bytes",
    ),
    "2^62 doubles": (
        {"type": "array", "items": "double"},
        b"\x80" * 8 + b"\x80\1\0",
        "ends before the value does",
    ),
    "2^62 strings": (
        {"type": "array", "items": "string"},
        b"\x80" * 8 + b"\x80\1\0",
        "ends before the field [1] does",
    ),
    "2^62 characters": ("string", b"\x80" * 8 + b"\x80\1a", "ends before the value does"),
    "a record that is in itself": (
        {"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}] * 1},
        b"",
        "inside more than 127 records",
    ),
}


@pytest.mark.parametrize(("schema", "payload", "message"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_payloads_are_refused(schema, payload, message):
    text = objection(schema, payload)
    assert message in text
    assert len(text) < 400


@pytest.mark.system
def test_why_fastavro_alone_would_not_do():
    """Its decoder ends the process: when it does not any more, a reason for ours has gone."""
    code = (
        "import fastavro, io; fastavro.schemaless_reader(io.BytesIO(b'\\2' * 1000000 + b'\\0'), "
        f"fastavro.parse_schema({LIST!r}))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, timeout=60
    )
    assert ended.returncode < 0

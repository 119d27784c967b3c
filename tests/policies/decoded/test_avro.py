"""Values of Avro as Python's, with logical types."""

import datetime as dt
import json
from decimal import Decimal
from uuid import UUID

import pytest

from penstock.policies.decoded.avro import plain_values
from penstock.policies.decoded.errors import NotDecodedError
from penstock.policies.decoded.floats import Single
from penstock.policies.decoded.unclear import UNCLEAR
from penstock.policies.schema_policy.payloads.compiled import SchemaSource

UTC = dt.UTC


def plain(kind, value):
    """Return the plain value of a field of a type."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}
    return plain_values(SchemaSource("AVRO", json.dumps(schema)))({"a": value})["a"]


def logical(kind, name, **more):
    return {"type": kind, "logicalType": name, **more}


FIXED = {"type": "fixed", "name": "F", "size": 16}
TWO = [{"type": "record", "name": name, "fields": [{"name": "b", "type": "long"}]} for name in "XY"]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("long", 5, 5),
        (["null", "string"], None, None),
        (logical("int", "date"), -1, dt.date(1969, 12, 31)),
        (logical("long", "timestamp-millis"), -1, dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)),
        (logical("long", "timestamp-micros"), 1, dt.datetime(1970, 1, 1, 0, 0, 0, 1, UTC)),
        (logical("long", "timestamp-nanos"), 1999, dt.datetime(1970, 1, 1, 0, 0, 0, 1, UTC)),
        (logical("long", "local-timestamp-millis"), 0, dt.datetime.fromisoformat("1970-01-01")),
        (logical("bytes", "decimal", precision=8, scale=2), b"\x04\xd2", Decimal("12.34")),
        (logical("bytes", "decimal", precision=8), b"\xff", Decimal(-1)),
        (logical("bytes", "decimal", precision=38), (10**37 + 1).to_bytes(16), Decimal(10**37 + 1)),
        (logical("bytes", "decimal", precision=4, scale=-1), b"\x05", b"\x05"),
        (logical("bytes", "decimal", precision=4, scale=9), b"\x05", b"\x05"),
        (logical("bytes", "decimal", precision=4, scale=10**30), b"\x05", b"\x05"),
        (logical("bytes", "decimal", scale=2), b"\x05", b"\x05"),
        (logical("bytes", "decimal", precision=0), b"\x05", b"\x05"),
        (logical("bytes", "decimal", precision=True, scale=True), b"\x05", b"\x05"),
        (logical("long", ["x"]), 5, 5),
        (logical("int", {"x": 1}), 5, 5),
        ("float", 0.10000000149011612, Single(0.10000000149011612)),
        ("double", 0.1, 0.1),
        (["null", "double", logical("long", "timestamp-millis")], 0, dt.datetime(1970, 1, 1, tzinfo=UTC)),
        (["null", "double", logical("long", "timestamp-millis")], 0.5, 0.5),
        (["string", "long", logical("int", "date")], "x", "x"),
        (["string", "long", "int"], 5, 5),
        ({**FIXED, "logicalType": "uuid"}, bytes(range(16)), str(UUID(bytes=bytes(range(16))))),
        (logical("string", "uuid"), "x", "x"),
        (logical("int", "time-millis"), 5, 5),
        (logical("string", "date"), "x", "x"),
        (["null", logical("int", "date")], 0, dt.date(1970, 1, 1)),
        ({"type": "array", "items": logical("int", "date")}, [0], [dt.date(1970, 1, 1)]),
        (["null", *TWO], ("Y", {"b": 1}), {"b": 1}),
    ],
)  # fmt: skip
def test_values(kind, value, expected):
    found = plain(kind, value)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ([logical("int", "date"), "long"], 5),
        (["int", logical("long", "timestamp-millis")], 5),
        ([logical("bytes", "decimal", precision=4, scale=2), FIXED], bytes(16)),
        (["bytes", {**FIXED, "logicalType": "decimal", "precision": 4}], bytes(16)),
        (["null", {"type": "map", "values": "long"},
          {**TWO[0], "fields": [{"name": "b", "type": logical("int", "date")}]}], {"b": 5}),
    ],
)  # fmt: skip
def test_values_that_do_not_show_their_branch(kind, value):
    assert plain(kind, value) is UNCLEAR


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (logical("int", "date"), 2**31 - 1, "has a date that is not between the years 1 and 9999"),
        (logical("long", "timestamp-millis"), 2**63 - 1,
         "has a timestamp that is not between the years 1 and 9999"),
        (logical("bytes", "decimal", precision=8), b"\1" * 65, "has a decimal that is too large"),
    ],
)  # fmt: skip
def test_values_that_python_does_not_have(kind, value, text):
    with pytest.raises(NotDecodedError) as raised:
        plain(kind, value)
    assert str(raised.value) == text

"""Rules of data contracts, and values: the cases for Confluent's client for Python and for
Penstock.

Imported in two environments: nothing of Penstock and nothing of Confluent's is imported here.
"""

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final, NamedTuple

from google.protobuf import descriptor_pb2

KINDS: Final = descriptor_pb2.FieldDescriptorProto
AT: Final = dt.datetime(2026, 3, 1, 12, 30, 15, 250_000, dt.UTC)


class Case(NamedTuple):
    """A schema with rules, and a value.

    Attributes:
        name: `FORMAT/KIND/EXPRESSION/VALUE`.
        format: `AVRO`, `JSON` or `PROTOBUF`.
        rules: `ruleSet.domainRules`.
        within: A rule within the schema: its place (`record` or `email`) and its expression.
        value: For Protobuf, the fields of the message.
    """

    name: str
    format: str
    rules: tuple[dict[str, Any], ...]
    within: tuple[str, str] | None
    value: dict[str, Any]


_BASE: Final = {
    "id": 4711,
    "name": "Ann",
    "email": "ann@example.com",
    "price": 10.5,
    "flag": True,
    "tags": ["new", "sale"],
    "counts": {"a": 1, "b": 2},
    "inner": {"code": "ab12", "n": 7},
    "items": [{"sku": "x-1", "price": 1.5, "count": 2}, {"sku": "x-2", "price": 2.5, "count": 1}],
    "kind": "A",
}
_OTHER: Final = {
    "id": -3,
    "name": "Zoë Ångström",
    "email": "not an address",
    "price": -0.25,
    "flag": False,
    "tags": [],
    "counts": {},
    "inner": {"code": "", "n": 0},
    "items": [],
    "kind": "B",
}
_LARGE: Final = {
    **_BASE,
    "id": 2**62,
    "name": "x" * 300,
    "email": "192.168.0.1",
    "price": 1e300,
    "tags": ["a"] * 50,
    "counts": {f"key{n}": n for n in range(40)},
    "items": [{"sku": f"s{n}", "price": n + 0.0, "count": n} for n in range(30)],
}
_ODD: Final = {
    **_BASE,
    "id": 0,
    "name": "line one\nline two",
    "email": "2001:db8::1",
    "price": 0.0,
    "tags": ["", "a b", "new"],
    "inner": {"code": "AB12", "n": -1},
}
_HIDDEN: Final = {**_BASE, "email": "a@b.co\0<script>", "name": "DROP\0"}
VALUES: Final = {"base": _BASE, "other": _OTHER, "large": _LARGE, "odd": _ODD, "hidden": _HIDDEN}

_WHOLE: Final = (
    "message.id > 0",
    "message.id > 0.5",
    "message.id == 4711",
    "message.id != 4711 || message.flag",
    "message.id + 1 > 0",
    "message.id * 4 > 0",
    "message.id - 5 < 0",
    "message.id / 2 >= 0",
    "message.id % 2 == 1",
    "message.id / message.inner.n == 673",
    "-message.id < 0",
    "message.price > 1.0",
    "message.price > 1",
    "message.price * 2.0 < 100.0",
    "message.price / 0.0 > 1.0",
    "message.flag",
    "!message.flag",
    "message.flag && message.id > 0",
    "message.flag || message.nothing > 0",
    "message.flag ? message.id > 0 : message.id < 0",
    "message.nothing == 1",
    "has(message.nothing)",
    "has(message.name)",
    "has(message.name) && message.name != ''",
    "message.name == 'Ann'",
    "message.name != 'Ann'",
    "message.name < 'B'",
    "message.name >= 'Z'",
    "size(message.name) <= 20",
    "message.name.size() > 3",
    "message.name.startsWith('A')",
    "message.name.endsWith('n')",
    "message.name.contains('n')",
    "!message.name.contains('DROP')",
    "message.name.matches('^[A-Z][a-z]+$')",
    "message.name.matches('n')",
    "message.name.matches('line.*two')",
    r"message.name.matches('\\w+\\s\\w+')",
    "message.name.matches('(?i)^ann$')",
    "message.name.matches('^(Ann|Bob)$')",
    "matches(message.name, '^A')",
    "message.name + '!' == 'Ann!'",
    "message.name in ['Ann', 'Bob']",
    "message.email.isEmail()",
    "!message.email.isEmail()",
    "message.email.isHostname()",
    "message.email.isIpv4()",
    "message.email.isIpv6()",
    "message.email.isUri()",
    "message.email.isUriRef()",
    "message.email.isUuid()",
    "'123e4567-e89b-12d3-a456-426614174000'.isUuid() && message.flag",
    "'https://example.com/a'.isUri() && 'example.com'.isHostname() && message.id > 0",
    "size(message.email) <= 6",
    "message.email.matches('^[^@]+@[^@]+$')",
    "message.tags == []",
    "message.tags.size() > 1",
    "size(message.tags) == 2",
    "'new' in message.tags",
    "message.tags[0] == 'new'",
    "message.tags[1] == 'sale'",
    "message.tags.all(t, t != '')",
    "message.tags.exists(t, t == 'sale')",
    "message.tags.exists_one(t, t == 'new')",
    "message.tags.filter(t, size(t) > 3) == ['sale']",
    "message.tags.map(t, t + '!')[0] == 'new!'",
    "message.tags.map(t, size(t) > 3, t).size() == 1",
    "message.tags + ['x'] == ['new', 'sale', 'x']",
    "'a' in message.counts",
    "message.counts['a'] == 1",
    "message.counts.a == 1",
    "has(message.counts.a)",
    "message.counts.size() < 10",
    "message.counts.all(k, message.counts[k] >= 1)",
    "message.counts.exists(k, k == 'key7')",
    "message.inner.n > 0",
    "message.inner.code.matches('^[a-z0-9]*$')",
    "has(message.inner) && has(message.inner.code)",
    "message.items.all(i, i.count > 0)",
    "message.items.all(i, i.price > 0.5 && i.sku.startsWith('x'))",
    "message.items.exists(i, i.sku == 'x-2')",
    "message.items.exists(i, i.price > message.price)",
    "message.items.map(i, i.count) == [2, 1]",
    "message.items.filter(i, i.count > 1)[0].sku == 'x-1'",
    "message.items.all(i, message.items.exists(j, j.count <= i.count))",
    "message.items[0].price + message.items[1].price == 4.0",
    "string(message.id) == '4711'",
    "string(message.flag) == 'true'",
    "int('12') < message.id",
    "int(message.price) == 10",
    "int(message.inner.code) == 12",
    "double(message.id) > 1.5",
    "uint(message.id) > 1u",
    "bytes(message.name) == b'Ann'",
    "duration('1h') > duration('59m') && message.flag",
    "duration(string(message.id) + 's') > duration('1h')",
    "timestamp('2026-01-01T00:00:00Z') < now",
    "now - timestamp('2020-01-01T00:00:00Z') > duration('24h') && message.flag",
    "timestamp('2026-01-01T10:00:00Z').getHours() == 10 || message.flag",
    "timestamp(message.id) > timestamp('1970-01-01T00:00:00Z')",
    "timestamp(message.id, 3) < timestamp('2026-01-01T00:00:00Z')",
    "decimals.gt(decimal(message.id), decimal('10'))",
    "decimals.eq(decimals.mul(decimal(message.price), decimal('2')), decimal('21'))",
    "string(decimals.round(decimal('2.345'), 2)) == '2.35' && message.flag",
    "decimals.le(decimal(message.name), decimal('5'))",
    "message == message",
    "true",
    "false",
    "null",
    "message.flag == true ; message.id > 0",
    "message.nothing == 1 ; message.id > 0",
    "; message.id > 0",
)
_OF_AVRO: Final = (
    "message.name == null || message.name != ''",
    "message.kind == 'A'",
    "message.data == b'a\\x00b'",
    "size(message.data) == 3",
    "message.at > timestamp('2020-01-01T00:00:00Z')",
    "message.at < now",
    "message.at == timestamp('2026-03-01T12:30:15.250Z')",
    "message.at.getFullYear() == 2026 && message.at.getMilliseconds() == 250",
    "message.at + duration('1h') > message.at",
    "message.at > 0",
    "timestamp(message.at) == message.at",
    "decimals.gt(decimal(message.amount), decimal('10'))",
    "decimals.eq(message.amount, decimal('12.34'))",
    "message.amount == decimal('12.34')",
    "string(decimal(message.amount)) == '12.34'",
    "double(decimal(message.amount)) > 12.0",
    "message.day == 20513",
    "message.day > 20000",
)
_OF_JSON: Final = (
    "message.kind == 'A'",
    "message.kind in ['A', 'B']",
    "message.name == null",
    "message['inner']['code'] == 'ab12'",
    "message.extra == 1",
    "'id' in message",
)
_OF_PROTOBUF: Final = (
    "message.kind == 0",
    "message.kind == 1",
    "message.data == b'a\\x00b'",
    "message.count == 5u",
    "message.count > 1u",
    "message.count > 1",
    "message.at > timestamp('2020-01-01T00:00:00Z')",
    "message.at.getSeconds() == 15",
    "has(message.at)",
    "has(message.inner)",
    "has(message.id)",
    "!has(message.kind)",
)
_FIELDS: Final = (
    ("PII", "value != ''"),
    ("PII", "size(value) < 20"),
    ("PII", "value.isEmail()"),
    ("PII", "name == 'email' ; value.isEmail()"),
    ("PII", "name == 'code' ; value.matches('^[a-z0-9]+$')"),
    ("PII", "typeName == 'STRING'"),
    ("PII", "'PII' in tags"),
    ("PII", "size(tags) == 1"),
    ("PII", "name == 'email' ; message.id > 0"),
    ("PII", "name == 'email' ; message.email == value"),
    ("PII", "name == 'email' ; message.flag"),
    ("PII", "fullName.endsWith(name)"),
    ("PII", "value.matches('@')"),
    ("PII", "value.contains('script') == false"),
    ("PII", "value > 5"),
    ("PII", "value.nothing == 1"),
    ("ID", "value > 0"),
    ("ID", "value > 0 && typeName == 'LONG'"),
    ("PRICE", "value > 0.0"),
    ("PRICE", "value < 1.0 || value > 2.0"),
    ("LIST", "value != ''"),
    ("NONE", "false"),
    (None, "typeName != 'STRING' || size(value) < 50"),
    (None, "typeName != 'BOOLEAN' || value"),
)
_OF_ONE_VALUE: Final = (
    "type(message.id) == int && type(message.price) == double",
    "type(message.flag) == bool && type(message.name) == string",
    "1",
    "'text'",
    "message.name",
)
"""Where the answer is the same for each value."""
_FIELDS_OF_ONE_VALUE: Final = (("LIST", "size(value) < 2"), ("MAP", "value > 1"))
_WITHIN: Final = (
    ("record", "this.id > 0"),
    ("record", "this.flag ? '' : 'the flag is down'"),
    ("record", "this.price * 2.0 > 1.0 && size(this.tags) < 10"),
    ("record", "this.items.all(i, i.count > 0)"),
    ("record", "this.nothing == 1"),
    ("record", "has(this.name)"),
    ("record", "this.id"),
    ("email", "this.isEmail()"),
    ("email", "size(this) <= 15 ? '' : 'too long'"),
    ("email", "this.matches('^[^<>]+$')"),
    ("email", "this.contains('@')"),
    ("email", "this > 5"),
    ("email", "''"),
    ("email", "'always wrong'"),
)
_SETS: Final = {
    "onFailure NONE": ({"onFailure": "NONE"},),
    "onFailure NONE,ERROR": ({"onFailure": "NONE,ERROR"},),
    "WRITEREAD NONE,ERROR": ({"mode": "WRITEREAD", "onFailure": "NONE,ERROR"},),
    "WRITEREAD ERROR,NONE": ({"mode": "WRITEREAD", "onFailure": "ERROR,NONE"},),
    "onFailure OTHER": ({"onFailure": "OTHER"},),
    "onFailure none": ({"onFailure": "none"},),
    "onFailure empty": ({"onFailure": ""},),
    "onSuccess NONE": ({"onSuccess": "NONE"},),
    "disabled": ({"disabled": True},),
    "READ": ({"mode": "READ"},),
    "UPGRADE": ({"mode": "UPGRADE"},),
    "type SQL": ({"type": "SQL"},),
    "type SQL, onFailure NONE": ({"type": "SQL", "onFailure": "NONE"},),
    "type SQL, disabled": ({"type": "SQL", "disabled": True},),
    "type cel": ({"type": "cel"},),
    "two": ({"expr": "message.id > 0"}, {"expr": "message.flag"}),
    "one that fails and may": ({"onFailure": "NONE"}, {"expr": "message.flag"}),
    "tags of CEL": ({"tags": ["NONE"]},),
}


def cases() -> Iterator[Case]:
    """Yield all cases."""
    for kind, more in (("AVRO", _OF_AVRO), ("JSON", _OF_JSON), ("PROTOBUF", _OF_PROTOBUF)):
        for title, value in VALUES.items():
            values = _of_format(kind, value)
            is_base = title == "base"
            for text in (*_WHOLE, *more, *(_OF_ONE_VALUE if is_base else ())):
                yield Case(f"{kind}/CEL/{text}/{title}", kind, (_rule(text),), None, values)
            for tag, text in (*_FIELDS, *(_FIELDS_OF_ONE_VALUE if is_base else ())):
                rule = _rule(text, type="CEL_FIELD", tags=[tag] if tag else None)
                name = f"{kind}/CEL_FIELD/{tag} {text}/{title}"
                yield Case(name, kind, (rule,), None, values)
            for place, text in _WITHIN:
                name = f"{kind}/within/{place} {text}/{title}"
                yield Case(name, kind, (), (place, text), values)
            for name, set_ in _SETS.items():
                rules = tuple(
                    _rule("message.id > 4000", name=f"r{n}", **fields)
                    if "expr" not in fields
                    else _rule(fields["expr"], name=f"r{n}")
                    for n, fields in enumerate(set_)
                )
                yield Case(f"{kind}/set/{name}/{title}", kind, rules, None, values)


def _rule(text: str, **more: Any) -> dict[str, Any]:
    made = {"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": text}
    return {**made, **more}


def _of_format(kind: str, value: dict[str, Any]) -> dict[str, Any]:
    number = value["id"]
    if kind == "AVRO":
        return {
            **value,
            "name": value["name"] if number != 0 else None,
            "data": b"a\0b" if value["flag"] else b"",
            "at": AT if value["flag"] else dt.datetime(1960, 1, 1, tzinfo=dt.UTC),
            "amount": Decimal("12.34") if value["flag"] else Decimal("-0.50"),
            "day": dt.date(2026, 3, 1),
        }
    if kind == "PROTOBUF":
        return {
            **value,
            "kind": "AB".index(value["kind"]),
            "data": b"a\0b" if value["flag"] else b"",
            "count": 5 if value["flag"] else 0,
            "at": {"seconds": 1_772_368_215} if value["flag"] else None,
        }
    return {**value, "name": value["name"] if number != 0 else None, "extra": 1}


def avro_schema(within: tuple[str, str] | None) -> str:
    """Return the schema of the values in Avro."""

    def field(name: str, kind: Any, tag: str = "") -> dict[str, Any]:
        made = {"name": name, "type": kind}
        if tag:
            made["confluent:tags"] = [tag]
        if within and within[0] == name:
            made["confluent:rules"] = [{"name": "w", "expr": within[1]}]
        return made

    def record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
        return {"type": "record", "name": name, "fields": list(fields)}

    made = record(
        "Order",
        field("id", "long", "ID"),
        field("name", ["null", "string"]),
        field("email", "string", "PII"),
        field("price", "double", "PRICE"),
        field("flag", "boolean"),
        field("data", "bytes"),
        field("tags", {"type": "array", "items": "string"}, "LIST"),
        field("counts", {"type": "map", "values": "long"}, "MAP"),
        field("inner", record("Inner", field("code", "string", "PII"), field("n", "long"))),
        field(
            "items",
            {
                "type": "array",
                "items": record(
                    "Item", field("sku", "string"), field("price", "double"), field("count", "int")
                ),
            },
        ),
        field("kind", {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}),
        field("at", {"type": "long", "logicalType": "timestamp-millis"}),
        field("amount", {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}),
        field("day", {"type": "int", "logicalType": "date"}),
    )
    if within and within[0] == "record":
        made["confluent:rules"] = [{"name": "w", "expr": within[1]}]
    return json.dumps(made)


def json_schema(within: tuple[str, str] | None) -> str:
    """Return the schema of the values in JSON."""
    text, number, integer = {"type": "string"}, {"type": "number"}, {"type": "integer"}
    inner = {
        "type": "object",
        "properties": {"code": {**text, "confluent:tags": ["PII"]}, "n": integer},
    }
    item = {"type": "object", "properties": {"sku": text, "price": number, "count": integer}}
    properties: dict[str, Any] = {
        "id": {**integer, "confluent:tags": ["ID"]},
        "name": {"oneOf": [{"type": "null"}, text]},
        "email": {**text, "confluent:tags": ["PII"]},
        "price": {**number, "confluent:tags": ["PRICE"]},
        "flag": {"type": "boolean"},
        "tags": {"type": "array", "items": text, "confluent:tags": ["LIST"]},
        "counts": {
            "type": "object",
            "additionalProperties": integer,
            "confluent:tags": ["MAP"],
        },
        "inner": inner,
        "items": {"type": "array", "items": item},
        "kind": {"type": "string", "enum": ["A", "B"]},
        "extra": integer,
    }
    made: dict[str, Any] = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Order",
        "type": "object",
        "properties": properties,
    }
    if within:
        target = made if within[0] == "record" else properties[within[0]]
        target["confluent:rules"] = [{"name": "w", "expr": within[1]}]
    return json.dumps(made)


def protobuf_file(within: tuple[str, str] | None, name: str) -> Any:
    """Return the file of the message `NAME.Order`."""
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{name}.proto", package=name, syntax="proto3",
        dependency=["google/protobuf/timestamp.proto"],
    )  # fmt: skip
    order = file.message_type.add(name="Order")
    inner = file.message_type.add(name="Inner")
    item = file.message_type.add(name="Item")
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="A", number=0)
    kind.value.add(name="B", number=1)
    rule = b"" if within is None else _meta(rule=within[1])

    def add(to: Any, number: int, title: str, of: Any, tag: str = "", **more: Any) -> None:
        made = to.field.add(name=title, number=number, label=more.pop("label", 1))
        if isinstance(of, str):
            made.type = KINDS.TYPE_ENUM if of.endswith("Kind") else KINDS.TYPE_MESSAGE
            made.type_name = of
        else:
            made.type = of
        if tag:
            made.options.MergeFromString(_meta(tag=tag))
        if within and within[0] == title and to is order:
            made.options.MergeFromString(rule)

    add(order, 1, "id", KINDS.TYPE_INT64, "ID")
    add(order, 2, "name", KINDS.TYPE_STRING)
    add(order, 3, "email", KINDS.TYPE_STRING, "PII")
    add(order, 4, "price", KINDS.TYPE_DOUBLE, "PRICE")
    add(order, 5, "flag", KINDS.TYPE_BOOL)
    add(order, 6, "data", KINDS.TYPE_BYTES)
    add(order, 7, "tags", KINDS.TYPE_STRING, "LIST", label=3)
    add(order, 8, "counts", f".{name}.Order.CountsEntry", "MAP", label=3)
    add(order, 9, "inner", f".{name}.Inner")
    add(order, 10, "items", f".{name}.Item", label=3)
    add(order, 11, "kind", f".{name}.Kind")
    add(order, 12, "at", ".google.protobuf.Timestamp")
    add(order, 13, "count", KINDS.TYPE_UINT32)
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    add(entry, 1, "key", KINDS.TYPE_STRING)
    add(entry, 2, "value", KINDS.TYPE_INT64)
    add(inner, 1, "code", KINDS.TYPE_STRING, "PII")
    add(inner, 2, "n", KINDS.TYPE_INT64)
    add(item, 1, "sku", KINDS.TYPE_STRING)
    add(item, 2, "price", KINDS.TYPE_DOUBLE)
    add(item, 3, "count", KINDS.TYPE_INT32)
    if within and within[0] == "record":
        order.options.MergeFromString(rule)
    return file


def _meta(tag: str = "", rule: str = "") -> bytes:
    """Return an option `confluent.field_meta` or `confluent.message_meta`, numbered 1088."""
    body = b"\x1a" + _sized(tag.encode()) if tag else b""
    if rule:
        body += b"\x22" + _sized(b"\x0a\x01w" + b"\x1a" + _sized(rule.encode()))
    return b"\x82\x44" + _sized(body)


def _sized(data: bytes) -> bytes:
    assert len(data) < 128
    return bytes([len(data)]) + data

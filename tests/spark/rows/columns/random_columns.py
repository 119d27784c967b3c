"""Random columns of all types that are judged, and random schemas about them."""

import datetime as dt
import json
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

_NAMES: Final = ["a", "b", "c d"]
_TEXTS: Final = [
    "", "a", "EUR", "c1", "C-9", "ü", "\U0001f600x", "a\nb", 'q"\\', "12", "2024-02-29", "zz-1",
    "\x00", "\ufffd", "AA==", "e\u0301", "\u2028",
]  # fmt: skip
_NUMBERS: Final = [
    0, 1, -1, 5, 18, 2**53, 2**53 + 1, -(2**63), 2**63 - 1, 2**63, 2**64, 0.5, 1.5, 0.1, 1e300,
    -1e-300, 9000, 12.34, 0.001, 1e15 + 0.5, 123456789.12, 99999, 10**17 + 1, 1e-10,
]  # fmt: skip
_PATTERNS: Final = [
    "^c", "^[A-Z]{3}$", r"^\d+$", "b$", r"\w-", "[^a]", r"\+", "^[a-z0-9-]+$", "^EUR", "(a|b)", ".",
    r"^\d{4}-\d{2}-\d{2}$", "^(EUR|a.b|c1)$", "(a|$)", "(?:c|^)[0-9]", "((a{9}){99}){99}|x", "(^a|2)+$",
]  # fmt: skip
_WORDS: Final = [
    "type", "type", "const", "enum", "limit", "limit", "length", "pattern", "multipleOf", "count",
]  # fmt: skip
_OUTER_WORDS: Final = [
    *_WORDS, "items", "properties", "properties", "additionalProperties", "allOf", "anyOf", "oneOf",
    "not", "if", "$ref",
]  # fmt: skip
_SCALARS: Final[list[tuple[pa.DataType, list[Any]]]] = [
    (pa.int8(), [0, 1, -1, 5, 18, 127, -128]),
    (pa.int32(), [0, 1, -1, 5, 18, 9000, 2**31 - 1]),
    (pa.int64(), [0, 1, -1, 5, 18, 2**53, 2**53 + 1, -(2**63), 2**63 - 1]),
    (
        pa.float64(),
        [0.0, -0.0, 1.0, 5.0, 0.5, 0.1, 12.34, 1e300, float("nan"), float("inf"), float("-inf"),
         -1.5, 2.0**53, 1e-300, 123456789.12, 1e15 + 0.5],
    ),
    (
        pa.decimal128(12, 2),
        [Decimal(n).scaleb(-2) for n in (0, 1, 10, 50, 1234, -150, 900000, 10**11)],
    ),
    (
        pa.decimal128(38, 10),
        [Decimal(n).scaleb(-10) for n in (0, 1, 10**9, 5 * 10**9, 10**10, -(10**10), 10**17 + 1, 10**27)],
    ),
    (pa.decimal128(20, 0), [Decimal(n) for n in (0, 1, 5, 18, -1, 2**63, 10**19)]),
    (pa.string(), _TEXTS),
    (pa.binary(), [b"", b"\x00", b"\xff\xfe", b"text"]),
    (
        pa.date32(),
        [dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1582, 1, 1),
         dt.date(2024, 7, 1)],
    ),
    (
        pa.timestamp("us", "Europe/Berlin"),
        [dt.datetime(2024, 7, 1, 12, 34, 56, 123456, tzinfo=dt.UTC), dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)],
    ),
    (pa.timestamp("us"), [-62_135_510_400_000_000, 253_402_131_723_000_000]),
    (pa.bool_(), [True, False]),
]  # fmt: skip


def columns(rng, rows=25):
    """Return rows of random columns; often a slice of others."""
    kind = pa.struct(
        [(name, _type(rng, 0)) for name in rng.sample([*_NAMES, "x"], rng.randint(1, 4))]
    )
    values = [{field.name: _value(rng, field.type) for field in kind} for _ in range(rows)]
    array = pa.array(values, kind)
    return array.slice(3) if rng.random() < 0.5 else array


def schema(rng):
    """Return a random schema of objects."""
    made = _schema(rng, 0)
    if isinstance(made, bool):
        made = {"properties": {"a": made}}
    if rng.random() < 0.7:
        for word in ("type", "enum", "const"):
            made.pop(word, None)
    return {**made, "$defs": {"one": _schema(rng, 9)}}


def _type(rng, depth):
    choice = rng.random()
    if depth > 1 or choice < 0.75:
        return rng.choice(_SCALARS)[0]
    if choice < 0.85:
        return pa.list_(_type(rng, depth + 1))
    if choice < 0.92:
        return pa.map_(rng.choice([pa.string(), pa.int32()]), _type(rng, depth + 1))
    return pa.struct([(name, _type(rng, depth + 1)) for name in rng.sample(_NAMES, 2)])


def _value(rng, kind):
    if rng.random() < 0.15:
        return None
    if pa.types.is_list(kind):
        return [_value(rng, kind.value_type) for _ in range(rng.randint(0, 3))]
    if pa.types.is_map(kind):
        names = ["a", "b", "é"] if pa.types.is_string(kind.key_type) else [1, -2, 3]
        return [
            (name, _value(rng, kind.item_type)) for name in rng.sample(names, rng.randint(0, 3))
        ]
    if pa.types.is_struct(kind):
        return {field.name: _value(rng, field.type) for field in kind}
    return rng.choice(next(values for own, values in _SCALARS if own == kind))


def _schema(rng, depth):
    if rng.random() < 0.04:
        return rng.random() < 0.7
    made: dict[str, Any] = {}
    for _ in range(rng.randint(1, 3)):
        made |= _word(rng, rng.choice(_WORDS if depth > 3 else _OUTER_WORDS), depth + 1)
    return made


def _word(rng, word, depth):
    constant = lambda: rng.choice([rng.choice(_TEXTS), rng.choice(_NUMBERS), None, True])  # noqa: E731
    if word == "type":
        return {"type": rng.choice(
            ["null", "boolean", "string", "number", "integer", "array", "object", ["string", "null"],
             ["number", "null"], ["integer", "null"], ["array", "object", "null"]])}  # fmt: skip
    if word == "const":
        return {"const": rng.choice([constant(), [], {}])}
    if word == "enum":
        constants = [constant() for _ in range(rng.randint(1, 7))]
        return {"enum": list({json.dumps(each): each for each in constants}.values())}
    if word == "limit":
        limits = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]
        return {rng.choice(limits): rng.choice(_NUMBERS)}
    if word in {"length", "count"}:
        kind = "Length" if word == "length" else "Items"
        return {rng.choice(["min", "max"]) + kind: rng.randint(0, 4)}
    if word == "pattern":
        return {"pattern": rng.choice(_PATTERNS)}
    if word == "multipleOf":
        return {"multipleOf": rng.choice([2, 5, 0.5, 3])}
    if word == "$ref":
        return {"$ref": "#/$defs/one"}
    if word == "properties":
        names = rng.sample([*_NAMES, "x", "y"], 2)
        inner = {"properties": {name: _schema(rng, depth) for name in names}}
        return inner | (
            {"required": rng.sample(["a", "b", "x", "y"], 1)} if rng.random() < 0.5 else {}
        )
    if word in {"allOf", "anyOf", "oneOf"}:
        return {word: [_schema(rng, depth) for _ in range(rng.randint(1, 3))]}
    if word == "if":
        return {each: _schema(rng, depth) for each in ("if", "then", "else")}
    return {word: _schema(rng, depth)}

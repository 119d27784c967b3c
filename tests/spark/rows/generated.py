"""Generated rows of all kinds of columns, and the JSON that their values have to be."""

import base64
import datetime as dt
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

SCHEMA: Final = (
    "id bigint, amount decimal(12,2), ratio double, currency string, day date, at timestamp, "
    "raw binary, ok boolean, customer struct<email: string, age: int, since: date>, "
    "tags array<string>, counts map<string, int>, "
    "lines array<struct<sku: string, price: decimal(8,3), at: timestamp, raw: binary>>"
)
RULES: Final = {
    "positive": "value.amount > 0",
    "known": "value.currency in ['EUR', 'USD']",
    "adult": "value.customer.age >= 18",
    "recent": "value.day >= '2023-08-01' && timestamp(value.at) > timestamp('2023-12-15T00:00:00Z')",
    "priced": "value.lines.all(line, line.price > -1.5)",
    "counted": "!has(value.counts.a) || value.counts.a != 3",
    "tagged": "value.tags == null || size(value.tags) < 4",
    "raw": "value.raw != 'AA=='",
}
JSON_SCHEMA: Final = {
    "type": "object",
    "required": ["id", "amount", "customer"],
    "properties": {
        "amount": {"type": ["number", "null"], "maximum": 9000},
        "ratio": {"type": ["number", "null"]},
        "ok": {"type": "boolean"},
        "customer": {"type": ["object", "null"], "properties": {"email": {"pattern": "@"}}},
        "lines": {"type": ["array", "null"], "items": {"required": ["sku"], "type": "object"}},
    },
}


def rows(count: int, seed: int) -> list[tuple[Any, ...]]:
    """Return generated rows of `SCHEMA`."""
    generator = random.Random(seed)
    return [_row(generator, number) for number in range(count)]


def some_of(rng: random.Random, nulls: float) -> Callable[[Callable[[], Any]], Any]:
    """Return what makes values, and null with some probability."""
    return lambda make: None if rng.random() < nulls else make()


def _row(rng: random.Random, number: int) -> tuple[Any, ...]:
    some = some_of(rng, 0.04)

    def decimal(digits: int, scale: int) -> Decimal:
        return Decimal(rng.randint(-(10**digits) // 4, 10**digits)).scaleb(-scale)

    def day() -> dt.date:
        return dt.date(2023, 6, 1) + dt.timedelta(days=rng.randint(0, 400))

    def at() -> dt.datetime:
        start = dt.datetime(2023, 12, 1, tzinfo=dt.UTC)
        return start + dt.timedelta(milliseconds=rng.randint(0, 10**10))

    def raw() -> bytes:
        return rng.choice([*[b"", b"\xff\xfe\x00"] * 9, b"\x00", b"text"])

    def line() -> tuple[Any, ...]:
        return (
            some(lambda: rng.choice(["a", "ü"])),
            some(lambda: decimal(4, 3)),
            some(at),
            some(raw),
        )

    return (
        some(lambda: rng.choice([number, -number, 2**63 - 1, -(2**63)])),
        some(lambda: decimal(6, 2)),
        some(lambda: rng.choice([0.1, -1.5, 1e300, 1e-300, float("nan"), float("-inf"), 0.0])),
        some(lambda: rng.choice([*["EUR", "USD"] * 8, "", 'e\u0301"\\\n\u2028', "\U0001f600"])),
        some(day),
        some(at),
        some(raw),
        some(lambda: rng.random() < 0.5),
        some(lambda: (some(lambda: rng.choice([*["a@b"] * 9, "none"])), some(lambda: rng.randint(10, 60)),
                      some(day))),
        some(lambda: [some(lambda: rng.choice("xyz")) for _ in range(rng.randint(0, 4))]),
        some(lambda: {key: some(lambda: rng.randint(0, 4)) for key in rng.sample("abc", 2)}),
        some(lambda: [line() for _ in range(rng.randint(0, 3))]),
    )  # fmt: skip


_CUSTOMER: Final = ("email", "age", "since")
_LINE: Final = ("sku", "price", "at", "raw")
COLUMNS: Final = (
    "id", "amount", "ratio", "currency", "day", "at", "raw", "ok", "customer", "tags", "counts",
    "lines",
)  # fmt: skip


def as_value(row: tuple[Any, ...]) -> dict[str, Any]:
    """Return the JSON of a row, as `json.loads` reads it with decimals for fractions."""
    value = dict(zip(COLUMNS, map(_plain, row), strict=True))
    if row[8] is not None:
        value["customer"] = dict(zip(_CUSTOMER, map(_plain, row[8]), strict=True))
    if row[11] is not None:
        value["lines"] = [dict(zip(_LINE, map(_plain, line), strict=True)) for line in row[11]]
    return value


def _plain(part: Any) -> Any:
    if isinstance(part, dt.datetime):
        return part.astimezone(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(part, dt.date):
        return part.isoformat()
    if isinstance(part, bytes):
        return base64.b64encode(part).decode()
    if isinstance(part, float):
        infinite = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
        return infinite.get(repr(part)) or Decimal(repr(part))
    return part


_ARROW: Final = pa.struct(
    [
        ("id", pa.int64()), ("amount", pa.decimal128(12, 2)), ("ratio", pa.float64()),
        ("currency", pa.string()), ("day", pa.date32()), ("at", pa.timestamp("us", "UTC")),
        ("raw", pa.binary()), ("ok", pa.bool_()),
        ("customer", pa.struct([("email", pa.string()), ("age", pa.int32()), ("since", pa.date32())])),
        ("tags", pa.list_(pa.string())), ("counts", pa.map_(pa.string(), pa.int32())),
        ("lines", pa.list_(pa.struct([("sku", pa.string()), ("price", pa.decimal128(8, 3)),
                                      ("at", pa.timestamp("us", "UTC")), ("raw", pa.binary())]))),
    ]
)  # fmt: skip


def as_arrow(all_rows: list[tuple[Any, ...]]) -> pa.StructArray:
    """Return rows as Spark hands them to Python."""

    def fields(row: tuple[Any, ...]) -> dict[str, Any]:
        parts = dict(zip(COLUMNS, row, strict=True))
        customer, counts, lines = (parts[name] for name in ("customer", "counts", "lines"))
        parts["customer"] = customer and dict(zip(_CUSTOMER, customer, strict=True))
        parts["counts"] = None if counts is None else list(counts.items())
        parts["lines"] = lines and [dict(zip(_LINE, line, strict=True)) for line in lines]
        return parts

    return pa.array(map(fields, all_rows), _ARROW)

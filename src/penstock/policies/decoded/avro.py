"""Values of Avro as Python's: without the names of branches, and with logical types.

A time of day is the number that represents it, and a duration its bytes. Nanoseconds are cut to
microseconds: no type of Spark's has them. A value of a union that does not show its type is
`UNCLEAR` if one of the types has a logical type: fastavro returns the number alone.

Source: Avro's specification, "Logical types". An annotation that does not fit its type is ignored,
as specified.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from penstock.policies.decoded.errors import NotDecodedError
from penstock.policies.decoded.floats import Single
from penstock.policies.decoded.instants import EPOCH, instant
from penstock.policies.decoded.unclear import UNCLEAR
from penstock.policies.schema_policy.fields import avro
from penstock.policies.schema_policy.fields.tree import Node, leading_to, reachable
from penstock.policies.schema_policy.rules.avro_values import conversion
from penstock.policies.schema_policy.tags import read_patterns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.policies.schema_policy.payloads.compiled import SchemaSource

_UUID_BYTES: Final = 16
_DECIMAL_BYTES: Final = 64
"""More than any column of a table has."""


def plain_values(source: SchemaSource) -> Callable[[Any], Any]:
    """Return the conversion of values that fastavro reads by a schema.

    Raises:
        InvalidSchemaError: It is not an Avro schema.
    """
    root = avro.read_fields(source, read_patterns({}))
    unclear = _add_unclear(root)

    def read(node: Node) -> Callable[[Any], Any] | None:
        if node in unclear:
            return _unclear
        if node.type_name == "FLOAT":
            return Single
        return _logical(node)

    return partial(conversion(root, logical_types=True, converter_of=read), root)


def _add_unclear(root: Node) -> frozenset[Node]:
    """Add a first alternative to unions, for values that several of their types have.

    Returns:
        The alternatives.
    """
    nodes = reachable(root)
    ways = leading_to(nodes, lambda _: False, lambda node: _logical(node) is not None)
    added = set()
    for node in nodes:
        if node.type_name in {"FLOAT", "DOUBLE"}:
            node.fits = _is_float  # a payload has no integer for it
        if any(id(branch) in ways for branch in node.alternatives):
            first = Node(fits=partial(_is_unclear, tuple(node.alternatives), ways))
            node.alternatives.insert(0, first)
            added.add(first)
    return frozenset(added)


def _is_float(value: Any) -> bool:
    return isinstance(value, float)


def _is_unclear(branches: tuple[Node, ...], ways: frozenset[int], value: Any) -> bool:
    candidates = [branch for branch in branches if branch.fits(value)]
    return len(candidates) > 1 and any(id(branch) in ways for branch in candidates)


def _unclear(value: Any) -> Any:
    del value
    return UNCLEAR


def _logical(node: Node) -> Callable[[Any], Any] | None:
    return None if node.logical is None else logical_type(node.logical)


def logical_type(schema: Mapping[str, Any]) -> Callable[[Any], Any] | None:
    """Return the conversion of a type with a logical type; None if it has no conversion."""
    kind, name = schema.get("type"), schema.get("logicalType")
    if type(name) is not str:
        return None
    if kind == "long":
        return _TIMES.get(name)
    if kind == "int" and name == "date":
        return _date
    if kind in ("bytes", "fixed") and name == "decimal":
        scale, precision = schema.get("scale", 0), schema.get("precision")
        if type(scale) is not int or type(precision) is not int or precision < 1:
            return None
        return partial(_decimal, scale=scale) if 0 <= scale <= precision else None
    if kind == "fixed" and name == "uuid" and schema.get("size") == _UUID_BYTES:
        return _uuid
    return None


def _date(days: int) -> dt.date:
    try:
        return EPOCH.date() + dt.timedelta(days)
    except OverflowError:
        raise NotDecodedError("has a date that is not between the years 1 and 9999") from None


def _decimal(unscaled: bytes, *, scale: int) -> Decimal:
    if len(unscaled) > _DECIMAL_BYTES:
        raise NotDecodedError("has a decimal that is too large")
    sign, digits, _ = Decimal(int.from_bytes(unscaled, signed=True)).as_tuple()
    return Decimal((sign, digits, -scale))


def _uuid(value: bytes) -> str:
    return str(UUID(bytes=value))


def _local(value: int, to_micros: Callable[[int], int]) -> dt.datetime:
    return instant(to_micros(value)).replace(tzinfo=None)


def _global(value: int, to_micros: Callable[[int], int]) -> dt.datetime:
    return instant(to_micros(value))


_TO_MICROS: Final[Mapping[str, Callable[[int], int]]] = {
    "millis": lambda value: value * 1000,
    "micros": lambda value: value,
    "nanos": lambda value: value // 1000,
}
_TIMES: Final[Mapping[Any, Callable[[Any], Any]]] = {
    f"{prefix}timestamp-{unit}": partial(convert, to_micros=to_micros)
    for prefix, convert in (("", _global), ("local-", _local))
    for unit, to_micros in _TO_MICROS.items()
}

"""Avro's logical types that CEL has: instants, decimals, UUIDs.

Source: Avro's specification, "Logical types". An annotation that does not fit its type is
ignored, as specified.
"""

from __future__ import annotations

import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from penstock.policies.schema_policy.rules import decimals, timestamps
from penstock.policies.schema_policy.rules.values import EvaluationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_INSTANTS: Final = {
    "timestamp-millis": timestamps.PER_SECOND["millis"],
    "timestamp-micros": timestamps.PER_SECOND["micros"],
    "timestamp-nanos": timestamps.PER_SECOND["nanos"],
}
_UUID_BYTES: Final = 16


def logical_type(schema: Mapping[str, Any]) -> Callable[[Any], Any] | None:
    """Return the conversion of a type with a logical type to values for rules.

    Args:
        schema: The type, such as `{"type": "long", "logicalType": "timestamp-millis"}`.

    Returns:
        None where there is no logical type that CEL has.
    """
    kind, name = schema.get("type"), schema.get("logicalType")
    if not isinstance(name, str):
        return None
    if kind == "long" and name in _INSTANTS:
        return partial(_instant, per_second=_INSTANTS[name])
    if kind in ("bytes", "fixed") and name == "decimal":
        scale = schema.get("scale", 0)
        return partial(_decimal, scale=scale) if _is_scale(scale) else None
    if kind == "fixed" and name == "uuid" and schema.get("size") == _UUID_BYTES:
        return _uuid
    return None


def _is_scale(scale: Any) -> bool:
    return isinstance(scale, int) and not isinstance(scale, bool) and scale >= 0


def _instant(value: int, *, per_second: int) -> Any:
    try:
        return timestamps.of_epoch(value, per_second)
    except ValueError:
        raise EvaluationError("a timestamp is not between the years 1 and 9999") from None


def _decimal(value: bytes, *, scale: int) -> Any:
    try:
        return decimals.of_bytes(value, scale)
    except ValueError:
        raise EvaluationError("a decimal is too large") from None


def _uuid(value: bytes) -> str:
    return str(uuid.UUID(bytes=value))

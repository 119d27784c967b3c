"""Values as CEL is given them.

cel-expr-python 0.1.3 takes text, bytes and keys of maps up to their first NUL character only, so a
condition would be evaluated on a part. A wrapper message of Protobuf, which CEL unwraps, arrives as
one object (`tests/policies/schema_policy/rules/test_values.py` fails when that is corrected).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import orjson
from google.protobuf import wrappers_pb2

from penstock.policies.schema_policy.rules.work import Size

_SCALARS: Final = frozenset({int, float, bool, type(None)})
_NUL_IN_JSON: Final = b"\\u0000"
_NO_KEY: Final = "a key of a map has a NUL character, which CEL would not be given"


class EvaluationError(Exception):
    """An expression has no result for a value; the text has the reason, but not the value."""


class CelValue(NamedTuple):
    """A value of a variable.

    Attributes:
        original: As it was.
        value: As CEL is given it.
        weight: At least the characters, bytes and items that it has.
    """

    original: Any
    value: Any
    weight: int


def to_cel(raw_value: Any) -> CelValue:
    """Return a value as CEL is given it.

    Args:
        raw_value: A value of JSON's and Avro's types, a Protobuf message, or one of its fields.

    Raises:
        EvaluationError: It cannot be converted: a key of a map has a NUL character.
    """
    kind = type(raw_value)
    if kind is str:
        return CelValue(raw_value, _text(raw_value), len(raw_value))
    if kind in _SCALARS:
        return CelValue(raw_value, raw_value, 1)
    if kind is not dict and hasattr(raw_value, "ByteSize"):
        return CelValue(raw_value, raw_value, raw_value.ByteSize())
    try:
        # Looks at all of it at the speed of C.
        json_bytes = orjson.dumps(raw_value, _of_no_json)
    except orjson.JSONEncodeError:  # a large number, keys that are no text, or nested deeply
        return CelValue(raw_value, _whole(raw_value), int(size_of(raw_value).weight))
    value = _whole(raw_value) if _NUL_IN_JSON in json_bytes else raw_value
    return CelValue(raw_value, value, len(json_bytes))


def _of_no_json(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return value.decode("latin-1")
    if hasattr(value, "ByteSize"):
        return value.ByteSize()
    raise TypeError


def _text(value: str) -> Any:
    return wrappers_pb2.StringValue(value=value) if "\0" in value else value


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (bytes, bytearray)):
        return wrappers_pb2.BytesValue(value=bytes(value)) if b"\0" in value else value
    if hasattr(value, "ListFields"):
        return value
    if hasattr(value, "keys"):
        return {_key(key): _whole(value[key]) for key in value}
    if hasattr(value, "extend"):
        return [_whole(item) for item in value]
    return value


def _key(key: Any) -> Any:
    if isinstance(key, str) and "\0" in key:
        raise EvaluationError(_NO_KEY)
    return key


def size_of(value: Any) -> Size:
    """Return how many characters, bytes and items a value has, and how many its longest list."""
    weight = longest = 0
    values = [value]
    while values:
        part = values.pop()
        weight += 1
        inner: Any = ()
        if isinstance(part, (str, bytes)):
            weight += len(part)
        elif hasattr(part, "ListFields"):  # also a Struct, which raises for a value that is not set
            inner = [field_value for _, field_value in part.ListFields()]
        elif hasattr(part, "keys"):
            inner = [*part, *(part[key] for key in part)]
            longest = max(longest, len(part))
        elif hasattr(part, "extend"):
            inner = part
            longest = max(longest, len(part))
        values.extend(inner)
    return Size(weight, longest, longest)

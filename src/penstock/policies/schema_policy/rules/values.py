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
        given: As it was.
        value: As CEL is given it.
        weight: At least the characters, bytes and items that it has.
    """

    given: Any
    value: Any
    weight: int


def to_cel(given: Any) -> CelValue:
    """Return a value as CEL is given it.

    Args:
        given: A value of JSON's and Avro's types, a Protobuf message, or one of its fields.

    Raises:
        EvaluationError: It cannot be converted: a key of a map has a NUL character.
    """
    kind = type(given)
    if kind is str:
        return CelValue(given, _text(given), len(given))
    if kind in _SCALARS:
        return CelValue(given, given, 1)
    if kind is not dict and hasattr(given, "ByteSize"):
        return CelValue(given, given, given.ByteSize())
    try:
        # Looks at all of it at the speed of C.
        written = orjson.dumps(given, _of_no_json)
    except orjson.JSONEncodeError:  # a large number, keys that are no text, or nested deeply
        return CelValue(given, _whole(given), int(size_of(given).weight))
    value = _whole(given) if _NUL_IN_JSON in written else given
    return CelValue(given, value, len(written))


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
    waiting = [value]
    while waiting:
        found = waiting.pop()
        weight += 1
        inner: Any = ()
        if isinstance(found, (str, bytes)):
            weight += len(found)
        elif hasattr(
            found, "ListFields"
        ):  # also a Struct, which raises for a value that is not set
            inner = [held for _, held in found.ListFields()]
        elif hasattr(found, "keys"):
            inner = [*found, *(found[key] for key in found)]
            longest = max(longest, len(found))
        elif hasattr(found, "extend"):
            inner = found
            longest = max(longest, len(found))
        waiting.extend(inner)
    return Size(weight, longest, longest)

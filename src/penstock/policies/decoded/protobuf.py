"""Messages of Protobuf as Python's values: objects by the names of fields in the schema.

Enums are the names of their values. A field that is not set is null if its presence is known, and
its default otherwise. A `Timestamp` is a time, in microseconds as Spark has them, and a wrapper is
its value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.policies.decoded.errors import NotDecodedError
from penstock.policies.decoded.floats import Single
from penstock.policies.decoded.instants import instant
from penstock.policies.decoded.wanted import ALL
from penstock.policies.schema_policy.fields.protobuf import is_map, is_repeated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.message import Message

    from penstock.policies.decoded.wanted import Wanted

_MOST: Final = 1_000_000
"""How many fields the messages of a record may have together: an empty message takes two bytes."""
_TOO_MANY: Final = f"has more than {_MOST:,} fields in its messages"
_WRAPPED: Final = ("Bool", "Bytes", "Double", "Int32", "Int64", "String", "UInt32",
                   "UInt64")  # fmt: skip

_NOT_UTF_8: Final = "has a string that is not UTF-8"


def plain_message(message: Message, selection: Wanted = ALL) -> Any:
    """Return the value of a message.

    Args:
        selection: The fields to return.

    Raises:
        NotDecodedError: It has a timestamp that Python does not have, a string of proto2 that is
            not UTF-8, or too many fields in its messages.
    """
    try:
        return _Reading().message(message, selection)
    except UnicodeDecodeError:  # its text has the bytes
        raise NotDecodedError(_NOT_UTF_8) from None


class _Reading:
    """Reads the messages of a record, and counts their fields."""

    def __init__(self) -> None:
        self._remaining_fields = _MOST
        self._fields: dict[tuple[str, Wanted], Sequence[tuple[FieldDescriptor, Wanted]]] = {}

    def message(self, message: Message, selection: Wanted) -> Any:
        name = message.DESCRIPTOR.full_name
        converter = _KNOWN.get(name)
        if converter is not None:
            return converter(message)
        fields = self._fields.get((name, selection))
        if fields is None:
            fields = self._fields[name, selection] = [
                (field, inner)
                for field in message.DESCRIPTOR.fields
                if (inner := selection.of(field.name)) is not None
            ]
        self._remaining_fields -= 1 + len(fields)
        if self._remaining_fields < 0:
            raise NotDecodedError(_TOO_MANY)
        return {field.name: self._value(message, field, inner) for field, inner in fields}

    def _value(self, message: Message, field: FieldDescriptor, selection: Wanted) -> Any:
        field_value = getattr(message, field.name)
        if is_map(field):
            value_field = field.message_type.fields_by_name["value"]
            return {
                name: self._plain(field_value[key], value_field, inner)
                for name, key in ((_key(key), key) for key in field_value)
                if (inner := selection.of(name)) is not None
            }
        if is_repeated(field):
            return [self._plain(item, field, selection) for item in field_value]
        if field.has_presence and not message.HasField(field.name):
            return None
        return self._plain(field_value, field, selection)

    def _plain(self, value: Any, field: FieldDescriptor, selection: Wanted) -> Any:
        if field.message_type is not None:
            return self.message(value, selection)
        if field.enum_type is not None:
            enum_value = field.enum_type.values_by_number.get(value)
            return value if enum_value is None else enum_value.name
        if field.type == field.TYPE_FLOAT:
            return Single(value)
        if field.type == field.TYPE_STRING and type(value) is not str:  # bytes, by version
            raise NotDecodedError(_NOT_UTF_8)
        return value


def _key(key: Any) -> str:
    """Return the key of a map, as in JSON."""
    return str(key).lower() if type(key) is bool else str(key)


def _timestamp(message: Any) -> Any:
    return instant(message.seconds * 1_000_000 + message.nanos // 1000)


def _wrapped(message: Any) -> Any:
    return message.value


def _wrapped_float(message: Any) -> Any:
    return Single(message.value)


_KNOWN: Final[Mapping[str, Callable[[Any], Any]]] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.FloatValue": _wrapped_float,
    **{f"google.protobuf.{kind}Value": _wrapped for kind in _WRAPPED},
}

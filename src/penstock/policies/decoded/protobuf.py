"""Messages of Protobuf as Python's values: objects by the names of fields in the schema.

Enums are the names of their values. A field that is not set is null if its presence is known, and
its default otherwise. A `Timestamp` is a time, and a wrapper is its value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.policies.decoded.errors import NotDecodedError
from penstock.policies.decoded.instants import instant
from penstock.policies.schema_policy.fields.protobuf import is_map, is_repeated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.message import Message

_WRAPPED: Final = ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32",
                   "UInt64")  # fmt: skip

_NOT_UTF_8: Final = "has a string that is not UTF-8"


def plain_message(message: Message) -> Any:
    """Return the value of a message.

    Raises:
        NotDecodedError: It has a timestamp that Python does not have, or a string of proto2 that is
            not UTF-8.
    """
    known = _KNOWN.get(message.DESCRIPTOR.full_name)
    try:
        if known is not None:
            return known(message)
        return {field.name: _value(message, field) for field in message.DESCRIPTOR.fields}
    except UnicodeDecodeError:  # its text has the bytes
        raise NotDecodedError(_NOT_UTF_8) from None


def _value(message: Message, field: FieldDescriptor) -> Any:
    found = getattr(message, field.name)
    if is_map(field):
        of = field.message_type.fields_by_name["value"]
        return {str(key): _plain(found[key], of) for key in found}
    if is_repeated(field):
        return [_plain(item, field) for item in found]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _plain(found, field)


def _plain(value: Any, field: FieldDescriptor) -> Any:
    if field.message_type is not None:
        return plain_message(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    if field.type == field.TYPE_STRING and type(value) is not str:  # by version, bytes or an error
        raise NotDecodedError(_NOT_UTF_8)
    return value


def _timestamp(message: Any) -> Any:
    return instant(message.seconds * 1_000_000 + message.nanos // 1000)


def _wrapped(message: Any) -> Any:
    return message.value


_KNOWN: Final[Mapping[str, Callable[[Any], Any]]] = {
    "google.protobuf.Timestamp": _timestamp,
    **{f"google.protobuf.{kind}Value": _wrapped for kind in _WRAPPED},
}

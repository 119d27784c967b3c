"""Types that read the same bytes as a schema's, and lose nothing when messages are merged.

Protobuf merges repeated fields: of numbers and strings the last counts, messages become one. So
many payloads can be read into one message, and an unknown field in any of them is still there,
unless its parent was replaced: a member of a oneof by another member, a value of a map by another
entry for its key. Here nothing is replaced: oneofs are separate fields, maps are the entries of the
wire, with a length before them even if the file uses another encoding (editions). And repeated
messages and strings are single fields, read from the same bytes, and merged, too: so they take
little memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from google.protobuf.descriptor_pb2 import FeatureSet, FieldDescriptorProto, FileDescriptorProto

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto

_SAME_BYTES: Final = frozenset(
    {
        FieldDescriptorProto.TYPE_STRING,
        FieldDescriptorProto.TYPE_BYTES,
        FieldDescriptorProto.TYPE_MESSAGE,
        FieldDescriptorProto.TYPE_GROUP,
    }
)
"""Repeated numbers stay: they may be packed, which a single number may not."""


def merging(file: FileDescriptorProto) -> FileDescriptorProto:
    """Return a file whose types have the same names, and lose nothing when they are merged."""
    copy = FileDescriptorProto()
    copy.CopyFrom(file)
    for field in copy.extension:
        _make_optional(field)
    scope = f".{copy.package}" if copy.package else ""
    messages = [(f"{scope}.{message.name}", message) for message in copy.message_type]
    while messages:
        name, message = messages.pop()
        message.ClearField("oneof_decl")
        if copy.syntax == "editions":
            _put_lengths(message, name)
        if message.options.map_entry:
            message.options.ClearField("map_entry")
        for field in (*message.field, *message.extension):
            _make_optional(field)
        messages.extend((f"{name}.{nested.name}", nested) for nested in message.nested_type)
    return copy


def _put_lengths(message: DescriptorProto, name: str) -> None:
    """Let entries of maps, and the messages in them, begin with their length.

    They do as long as the type is one of a map, also where `features.message_encoding` is
    `DELIMITED`; as types like others they would inherit that.
    """
    entries = {
        f"{name}.{nested.name}" for nested in message.nested_type if nested.options.map_entry
    }
    for field in message.field:
        if field.type == FieldDescriptorProto.TYPE_MESSAGE and (
            message.options.map_entry or field.type_name in entries
        ):
            field.options.features.message_encoding = FeatureSet.LENGTH_PREFIXED


def _make_optional(field: FieldDescriptorProto) -> None:
    field.ClearField("oneof_index")
    field.ClearField("proto3_optional")
    if field.label == field.LABEL_REQUIRED or (
        field.label == field.LABEL_REPEATED and field.type in _SAME_BYTES
    ):
        field.label = field.LABEL_OPTIONAL
    features = field.options.features  # reading makes no options where there are none
    if features.field_presence == FeatureSet.LEGACY_REQUIRED:
        features.field_presence = FeatureSet.EXPLICIT

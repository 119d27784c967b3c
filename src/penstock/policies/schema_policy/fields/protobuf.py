"""The fields of Protobuf messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.fields.tree import Field, InlineRule, Node

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from penstock.policies.schema_policy.tags import TagPatterns

_META: Final = 1088
"""The number of `confluent.message_meta` and `confluent.field_meta` (confluent/meta.proto)."""
VALUE_MESSAGES: Final = {
    "google.protobuf.Timestamp": "LONG",
    "confluent.type.Decimal": "BYTES",
}
"""Messages that represent a single value, as in Confluent's `isCelLeafMessage`."""
_TYPES: Final = {
    FieldDescriptor.TYPE_ENUM: "ENUM",
    FieldDescriptor.TYPE_STRING: "STRING",
    FieldDescriptor.TYPE_BYTES: "BYTES",
    FieldDescriptor.TYPE_INT32: "INT",
    FieldDescriptor.TYPE_SINT32: "INT",
    FieldDescriptor.TYPE_UINT32: "INT",
    FieldDescriptor.TYPE_FIXED32: "INT",
    FieldDescriptor.TYPE_SFIXED32: "INT",
    FieldDescriptor.TYPE_INT64: "LONG",
    FieldDescriptor.TYPE_SINT64: "LONG",
    FieldDescriptor.TYPE_UINT64: "LONG",
    FieldDescriptor.TYPE_FIXED64: "LONG",
    FieldDescriptor.TYPE_SFIXED64: "LONG",
    FieldDescriptor.TYPE_FLOAT: "FLOAT",
    FieldDescriptor.TYPE_DOUBLE: "DOUBLE",
    FieldDescriptor.TYPE_BOOL: "BOOLEAN",
}


def read_fields(descriptor: Any, patterns: TagPatterns) -> Node:
    """Return the fields of a message and of the messages in it.

    Args:
        descriptor: Of the message.
        patterns: The tags in the metadata of the schema.

    Raises:
        InvalidSchemaError: The options of a field cannot be read.
    """
    nodes: dict[str, Node] = {}
    root = nodes[descriptor.full_name] = Node()
    messages = [(root, descriptor)]
    while messages:
        node, message = messages.pop()
        node.type_name = VALUE_MESSAGES.get(message.full_name, "RECORD")
        node.name = message.full_name
        if message.full_name in VALUE_MESSAGES:
            continue
        node.rules = _read_meta(message.GetOptions())[1]
        for field in message.fields:
            inner_type = _message_type(field)
            if inner_type is None:
                value_type = field.message_type.fields_by_name["value"] if is_map(field) else field
                inner = Node(_TYPES.get(value_type.type, "NULL"))
            else:
                message_node = nodes.get(inner_type.full_name)
                if message_node is None:
                    message_node = nodes[inner_type.full_name] = Node()
                    messages.append((message_node, inner_type))
                inner = message_node
            if is_map(field):
                inner = Node("MAP", values=inner)
            elif is_repeated(field):
                inner = Node("ARRAY", items=inner)
            tags, rules = _read_meta(field.GetOptions())
            node.fields.append(
                Field(
                    field.name,
                    field.full_name,
                    inner,
                    tags | patterns.of(field.full_name),
                    rules,
                    field,
                )
            )
    return root


def is_map(field: Any) -> bool:
    return (
        field.type == FieldDescriptor.TYPE_MESSAGE
        and field.message_type.GetOptions().map_entry is True
    )


def is_repeated(field: Any) -> bool:
    """Return whether a field is repeated; maps are."""
    if hasattr(field, "is_repeated"):
        return bool(field.is_repeated)
    return bool(field.label == FieldDescriptor.LABEL_REPEATED)


def _message_type(field: Any) -> Any:
    if is_map(field):
        field = field.message_type.fields_by_name["value"]
    if field.type in (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_GROUP):
        return field.message_type
    return None


def _read_meta(options: Message) -> tuple[frozenset[str], tuple[InlineRule, ...]]:
    """Return the tags and rules among options.

    They are read from the options' bytes, so the schema's pool need not know the extension by
    the class that this process has for it.

    Raises:
        InvalidSchemaError: They do not follow confluent/meta.proto.
    """
    data = options.SerializeToString()
    if not data:
        return frozenset(), ()
    try:
        meta = _OPTIONS.FromString(data).meta
    except Exception:
        raise InvalidSchemaError("confluent.field_meta or message_meta cannot be read") from None
    return frozenset(meta.tags), tuple(
        InlineRule(rule.name, rule.doc, rule.expr) for rule in meta.rules
    )


def _make_options() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="penstock/options.proto", package="penstock.options", syntax="proto3"
    )
    kinds = descriptor_pb2.FieldDescriptorProto
    rule = file.message_type.add(name="Rule")
    for number, name in enumerate(("name", "doc", "expr"), 1):
        rule.field.add(name=name, number=number, type=kinds.TYPE_STRING, label=1)
    meta = file.message_type.add(name="Meta")
    meta.field.add(name="tags", number=3, type=kinds.TYPE_STRING, label=3)
    meta.field.add(
        name="rules",
        number=4,
        type=kinds.TYPE_MESSAGE,
        label=3,
        type_name=".penstock.options.Rule",
    )
    options = file.message_type.add(name="Options")
    options.field.add(
        name="meta",
        number=_META,
        type=kinds.TYPE_MESSAGE,
        label=1,
        type_name=".penstock.options.Meta",
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("penstock.options.Options"))


_OPTIONS: Final = _make_options()

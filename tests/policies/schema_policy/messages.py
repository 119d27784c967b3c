"""Protobuf messages made without a compiler, and a schema that only decodes them."""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

KINDS = descriptor_pb2.FieldDescriptorProto


def meta(*tags, rules=()):
    """Return the bytes of `confluent.Meta`, as an option numbered 1088."""
    body = b"".join(b"\x1a" + bytes([len(tag)]) + tag.encode() for tag in tags)
    for rule in rules:
        inner = b"".join(
            bytes([number << 3 | 2, len(text)]) + text.encode() for number, text in rule.items()
        )
        body += b"\x22" + bytes([len(inner)]) + inner
    return b"\x82\x44" + bytes([len(body)]) + body


def order_class(*, ssn_meta=b"", message_meta=b"", syntax="proto3"):
    """Return a class for messages `shop.Order`."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax=syntax)
    order = file.message_type.add(name="Order")
    order.options.MergeFromString(message_meta)

    def field(name, number, kind, *, label=1, of=None, options=b""):
        made = order.field.add(name=name, number=number, type=kind, label=label)
        if of:
            made.type_name = of
        made.options.MergeFromString(options)

    field("id", 1, KINDS.TYPE_INT64)
    field("ssn", 2, KINDS.TYPE_STRING, options=ssn_meta)
    field("inner", 3, KINDS.TYPE_MESSAGE, of=".shop.Order")
    field("names", 4, KINDS.TYPE_STRING, label=3, options=ssn_meta)
    field("others", 5, KINDS.TYPE_MESSAGE, label=3, of=".shop.Order")
    field("count", 6, KINDS.TYPE_UINT32, options=ssn_meta)
    field("state", 7, KINDS.TYPE_ENUM, of=".shop.State")
    field("scores", 8, KINDS.TYPE_MESSAGE, label=3, of=".shop.Order.ScoresEntry")
    entry = order.nested_type.add(name="ScoresEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=KINDS.TYPE_STRING, label=1)
    entry.field.add(
        name="value", number=2, type=KINDS.TYPE_MESSAGE, label=1, type_name=".shop.Order"
    )
    state = file.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="PAID", number=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


class Messages:
    """A compiled schema of one message, which is message 0 of its file."""

    def __init__(self, of):
        self._class = of
        self.messages = [of.DESCRIPTOR]

    def objections(self, payloads):
        for position, payload in enumerate(payloads):
            try:
                self.decode(payload)
            except Exception:
                yield position, "Protobuf: is no shop.Order"

    def decode(self, payload):
        if payload[:1] != b"\x00":
            raise ValueError("no such message")
        return self._class.FromString(bytes(payload[1:]))

    def encode(self, value):
        return b"\x00" + value.SerializeToString()

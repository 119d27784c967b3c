"""Classes of Protobuf messages."""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def proto_class(name: str, *path: str) -> Any:
    """Return the class of a message: `shop.First`, `shop.Order`, or `shop.Order.Line` in it."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package="shop", syntax="proto3")
    for message in ("First", "Order"):
        added = file.message_type.add(name=message)
        added.field.add(name="id", number=1, type=3, label=1)
        for nested in ("Other", "Line"):
            added.nested_type.add(name=nested).field.add(name="id", number=1, type=3, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(".".join(("shop", *path))))

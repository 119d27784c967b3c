"""A .proto file and its imports, ready to judge messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.payloads.protobuf.merging import merging
from penstock.policies.schema_policy.payloads.protobuf.protoc import compile_files
from penstock.policies.schema_policy.payloads.protobuf.schema import ProtobufSchema

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    from penstock.policies.schema_policy.payloads.compiled import SchemaSource

MAX_DEFINITIONS: Final = 100_000
_MAX_MESSAGE: Final = 300


def compile_protobuf(source: SchemaSource, *, allow_unknown_fields: bool = False) -> ProtobufSchema:
    """Compile a .proto file: proto2, proto3 or an edition that protoc knows.

    Args:
        source: The text, and those of its imports, by the names in `import`. Without `message`
            payloads begin with message indexes, which identify the type of a message in the file.
        allow_unknown_fields: Whether fields that a type does not have are no objection.

    Raises:
        InvalidSchemaError: The schema is not valid, too large, or has no such message.
        OSError: It could not be compiled for a reason that is not its own.
    """
    name, compiled = compile_files(source)
    return schema_of(name, compiled, source.message, allow_unknown_fields=allow_unknown_fields)


def schema_of(
    name: str, compiled: bytes, message: str | None, *, allow_unknown_fields: bool = False
) -> ProtobufSchema:
    """Return the schema of a file that protoc has compiled.

    Args:
        name: Its name in the set.
        compiled: A serialized `FileDescriptorSet`, with imports first.
        message: The full name of a message, or None for message indexes.
        allow_unknown_fields: Whether fields that a type does not have are no objection.

    Raises:
        InvalidSchemaError: It has too many definitions, or no such message.
    """
    try:
        files = FileDescriptorSet.FromString(compiled).file
    except DecodeError:
        raise InvalidSchemaError("is nested too deeply") from None
    count = 0
    for file in files:
        count = _count(file, count)
    # Not the default pool: schemas define the same names differently.
    pool, merging_pool = DescriptorPool(), DescriptorPool()
    try:
        for file in files:
            pool.AddSerializedFile(file.SerializeToString())
            merging_pool.AddSerializedFile(merging(file).SerializeToString())
    except TypeError as error:
        raise InvalidSchemaError(f"is not valid: {str(error)[:_MAX_MESSAGE]}") from None
    own = next(file for file in files if file.name == name)
    chosen = None if message is None else _message(pool, message)
    return ProtobufSchema(
        pool, merging_pool, own, chosen, allow_unknown_fields=allow_unknown_fields
    )


def _message(pool: DescriptorPool, name: str) -> Descriptor:
    try:
        descriptor: Descriptor = pool.FindMessageTypeByName(name)
    except KeyError:
        descriptor = None
    if descriptor is None or descriptor.GetOptions().map_entry:
        raise InvalidSchemaError(f"has no message {name[:_MAX_MESSAGE]}")
    return descriptor


def _count(file: FileDescriptorProto, count: int) -> int:
    count += len(file.enum_type) + len(file.extension) + sum(len(e.value) for e in file.enum_type)
    messages: list[DescriptorProto] = list(file.message_type)
    while messages:
        message = messages.pop()
        count += 1 + len(message.field) + len(message.extension) + len(message.oneof_decl)
        count += sum(1 + len(enum.value) for enum in message.enum_type)
        messages.extend(message.nested_type)
        if count + len(messages) > MAX_DEFINITIONS:
            break
    if count + len(messages) > MAX_DEFINITIONS:
        raise InvalidSchemaError(
            f"has more than {MAX_DEFINITIONS} messages, fields and enum values"
        )
    return count

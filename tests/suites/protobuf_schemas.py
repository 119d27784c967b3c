"""Schemas of another project: those of Google's tests of Protobuf for Go."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from penstock.kafka.artifacts import cache_folder
from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.payloads.compiled import SchemaSource
from penstock.policies.schema_policy.payloads.protobuf.compile import schema_of
from penstock.policies.schema_policy.payloads.protobuf.protoc import compile_files
from penstock.policies.schema_policy.payloads.protobuf.schema import ProtobufSchema
from tests.conformance.fetched import go_module
from tests.suites.fetched import FOLDER

MODULE: Final = "google.golang.org/protobuf"
VERSION: Final = "v1.36.11"
_SUM: Final = "h1:fV6ZwhNocDyBLK0dj+fg8ektcVegBBuEolpbTQyBNVE="


class Type(NamedTuple):
    """A message type."""

    name: str
    schema: ProtobufSchema
    descriptor: Descriptor


def types() -> Iterator[Type]:
    """Yield all message types; files that protoc does not take are left out."""
    folder = go_module(MODULE, VERSION, _SUM, cache_folder() / FOLDER)
    texts = {
        str(file.relative_to(folder)): file.read_text()
        for file in sorted(folder.rglob("*.proto"))
        if file.relative_to(folder).parts[0] != "src"
    }
    for text in texts.values():
        try:
            name, compiled = compile_files(SchemaSource("PROTOBUF", text, texts))
        except InvalidSchemaError:
            continue
        file = next(
            candidate
            for candidate in FileDescriptorSet.FromString(compiled).file
            if candidate.name == name
        )
        waiting = [(file.package, message) for message in file.message_type]
        while waiting:
            scope, message = waiting.pop()
            full = f"{scope}.{message.name}".removeprefix(".")
            waiting += ((full, nested) for nested in message.nested_type)
            if message.options.map_entry or message.options.message_set_wire_format:
                continue
            try:
                schema = schema_of(name, compiled, full)
            except InvalidSchemaError:  # upb does not take the file
                break
            yield Type(full, schema, schema._pool.FindMessageTypeByName(full))

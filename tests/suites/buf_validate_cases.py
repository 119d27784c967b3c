"""Messages for the schemas of protovalidate's own conformance tests, which the Go module has."""

import random
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc_tools
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from grpc_tools import protoc

from penstock.kafka.artifacts import cache_folder
from tests.conformance.fetched import go_module
from tests.suites.fetched import FOLDER

_VERSION: Final = "v1.2.2"
_SUM: Final = "h1:2H/9/Kr97etSRqW3IJjTTb09z+zutkK2GDhDRbOnqr4="
_OWN: Final = "buf.validate.conformance.cases."
_DEEPEST: Final = 3
_NUMBERS: Final = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 15, 16, 100, 255, 256)
_TEXTS: Final = (
    "", "a", "ab", "abc", "foo", "bar", "baz", "foobar", "foobaz", "FOO", "a@b.c", "foo@bar.com",
    "127.0.0.1", "127.0.0.1/16", "127.0.0.0/16", "::1", "2001:db8::/32", "example.com", "foo_bar",
    "https://example.com/a?b#c", "../a", "9a8b7c6d-1234-4321-8765-0123456789ab", "x-header",
    ":path", "host:80", "é", "ﷺ", "a\0b", "x" * 20,
)  # fmt: skip


class Case(NamedTuple):
    """A message.

    Attributes:
        type_name: Of its type.
        data: Its bytes.
    """

    type_name: str
    data: bytes


def folder() -> Path:
    """Return the folder of the protos, fetching it the first time."""
    module = go_module("github.com/bufbuild/protovalidate", _VERSION, _SUM, cache_folder() / FOLDER)
    return module / "proto"


@cache
def compiled() -> bytes:
    """Return all of them as a serialized `FileDescriptorSet`."""
    made = folder().with_name("compiled.binpb")
    if not made.exists():
        testing = folder() / "protovalidate-testing"
        cases = testing / "buf/validate/conformance/cases"
        arguments = [
            "protoc", f"-I{testing}", f"-I{folder() / 'protovalidate'}",
            f"-I{Path(grpc_tools.__file__).parent / '_proto'}",
            f"--descriptor_set_out={made}", "--include_imports", *map(str, sorted(cases.rglob("*.proto"))),
        ]  # fmt: skip
        assert protoc.main(arguments) == 0
    return made.read_bytes()


def file_of(type_name: str) -> str:
    """Return the name of the file that has a type."""
    pool = _pool()
    return str(pool.FindMessageTypeByName(type_name).file.name)


def cases(seed: int, each: int) -> Iterator[Case]:
    """Yield messages of each type, an empty one first.

    Args:
        seed: The seed of the random values.
        each: The number of messages of a type.
    """
    pool = _pool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compiled()).file:
        for message in file.message_type:
            name = f"{file.package}.{message.name}"
            if name.startswith(_OWN):
                drawn = _Drawn(f"{seed} {name}")
                made = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
                for number in range(each):
                    drawn_message = made()
                    if number:
                        drawn.fill(drawn_message, _DEEPEST)
                    yield Case(name, drawn_message.SerializePartialToString())


@cache
def _pool() -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compiled()).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


class _Drawn:
    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def fill(self, message: Any, levels: int) -> None:
        for field in message.DESCRIPTOR.fields:
            if self._random.random() < 0.8:
                self._set(message, field, levels)

    def _set(self, message: Any, field: Any, levels: int) -> None:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            self._set_map(getattr(message, field.name), field, levels)
        elif field.is_repeated:
            held = getattr(message, field.name)
            for _ in range(self._random.randrange(4)):
                if field.message_type is None:
                    held.append(self._value(field))
                elif levels:
                    self.fill(held.add(), levels - 1)
        elif field.message_type is None:
            setattr(message, field.name, self._value(field))
        elif levels:
            held = getattr(message, field.name)
            held.SetInParent()
            self.fill(held, levels - 1)

    def _set_map(self, held: Any, field: Any, levels: int) -> None:
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        for _ in range(self._random.randrange(4)):
            if value.message_type is None:
                held[self._value(key)] = self._value(value)
            elif levels:
                self.fill(held[self._value(key)], levels - 1)

    def _value(self, field: Any) -> Any:
        if field.type == FieldDescriptor.TYPE_STRING:
            return self._of(_TEXTS)
        if field.type == FieldDescriptor.TYPE_BYTES:
            return self._of((self._of(_TEXTS).encode(), b"\x01\x02\x03", b"\x7f\0\0\1", b"\0" * 16))
        if field.type == FieldDescriptor.TYPE_BOOL:
            return self._of((True, False))
        if field.type == FieldDescriptor.TYPE_ENUM:
            numbers = [value.number for value in field.enum_type.values]
            return self._of(numbers if field.enum_type.is_closed else [*numbers, 77])
        number = self._of(_NUMBERS)
        if field.cpp_type in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
            return self._of(
                (number, -number, number + 0.5, float("inf"), float("-inf"), float("nan"))
            )
        unsigned = (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64)
        return number if field.cpp_type in unsigned else self._of((number, -number))

    def _of(self, values: Sequence[Any]) -> Any:
        return self._random.choice(values)

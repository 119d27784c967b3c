""".proto files of the tests, compiled by protoc in this process: these are not hostile."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import grpc_tools
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_tools import protoc

from penstock.policies.schema_policy.payloads.protobuf import compile as compiling
from penstock.policies.schema_policy.payloads.protobuf.schema import ProtobufSchema

PROTOCS = Path(grpc_tools.__file__).parent / "_proto"
WELL_KNOWN = Path(compiling.__file__).parent / "well_known"

SHOP = """
syntax = "proto3";
package shop;
import "google/protobuf/any.proto";
import "google/protobuf/struct.proto";
enum Kind { KIND_NONE = 0; KIND_GIFT = 1; }
message Address { string street = 1; sint32 number = 2; }
message Order {
  message Line { string sku = 1; optional int32 quantity = 2; double price = 3; Kind kind = 4; }
  string id = 1;
  Address address = 2;
  repeated Line lines = 3;
  repeated int32 codes = 4;
  map<string, int64> labels = 5;
  bytes picture = 6;
  fixed32 place = 7;
}
message Event {
  map<string, Address> places = 1;
  message Inner { string name = 1; }
  message Other { int32 count = 1; message Deepest { bool yes = 1; } }
  oneof what { Order order = 2; Address address = 3; string text = 4; }
  google.protobuf.Any any = 5;
  google.protobuf.Struct more = 6;
}
message Tree { Tree child = 1; int32 value = 2; repeated Tree many = 3; map<int32, Tree> by = 4; }
"""

OLD = """
syntax = "proto2";
package old;
enum Size { ANY = 0; SMALL = 1; LARGE = 2; }
message Part { required string name = 1; optional Size size = 2; repeated Size sizes = 3; }
message Whole {
  required int32 id = 1;
  optional Part part = 2;
  repeated Part parts = 3;
  map<int32, Part> named = 4;
  map<string, Size> measured = 5;
  optional group Box = 6 { optional string label = 1; repeated Size packed = 2 [packed = true]; }
  optional string text = 7;
  extensions 100 to 200;
}
extend Whole { optional Part spare = 100; repeated sint64 marks = 101; }
"""

EDITION = """
edition = "2023";
package modern;
message Item {
  string checked = 1;
  string unchecked = 2 [features.utf8_validation = NONE];
  Item delimited = 3 [features.message_encoding = DELIMITED];
  int32 needed = 4 [features.field_presence = LEGACY_REQUIRED];
}
"""

DELIMITED = """
edition = "2023";
package groups;
option features.message_encoding = DELIMITED;
message Part { string name = 1; map<string, Part> parts = 2; }
message NamedEntry { int32 x = 1; }
message Whole {
  map<int32, Part> named = 1;
  map<string, int64> counted = 2;
  Part part = 3;
  repeated .groups.NamedEntry entries = 4;
  Part prefixed = 5 [features.message_encoding = LENGTH_PREFIXED];
}
"""
"""Messages are groups, but those of maps: they stand behind their length."""


def compiled(text: str, name: str = "schema.proto") -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, name).write_text(text)
        output = Path(folder, "set")
        arguments = [f"-I{path}" for path in (folder, WELL_KNOWN, PROTOCS)]
        code = protoc.main(
            ["protoc", *arguments, f"--descriptor_set_out={output}", "--include_imports", name]
        )
        assert code == 0
        return output.read_bytes()


def pool_of(
    text: str, change: Callable[[FileDescriptorProto], FileDescriptorProto] = lambda file: file
) -> DescriptorPool:
    """Return the types of a file and its imports, each file perhaps changed."""
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(compiled(text)).file:
        pool.AddSerializedFile(change(file).SerializeToString())
    return pool


def schema(text: str, message: str | None = None, *, unknown: bool = False) -> ProtobufSchema:
    return compiling.schema_of(
        "schema.proto", compiled(text), message, allow_unknown_fields=unknown
    )


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def inside(number: int, data: bytes) -> bytes:
    """A field with a length around other bytes."""
    return varint(number << 3 | 2) + varint(len(data)) + data

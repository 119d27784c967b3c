"""Schemas that Confluent's clients for Python register: descriptors in base64."""

from base64 import b64encode

import pytest
from google.protobuf import descriptor_pb2

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.payloads.compiled import SchemaSource
from penstock.policies.schema_policy.payloads.protobuf.compile import compile_protobuf
from penstock.policies.schema_policy.payloads.protobuf.serialized import (
    descriptor_in,
    named_in_set,
)

pytestmark = pytest.mark.system
LINE = 'syntax = "proto3"; package shop; message Line { int64 count = 1; }'


def described(name, package, message, *, imports=(), of=None):
    """Return a file of one message in base64: its field 1 is an int64, or of another type."""
    file = descriptor_pb2.FileDescriptorProto(
        name=name, package=package, syntax="proto3", dependency=imports
    )
    field = file.message_type.add(name=message).field.add(name="one", number=1, label=1)
    field.type = 11 if of else 3
    if of:
        field.type_name = of
    return b64encode(file.SerializeToString()).decode()


def test_a_descriptor_is_compiled_like_a_text():
    compiled = compile_protobuf(SchemaSource("PROTOBUF", described("x.proto", "shop", "Order")))
    assert compiled.objections([b"\x00\x08\x01", b"\x00\x38\x01"]) == [
        (1, "Protobuf: unknown field 7 in shop.Order")
    ]


@pytest.mark.parametrize(
    "line", [LINE, described("elsewhere/line.proto", "shop", "Line")], ids=["text", "descriptor"]
)
def test_descriptors_and_texts_refer_to_each_other(line):
    imports = ["google/protobuf/timestamp.proto", "line.proto"]
    order = described("x.proto", "shop", "Order", imports=imports, of=".shop.Line")
    text = 'import "line.proto"; message Order { optional shop.Line one = 1; }'
    for text_or_descriptor in (order, text):
        compiled = compile_protobuf(
            SchemaSource("PROTOBUF", text_or_descriptor, {"line.proto": line})
        )
        assert compiled.objections([b"\x00\x0a\x02\x08\x01"]) == []
        assert len(compiled.objections([b"\x00\x0a\x02\x38\x01"])) == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b64encode(b"\xff" * 9).decode(), "its base64: Unable to parse"),
        (described("x.proto", "shop", "Order", of=".shop.Nowhere"), '".shop.Nowhere"'),
        (described("x.proto", "shop", "Order", imports=["nowhere.proto"]), "nowhere.proto"),
    ],
    ids=["no descriptor", "an unknown type", "an unknown import"],
)
def test_an_unusable_descriptor_is_reported(text, why):
    with pytest.raises(InvalidSchemaError, match=f"^is not valid: +{why}"):
        compile_protobuf(SchemaSource("PROTOBUF", text))


@pytest.mark.parametrize("text", ["", " \n", LINE, "abc", "a=b", "=="])
def test_a_text_is_no_descriptor(text):
    assert descriptor_in(text) is None


@pytest.mark.parametrize("length", [0, 1, 127, 128, 20_000])
def test_a_set_has_the_name_that_counts(length):
    file = descriptor_pb2.FileDescriptorProto(name="before", package="p" * length)
    data = named_in_set(file.SerializeToString(), "after.proto")
    (found,) = descriptor_pb2.FileDescriptorSet.FromString(data).file
    assert (found.name, found.package) == ("after.proto", "p" * length)

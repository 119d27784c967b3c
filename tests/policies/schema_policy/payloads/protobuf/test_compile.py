"""From a text to a schema that judges; and payloads that Confluent's serializer writes."""

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pool import Default
from google.protobuf.message_factory import GetMessageClass

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.payloads.compiled import SchemaSource
from penstock.policies.schema_policy.payloads.protobuf import compile as compiling
from penstock.policies.schema_policy.payloads.protobuf.compile import compile_protobuf, schema_of
from tests.policies.schema_policy.payloads.protobuf.files import SHOP, compiled, inside

PROTO3 = 'syntax = "proto3"; '


@pytest.mark.system
def test_a_text_is_compiled_and_judges():
    shop = compile_protobuf(SchemaSource("PROTOBUF", SHOP))
    assert shop.objections([b"\x00", b"\x00\x48\x01"]) == [
        (1, "Protobuf: unknown field 9 in shop.Address")
    ]
    order = compile_protobuf(
        SchemaSource("PROTOBUF", SHOP, {}, "shop.Order"), allow_unknown_fields=True
    )
    assert order.objections([inside(1, b"id"), b"\x48\x01", b"\x48"]) == [
        (2, "Protobuf: ends in the middle of a field")
    ]


@pytest.mark.system
def test_schemas_that_define_the_same_name_do_not_meet():
    number, text = (
        compile_protobuf(
            SchemaSource("PROTOBUF", PROTO3 + f"package p; message A {{ {t} a = 1; }}")
        )
        for t in ("int32", "string")
    )
    assert number.objections([b"\x00\x08\x01"]) == []
    assert text.objections([b"\x00\x08\x01"]) != []
    with pytest.raises(KeyError):
        Default().FindMessageTypeByName("p.A")


def test_the_message_has_to_be_there():
    data = compiled(SHOP)
    for name in ("shop.Missing", "Order", "", "shop.Order.LabelsEntry", "shop.Kind", "a" * 1000):
        with pytest.raises(InvalidSchemaError, match=r"^has no message ") as raised:
            schema_of("schema.proto", data, name)
        assert len(str(raised.value)) < 400


def test_there_may_be_so_many_definitions(monkeypatch):
    data = compiled(PROTO3 + "message A { int32 a = 1; } enum E { Z = 0; Y = 1; }")
    monkeypatch.setattr(compiling, "MAX_DEFINITIONS", 5)
    schema_of("schema.proto", data, "A")
    monkeypatch.setattr(compiling, "MAX_DEFINITIONS", 4)
    with pytest.raises(InvalidSchemaError, match="has more than 4 messages"):
        schema_of("schema.proto", data, "A")


def test_invalid_sets_of_files():
    with pytest.raises(InvalidSchemaError):
        schema_of("schema.proto", b"\xff", None)


def test_payloads_of_confluents_serializer():
    """A producer that knows nothing of Penstock: its framing, its indexes, its bytes."""
    text = SHOP.replace("package shop;", "package confluent_shop;")
    data = compiled(text, "confluent_shop.proto")
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    for file in FileDescriptorSet.FromString(data).file:
        if file.name == "confluent_shop.proto":
            Default().AddSerializedFile(file.SerializeToString())
    shop = schema_of("confluent_shop.proto", data, None)
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    filled = {
        "Address": {"street": "Main", "number": -3},
        "Order": {"id": "1", "codes": [1, 2], "labels": {"a": 1}},
        "Order.Line": {"sku": "s", "quantity": 0, "price": 1.5},
        "Event": {"text": "t", "more": {"a": {"b": [1, "x", None]}}},
        "Event.Inner": {"name": "n"},
    }
    for name, fields in filled.items():
        new = GetMessageClass(Default().FindMessageTypeByName(f"confluent_shop.{name}"))
        write = ProtobufSerializer(new, client, {"use.deprecated.format": False})
        payload = write(new(**fields), SerializationContext("orders", MessageField.VALUE))[5:]
        assert shop.objections([payload]) == []
        assert shop.decode(payload).SerializeToString() == new(**fields).SerializeToString()
        ((_, reason),) = shop.objections([payload + b"\xc0\x3e\x01"])
        assert f"unknown field 1000 in confluent_shop.{name}" in reason

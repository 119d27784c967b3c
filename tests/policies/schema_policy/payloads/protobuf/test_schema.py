"""Payloads of one file: message indexes, objections in columns, decode and encode."""

import random
from collections import Counter

import pytest
from confluent_kafka.schema_registry.common.protobuf import _create_index_array
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from penstock.policies.schema_policy.payloads.protobuf.schema import _all_levels
from tests.policies.schema_policy.payloads.protobuf.files import (
    OLD,
    SHOP,
    inside,
    schema,
    varint,
)

SECRET = b"4111111111111111"
ORDER = b"\x02\x02"
LINE = b"\x04\x02\x00"
NO_MESSAGE = "has message indexes of no message in the schema"


@pytest.fixture(scope="module")
def shop():
    return schema(SHOP)


def test_the_first_message_and_others(shop):
    street = inside(1, b"street")
    assert shop.objections([b"\x00" + street, b"\x02\x00" + street, ORDER + street]) == []
    assert shop.objections([memoryview(b"\x00" + street), memoryview(LINE)]) == []
    assert shop.objections([b"\x00"]) == []
    assert shop.objections([]) == []


def test_each_objection_has_its_position(shop):
    good, bad = b"\x00" + inside(1, b"street"), b"\x00" + inside(9, SECRET)
    payloads = [good] * 1500
    for position in (0, 255, 256, 700, 1499):
        payloads[position] = bad
    payloads[300] = ORDER + inside(3, inside(9, SECRET))
    payloads[301] = b""
    payloads[302] = b"\x02\x0c"
    unknown = "Protobuf: unknown field 9 in shop.Address"
    found = list(shop.objections(payloads))
    assert (
        list(shop.objections([b"\x00\x00\x00\x00\x01" + payload for payload in payloads], 5))
        == found
    )
    assert found == [
        (0, unknown),
        (255, unknown),
        (256, unknown),
        (300, "Protobuf: unknown field 9 in shop.Order.Line at lines"),
        (301, "Protobuf: ends before its message indexes do"),
        (302, "Protobuf: has message indexes of no message in the schema"),
        (700, unknown),
        (1499, unknown),
    ]


@pytest.mark.parametrize("kind", [bytes, memoryview])
@pytest.mark.parametrize("size", [1, 5000, 2**20])
def test_payloads_that_begin_alike_are_judged_as_those_that_do_not(shop, kind, size):
    good = b"\x00" + inside(1, b"s" * size)
    payloads = [good] * 3 if size > 10_000 else [good] * 600
    payloads[1] = payloads[-1] = b"\x00" + inside(9, SECRET)
    unknown = "Protobuf: unknown field 9 in shop.Address"
    expected = [(1, unknown), (len(payloads) - 1, unknown)]
    assert list(shop.objections([kind(payload) for payload in payloads])) == expected
    behind_ids = [kind(b"\x00\x00\x00\x00\x01" + payload) for payload in payloads]
    assert list(shop.objections(behind_ids, 5)) == expected
    assert list(shop.objections([*behind_ids, b"\x00\x00\x00\x00\x01" + ORDER], 5)) == expected


@pytest.mark.parametrize(
    "indexes", [b"\x02\x08", b"\x04\x00\x00", b"\x04\x02\x02", b"\x06\x02\x00\x00"]
)
def test_indexes_out_of_range(shop, indexes):
    """Four messages; Address has none inside it; of Order's two the second is its map."""
    assert shop.objections([indexes]) == [
        (0, "Protobuf: has message indexes of no message in the schema")
    ]
    with pytest.raises(ValueError, match="no message in the schema"):
        shop.decode(indexes)


def test_no_value_is_in_any_text(shop):
    for data in (SECRET, inside(1, SECRET)[:-1], inside(9, SECRET), inside(1, b"\xff" + SECRET)):
        for prefix in (b"\x00", ORDER, LINE, b""):
            for _, text in shop.objections([prefix + data]):
                assert "4111" not in text
                assert SECRET.hex() not in text


def test_messages_nested_beside_maps_are_found_as_either_client_counts():
    """In Event: a map's entry first to protoc, then Inner, Other; the text has no entry."""
    shop = schema(SHOP)
    event = shop._pool.FindMessageTypeByName("shop.Event")
    for name, data in (("Inner", inside(1, b"name")), ("Other", b"\x08\x05")):
        descriptor = shop._pool.FindMessageTypeByName(f"shop.Event.{name}")
        positions = _create_index_array(descriptor)
        text = [event.nested_types_by_name["Inner"], event.nested_types_by_name["Other"]]
        assert positions != [2, text.index(descriptor)]
        for indexes in (positions, [2, text.index(descriptor)]):
            payload = b"".join(varint(2 * index) for index in (2, *indexes)) + data
            assert shop.objections([payload]) == []
            assert shop.decode(payload).DESCRIPTOR.full_name == descriptor.full_name
            assert shop.encode(shop.decode(payload)) == payload
            assert shop.objections([payload + b"\x48\x01"]) != []


def test_decode_and_encode_keep_the_indexes(shop):
    for prefix in (b"\x00", b"\x02\x00"):
        payload = prefix + inside(1, b"street")
        value = shop.decode(payload)
        assert value.street == "street"
        assert shop.encode(value) == payload
    value.street = "x"
    assert shop.encode(value) == b"\x02\x00" + inside(1, b"x")


def test_a_message_that_does_not_fit_is_not_decoded_or_encoded(shop):
    with pytest.raises(ValueError, match="not a message of the schema") as raised:
        shop.decode(b"\x00\x0a\x7f" + SECRET)
    assert "4111" not in str(raised.value)
    for value in ({}, None, GetMessageClass(shop._pool.FindMessageTypeByName("shop.Tree"))()):
        with pytest.raises(ValueError, match="not a message of the schema"):
            shop.encode(value)
    old = schema(OLD, "old.Part")
    with pytest.raises(ValueError, match="lacks a field"):
        old.encode(GetMessageClass(old._pool.FindMessageTypeByName("old.Part"))())


NESTED = """
syntax = "proto3";
package n;
message A {
  message X { string id = 1; }
  message Y { int64 count = 7; }
}
message B {
  message Z { string id = 1; message Deep { message Deeper { bool yes = 1; } } }
}
message C { int32 size = 1; string text = 2; }
"""


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        # [0, 1] in reverse is B.Z.
        (b"\x04\x02\x00\x38\x05",
         "unknown field 7 in n.B.Z; it fits n.A.Y, whose message indexes are the reverse"),
        # [1, 0, 0] in reverse is nothing.
        (b"\x06\x00\x00\x02",
         f"{NO_MESSAGE}; it fits n.B.Z.Deep, whose message indexes are the reverse"),
        (b"\x08\x06", "ends before its message indexes do; without message indexes, it fits n.C"),
        (inside(2, b"text"), "has a negative message index; without message indexes, it fits n.C"),
        (inside(1, b"\0" * 9), "has a negative message index; without message indexes, it fits n.A.X"),
        # Four indexes that mean a message.
        (b"\x08\x02\x00\x00\x00\x08\x01\x48\x01", "unknown field 9 in n.B.Z.Deep.Deeper"),
        (b"\x04\x02\x00\x0a\x09x", "ends in the middle of a field at id; it was read as n.B.Z"),
        (b"", "ends before its message indexes do"),
        (b"\x01\x00", "has a wrong number of message indexes, -1"),
    ],
)  # fmt: skip
def test_the_reason_names_the_message_that_was_read(payload, reason):
    of_file = schema(NESTED)
    assert of_file.objections([payload]) == [(0, f"Protobuf: {reason}")]
    assert of_file.objections([b"12345" + payload, b"12345\0"], 5) == [(0, f"Protobuf: {reason}")]


def test_indexes_in_reverse_and_none_are_never_accepted_by_accident():
    """As .NET's serializer 2.10.1 writes them, and kafkajs; Python's writes them as it must be."""
    of_file = schema(NESTED)
    types = {
        tuple(_create_index_array(each)): GetMessageClass(each)
        for each in _all_levels(of_file.messages)
    }
    chance = random.Random(52)
    refused = Counter()
    for _ in range(2000):
        indexes, message = chance.choice(list(types.items()))
        sent = message()
        for field in message.DESCRIPTOR.fields:
            if chance.random() < 0.8:
                setattr(sent, field.name, chance.choice(VALUES[field.type]))
        data = sent.SerializeToString()
        assert of_file.objections([prefix_of(indexes) + data]) == []
        assert [at for at, _ in of_file.objections([data])] == [0]
        reverse = indexes[::-1]
        other = types.get(reverse)
        fits = other is not None and not UnknownFieldSet(other.FromString(data))
        found = of_file.objections([prefix_of(reverse) + data])
        assert [at for at, _ in found] == ([] if fits else [0])
        refused[bool(found)] += 1
        if found:
            assert f"it fits {message.DESCRIPTOR.full_name}, whose" in found[0][1]
    assert min(refused.values()) > 200


VALUES = {
    FieldDescriptor.TYPE_STRING: ["", "a", "0" * 9, "\u00e4" * 70],
    FieldDescriptor.TYPE_INT64: [0, 1, 2, -1, 2**40],
    FieldDescriptor.TYPE_INT32: [0, 1, 2, -1, 2**20],
    FieldDescriptor.TYPE_BOOL: [False, True],
}


def prefix_of(indexes):
    return b"\0" if indexes == (0,) else b"".join(varint(2 * n) for n in (len(indexes), *indexes))


def test_a_named_message_has_no_indexes():
    order = schema(SHOP, "shop.Order")
    payload = inside(1, b"id")
    assert order.objections([payload, b"", b"\x00", b"\x48\x01"]) == [
        (2, "Protobuf: has a field with a number that no field can have"),
        (3, "Protobuf: unknown field 9 in shop.Order"),
    ]
    assert order.encode(order.decode(payload)) == payload


def test_unknown_fields_may_be_allowed():
    order = schema(SHOP, "shop.Order", unknown=True)
    payload = inside(1, b"id") + inside(9, b"more")
    assert order.objections([payload] * 300 + [payload[:-1]]) == [
        (300, "Protobuf: ends in the middle of a field")
    ]
    assert order.encode(order.decode(payload)) == payload


def test_enums(shop):
    assert shop.objections([LINE + b"\x20\x63"]) == []
    old = schema(OLD, "old.Part")
    assert old.objections([inside(1, b"n") + b"\x10\x01", inside(1, b"n") + b"\x10\x63"]) == [
        (1, "Protobuf: size has a number that its enum does not have")
    ]


def test_any_is_opaque(shop):
    any_of_garbage = inside(5, inside(1, b"type.example/shop.Order") + inside(2, b"\xff\xff"))
    assert shop.objections([b"\x02\x04" + any_of_garbage]) == []
    assert shop.objections([b"\x02\x04" + inside(5, b"\x48\x01")]) == [
        (
            0,
            "Protobuf: unknown field 9 in google.protobuf.Any at any; it was read as shop.Event",
        )
    ]


def test_many_ways_to_write_an_index_do_not_fill_the_memory(shop):
    for count in range(2000):
        shop.objections([b"\x02" + varint(2 * count)])
        shop.objections([b"\x82\x00\x00" if count % 2 else b"\x82\x80\x00\x00"])
    assert len(shop._by_prefix) <= 1000
    assert len(shop._checks) <= 12

"""Types that lose nothing: a value that a later field replaces is still there."""

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message_factory import GetMessageClass

from penstock.policies.schema_policy.payloads.protobuf.merging import merging
from tests.policies.schema_policy.payloads.protobuf.files import (
    DELIMITED,
    EDITION,
    OLD,
    SHOP,
    compiled,
    inside,
    pool_of,
)


def merged(text, name):
    return GetMessageClass(pool_of(text, merging).FindMessageTypeByName(name))


def test_members_of_a_oneof_are_all_kept():
    event = merged(SHOP, "shop.Event").FromString(inside(3, inside(1, b"a")) + inside(4, b"text"))
    assert event.address.street == "a"
    assert event.text == "text"


def test_repeated_messages_are_merged_and_numbers_stay():
    data = inside(3, inside(1, b"a")) + inside(3, b"\x10\x05") + b"\x20\x01" + inside(4, b"\x02")
    order = merged(SHOP, "shop.Order").FromString(data)
    assert order.lines.sku == "a"
    assert order.lines.quantity == 5
    assert list(order.codes) == [1, 2]


def test_entries_of_a_map_are_messages():
    place = inside(1, inside(1, b"home") + inside(2, inside(1, b"a")))
    event = merged(SHOP, "shop.Event").FromString(place + inside(1, inside(2, b"\x10\x02")))
    assert event.places.key == "home"
    assert event.places.value.street == "a"
    assert event.places.value.number == 1


def test_entries_of_a_map_begin_with_their_length_also_if_messages_are_groups():
    part = inside(1, b"a")
    data = inside(1, b"\x08\x01" + inside(2, part)) + inside(2, inside(1, b"n") + b"\x10\x02")
    groups = b"\x1b" + part + b"\x1c" + b"\x23\x08\x07\x24"

    whole = merged(DELIMITED, "groups.Whole").FromString(data + groups + inside(5, part))

    assert whole.named.key == 1
    assert whole.named.value.name == "a"
    assert whole.counted.value == 2
    assert whole.part.name == "a"
    assert whole.entries.x == 7
    assert whole.prefixed.name == "a"
    before = whole.ByteSize()
    whole.DiscardUnknownFields()
    assert whole.ByteSize() == before


def test_nothing_is_required():
    assert merged(OLD, "old.Whole").FromString(inside(3, b"")).IsInitialized()
    assert merged(EDITION, "modern.Item").FromString(b"").IsInitialized()


def test_the_file_itself_is_not_changed():
    for file in FileDescriptorSet.FromString(compiled(OLD)).file:
        before = file.SerializeToString()
        merging(file)
        assert file.SerializeToString() == before

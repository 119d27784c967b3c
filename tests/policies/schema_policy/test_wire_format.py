"""Ids and GUIDs where the documentation and real serializers have them, and bytes that lie."""

import random
import struct
import uuid
from collections import Counter

import pytest

from penstock.policies.schema_policy.wire_format import (
    KEY_HEADER,
    VALUE_HEADER,
    FramedId,
    FramingError,
    Group,
    SchemaIdHeader,
    SchemaIdLocation,
    check_header,
    find_id,
    groups_of,
    shared_start,
    start_of,
)
from penstock.policy import Header

GUID = "89791762-2336-4186-9674-299b90a802e2"
ID_17 = b"\0\0\0\0\x11"
GUID_BYTES = b"\1" + uuid.UUID(GUID).bytes


def found(data, *headers, is_key=False, location=SchemaIdLocation.ANY, header=SchemaIdHeader.LAST):
    return find_id(data, headers, is_key=is_key, location=location, header=header)


def test_an_id_is_a_prefix_of_five_bytes():
    framed = found(ID_17 + b"payload")
    assert framed == FramedId(17, 5)
    assert framed.payload(ID_17 + b"payload") == b"payload"


def test_a_guid_is_a_prefix_of_seventeen_bytes():
    framed = found(GUID_BYTES + b"payload")
    assert framed == FramedId(GUID, 17)
    assert framed.payload(GUID_BYTES + b"payload") == b"payload"


@pytest.mark.parametrize(("is_key", "name"), [(False, VALUE_HEADER), (True, KEY_HEADER)])
def test_a_header_wins_over_a_prefix(is_key, name):
    other = KEY_HEADER if name == VALUE_HEADER else VALUE_HEADER
    framed = found(ID_17, Header("trace", b"1"), Header(name, GUID_BYTES), is_key=is_key)
    assert framed == FramedId(GUID, 0)
    assert framed.payload(ID_17) == ID_17, "all bytes are payload"
    assert found(ID_17, Header(other, GUID_BYTES), is_key=is_key) == FramedId(17, 5)


def test_an_id_in_a_header_counts_as_well():
    assert found(b"payload", Header(VALUE_HEADER, ID_17)) == FramedId(17, 0)


def test_message_indexes_of_protobuf_follow_the_id_in_its_header():
    framed = found(b"message", Header(VALUE_HEADER, GUID_BYTES + b"\x02\x04"))
    assert framed == FramedId(GUID, 0, b"\x02\x04")
    assert framed.payload(b"message") == b"\x02\x04message"


def test_a_header_without_a_value_is_ignored():
    assert found(ID_17, Header(VALUE_HEADER, None)) == FramedId(17, 5)


def test_the_last_header_counts_or_the_first():
    """As in Confluent's Java clients, which read `lastHeader`, and in its Python client."""
    forwarded, added = Header(VALUE_HEADER, GUID_BYTES), Header(VALUE_HEADER, ID_17 + b"\2\4")
    of_key = Header(KEY_HEADER, b"\0\0\0\0\x05")
    headers = (of_key, forwarded, Header("trace", b"1"), added, of_key)

    assert found(b"", *headers) == FramedId(17, 0, b"\2\4")
    assert found(b"", *headers, header=SchemaIdHeader.FIRST) == FramedId(GUID, 0)
    assert found(b"", *headers, is_key=True) == FramedId(5, 0)
    assert found(b"", forwarded, forwarded).schema == GUID


def test_the_header_that_counts_may_have_no_value():
    empty, other = Header(VALUE_HEADER, None), Header(VALUE_HEADER, GUID_BYTES)

    assert found(ID_17, other, empty) == FramedId(17, 5)
    assert found(ID_17, empty, other).schema == GUID
    assert found(ID_17, empty, other, header=SchemaIdHeader.FIRST) == FramedId(17, 5)
    with pytest.raises(FramingError, match="there is no header __value_schema_id"):
        found(ID_17, other, empty, location=SchemaIdLocation.HEADER)
    with pytest.raises(FramingError, match="does not begin with a schema id"):
        found(b"payload", other, Header(VALUE_HEADER, b"x"))


def test_random_headers_are_found_as_confluents_python_client_finds_them():
    """It reads the first header; the last is the first of the headers in reverse."""
    from confluent_kafka.schema_registry import dual_schema_id_deserializer
    from confluent_kafka.schema_registry.common.serde import SchemaId
    from confluent_kafka.serialization import (
        MessageField,
        SerializationContext,
        SerializationError,
    )

    random_ = random.Random(52)
    outcomes = Counter()
    for _ in range(2000):
        headers = [
            Header(
                random_.choice([VALUE_HEADER, KEY_HEADER, "trace"]),
                random_.choice([GUID_BYTES, ID_17, b"\0\0\0\0\7", None, b"\2", b""]),
            )
            for _ in range(random_.randrange(5))
        ]
        for header, ordered in (
            (SchemaIdHeader.FIRST, headers),
            (SchemaIdHeader.LAST, headers[::-1]),
        ):
            context = SerializationContext("t", MessageField.VALUE, list(map(tuple, ordered)))
            expected = SchemaId("AVRO")
            try:
                dual_schema_id_deserializer(ID_17 + b"payload", context, expected)
                read = expected.id or str(expected.guid)
            except (SerializationError, ValueError, IndexError, struct.error):
                read = None
            try:
                ours = found(ID_17 + b"payload", *headers, header=header).schema
            except FramingError:
                ours = None
            assert ours == read, (headers, header)
            outcomes[ours] += 1
    assert set(outcomes) == {GUID, 17, 7, None}


def test_a_required_place_is_the_only_one():
    with pytest.raises(FramingError, match="no schema id: there is no header __value_schema_id"):
        found(ID_17, location=SchemaIdLocation.HEADER)
    with pytest.raises(FramingError, match="does not begin with a schema id"):
        found(b"payload", Header(VALUE_HEADER, GUID_BYTES), location=SchemaIdLocation.PREFIX)
    assert found(b"", Header(VALUE_HEADER, ID_17), location=SchemaIdLocation.HEADER).schema == 17
    assert found(ID_17, Header(VALUE_HEADER, b"x"), location=SchemaIdLocation.PREFIX).schema == 17


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "is empty, without a schema id"),
        (b"\0", "is 1 byte long, too short for a schema id (5 bytes)"),
        (b"\0\0\0\0", "is 4 bytes long, too short for a schema id (5 bytes)"),
        (GUID_BYTES[:-1], "is 16 bytes long, too short for a GUID of a schema (17 bytes)"),
        (b'{"secret": 1}', "does not begin with a schema id (its first byte is neither 0 nor 1)"),
        (b"\0\0\0\0\0rest", "begins with the schema id 0; ids are positive"),
        (b"\0\xff\xff\xff\xff", "begins with the schema id -1; ids are positive"),
        (b"\0\x80\0\0\0", "begins with the schema id -2147483648; ids are positive"),
    ],
)
def test_an_invalid_id_is_refused_in_a_prefix_and_in_a_header(data, text):
    with pytest.raises(FramingError) as caught:
        found(data)
    assert str(caught.value) == text
    with pytest.raises(FramingError) as caught:
        found(ID_17, Header(VALUE_HEADER, data))
    assert str(caught.value) == f"has a header {VALUE_HEADER} that {text}"


def test_the_largest_id_is_valid():
    assert found(b"\0\x7f\xff\xff\xff").schema == 2**31 - 1


@pytest.mark.parametrize("indexes", [b"\0", b"\2\0", b"\2\2", b"\4\2\x80\1", b"\x40" + b"\0" * 32])
def test_a_header_may_end_with_message_indexes(indexes):
    check_header(FramedId(17, 0, indexes), "PROTOBUF")
    for other in ("AVRO", "JSON"):
        with pytest.raises(FramingError, match=f"has {len(indexes)} bytes too many in the header"):
            check_header(FramedId(17, 0, indexes), other)


@pytest.mark.parametrize(
    "indexes",
    [
        b"",  # a reader would take them from the message
        b"\2",
        b"\4\2",
        b"\0\0",
        b"\2\2x",
        b"\1",  # -1 of them
        b"\2\1",  # the index -1
        b"\x80",
        b"\x80\x80\x80\x80\x80\1",
        b"\xff\xff\xff\xff\x0f",
        b"\x42" + b"\0" * 33,
    ],
)
def test_a_header_that_does_not_end_with_whole_message_indexes_is_refused(indexes):
    with pytest.raises(FramingError, match="does not end with Protobuf's message indexes"):
        check_header(FramedId(17, 0, indexes), "PROTOBUF")


def test_a_header_is_not_checked_if_the_id_is_a_prefix():
    for schema_type in ("AVRO", "PROTOBUF", "JSON"):
        check_header(FramedId(17, 5), schema_type)
        check_header(FramedId(GUID, 17), schema_type)
    check_header(FramedId(17, 0), "AVRO")


def grouped(column, headers=None, *, is_key=False, location=SchemaIdLocation.ANY):
    headers = [()] * len(column) if headers is None else headers
    return groups_of(column, headers, is_key=is_key, location=location)


def test_the_shared_start():
    assert start_of(17) == ID_17
    assert shared_start([ID_17 + bytes([number]) for number in range(100)]) == ID_17
    assert shared_start([ID_17, ID_17 + b"x", b"\0\0\0\0\x12"]) is None
    assert shared_start([b"\0\0", b"\0\0"]) == b"\0\0"
    assert shared_start([b"\0\0", ID_17]) is None
    assert shared_start([ID_17, None]) is None
    assert shared_start([]) is None


def test_a_batch_with_a_single_id_is_one_group():
    column = [ID_17 + bytes([number]) for number in range(100)]
    assert grouped(column) == ([Group(FramedId(17, 5), range(100))], [])
    assert grouped(column, location=SchemaIdLocation.PREFIX) == (
        [Group(FramedId(17, 5), range(100))],
        [],
    )


def test_a_bad_record_in_the_middle_is_found():
    column = [ID_17] * 100
    column[50] = b"{}"
    groups, objections = grouped(column)
    assert groups == [Group(FramedId(17, 5), [number for number in range(100) if number != 50])]
    assert objections == [
        (50, "does not begin with a schema id (its first byte is neither 0 nor 1)")
    ]


def test_a_batch_with_an_invalid_id_has_only_objections():
    groups, objections = grouped([b"\0\0\0\0\0"] * 3)
    assert groups == []
    assert [position for position, _ in objections] == [0, 1, 2]


def test_nothing_and_nulls_are_in_no_group():
    assert grouped([]) == ([], [])
    assert grouped([None, None]) == ([], [])
    assert grouped([None, ID_17, None]) == ([Group(FramedId(17, 5), [1])], [])
    assert grouped([ID_17, None]) == ([Group(FramedId(17, 5), [0])], [])


def test_a_single_header_among_many_records_counts():
    headers = [()] * 10
    headers[7] = (Header("trace", b"1"), Header(VALUE_HEADER, GUID_BYTES))
    groups, _ = grouped([ID_17] * 10, headers)
    assert groups == [
        Group(FramedId(17, 5), [0, 1, 2, 3, 4, 5, 6, 8, 9]),
        Group(FramedId(GUID, 0), [7]),
    ]
    assert grouped([ID_17] * 10, headers, is_key=True)[0] == [Group(FramedId(17, 5), range(10))]


def test_batches_by_chance_are_grouped_as_each_record_is_found():
    chance = random.Random(20)
    pieces = [ID_17, GUID_BYTES, b"\0\0\0\0\x12", b"\0\0\0\0\0", b"", b"{", b"\1\2", None]
    for _ in range(2000):
        column = [
            None if piece is None else piece + b"x" * chance.randrange(2)
            for piece in chance.choices(pieces, k=chance.randrange(12))
        ]
        headers = [
            tuple(
                Header(chance.choice([KEY_HEADER, VALUE_HEADER, "other"]), chance.choice(pieces))
                for _ in range(chance.choice([0, 0, 1, 2]))
            )
            for _ in column
        ]
        is_key, location = chance.random() < 0.5, chance.choice(list(SchemaIdLocation))
        groups, objections = grouped(column, headers, is_key=is_key, location=location)
        ids = {position: group.framed_id for group in groups for position in group.positions}
        ids |= dict(objections)
        assert len(ids) == sum(len(group.positions) for group in groups) + len(objections)
        assert len({group.framed_id for group in groups}) == len(groups)
        for position, data in enumerate(column):
            try:
                expected = (
                    None
                    if data is None
                    else find_id(data, headers[position], is_key=is_key, location=location)
                )
            except FramingError as error:
                expected = str(error)
            assert ids.get(position) == expected

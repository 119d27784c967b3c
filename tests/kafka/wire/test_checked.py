"""Announced lengths are compared with the received bytes before memory is allocated."""

import dataclasses
import io
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from penstock.kafka.wire.checked import checked
from penstock.kafka.wire.client_requests import read_request
from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.primitives import varint
from penstock.kafka.wire.schemas import ADDED, load_request_schema
from penstock.kafka.wire.slices import finish
from tests.integration.samples import smallest
from tests.raw import request_frame

REQUESTS = [
    (api_key, version)
    for api_key in sorted(api_key_map)
    for version, entities in sorted(schema_name_map[api_key_map[api_key]].items())
    if EntityType.request in entities
] + [(api_key, version) for api_key, (_, version) in ADDED.items()]


def written(entity) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


@pytest.mark.parametrize("api_key", sorted(api_key_map), ids=api_key_map.get)
def test_entities_of_the_protocol_library_fit_its_schema(api_key):
    for _, version in (request for request in REQUESTS if request[0] == api_key):
        schema = load_request_schema(api_key, version)
        data = written(smallest(schema))
        read, end = checked(b"ab" + data + b"c", 2, schema)
        assert (read, end) == (data, 2 + len(data)), f"version {version}"


def test_announced_entries_that_are_missing_are_an_error():
    """The protocol library would allocate 32 GiB, and the process would end."""
    schema = load_request_schema(32, 4)
    frame = request_frame(smallest(schema), 7)
    at = frame.index(b"\x01", 15)  # an empty array, in compact form
    for count in (0xFFFFFFFF, 2**31, 1_000, 3):
        body = frame[4:at] + varint(count) + frame[at + 1 :]
        with pytest.raises(WireError):
            finish(read_request(struct.pack(">i", len(body)) + body).read_body())


def test_unknown_tagged_fields_are_left_out_at_every_depth():
    schema = load_request_schema(19, 7)
    topic = __import__(schema.__module__, fromlist=["x"]).CreatableTopic
    entity = dataclasses.replace(smallest(schema), topics=(smallest(topic),))
    data = written(entity)
    tagged = b"\x01\x63\x02hi"
    inner = data.replace(written(smallest(topic)), written(smallest(topic))[:-1] + tagged)
    read, end = checked(inner[:-1] + tagged, 0, schema)
    assert end == len(inner) - 1 + len(tagged)
    assert read == data
    assert entity_reader(schema)(read, 0)[0] == entity


@pytest.mark.parametrize("tags", [b"\x01\x63\x7f", b"\xff\xff\xff\xff\x0f", b"\x01\xff"])
def test_truncated_tagged_fields_are_an_error(tags):
    schema = load_request_schema(19, 7)
    with pytest.raises(WireError):
        checked(written(smallest(schema))[:-1] + tags, 0, schema)


@pytest.mark.parametrize("api_key", [19, 20, 37, 33, 44, 32])
def test_null_in_a_field_that_is_not_nullable_is_an_error(api_key):
    """As at brokers, which close the connection."""
    first = min(
        version
        for version, entities in schema_name_map[api_key_map[api_key]].items()
        if EntityType.request in entities
    )
    schema = load_request_schema(api_key, first)
    data = written(smallest(schema))
    with pytest.raises(WireError):
        checked(b"\xff\xff\xff\xff" + data[4:], 0, schema)


@given(st.sampled_from(REQUESTS), st.randoms(use_true_random=False), st.integers(1, 4))
def test_random_bytes_are_refused_or_read(request_version, chance: random.Random, count):
    schema = load_request_schema(*request_version)
    data = bytearray(written(smallest(schema)))
    for _ in range(count):
        at = chance.randrange(len(data) + 1)
        data[at : at + 1] = chance.choice(
            [
                b"",
                b"\xff",
                b"\x00",
                b"\xff\xff\xff\xff\x0f",
                b"\x7f\xff",
                bytes([chance.randrange(256)]),
            ]
        )
    try:
        read, end = checked(bytes(data), 0, schema)
    except WireError:
        return
    assert end <= len(data)
    assert len(read) <= len(data)


def test_a_client_id_that_is_not_utf_8_is_decoded_as_at_brokers():
    frame = request_frame(smallest(load_request_schema(19, 7)), 1, "till")
    found = read_request(frame.replace(b"till", b"t\xffll"))
    assert found.client_id == "t\ufffdll"
    assert b"t\xffll" in finish(found.with_body(finish(found.read_body())))

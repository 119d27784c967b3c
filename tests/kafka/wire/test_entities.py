"""Entities with many entries are read and written as by the protocol library, in slices."""

import dataclasses
import io

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32

from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.requests.entities import SLICE_ENTRIES, read_in_slices, write_in_slices
from penstock.kafka.wire.schemas import load_request_schema, load_response_schema
from penstock.kafka.wire.slices import finish
from penstock.kafka.wire.structures import structure_of
from tests.integration.samples import smallest

STREAMS_GROUP_HEARTBEAT = 88
REQUESTS = [(19, 7), (19, 2), (20, 5), (20, 6), (21, 2), (32, 4), (33, 0), (33, 2), (37, 3), (44, 0),
            (44, 1), (3, 1), (3, 12), (88, 0), (9, 8), (68, 0)]  # fmt: skip
RESPONSES = [(19, 7), (20, 6), (32, 1), (33, 2), (37, 3), (44, 1), (3, 12), (3, 1)]
KINDS = [load_request_schema(*request) for request in REQUESTS] + [
    load_response_schema(*response) for response in RESPONSES
]


def filled(kind, counts):
    """Return an entity whose arrays have the given numbers of entries, by depth."""
    entity = smallest(kind)
    changes = {}
    for field in structure_of(kind).fields:
        if field.kafka_type == "error_code":
            changes[field.name] = ErrorCode(3)
        elif not counts:
            continue
        elif field.structure is not None and field.array:
            entry = filled(field.structure.kind, counts[1:])
            changes[field.name] = (entry,) * counts[0]
        elif field.structure is not None and field.nullable:
            changes[field.name] = filled(field.structure.kind, counts)
        elif field.array:
            value = {"string": "text", "int32": i32(7), "int16": i16(7)}[field.kafka_type]
            changes[field.name] = (value,) * counts[0]
    return dataclasses.replace(entity, **changes)


def written(entity) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def counted(slices):
    """Return the result of work in slices, and the number of slices."""
    count = 0
    while True:
        count += 1
        try:
            next(slices)
        except StopIteration as end:
            return end.value, count


@pytest.mark.parametrize(
    "counts", [(), (1, 1), (3, 2, 1), (1, 1000), (1000, 1), (2, 300, 1), (1, 1, 600)]
)
@pytest.mark.parametrize(
    "kind", KINDS, ids=lambda entity: f"{entity.__name__}-{entity.__version__}"
)
def test_entities_are_read_and_written_as_by_the_protocol_library(kind, counts):
    entity = filled(kind, counts)
    data = written(entity)
    assert counted(write_in_slices(entity))[0] == data
    (read, end), _ = counted(read_in_slices(b"ab" + data + b"c", 2, kind))
    assert (read, end) == (entity, 2 + len(data))
    assert read == entity_reader(kind)(data, 0)[0]


@pytest.mark.parametrize(
    ("api_key", "version", "counts"),
    [
        (44, 1, (20_000, 1)),
        (44, 1, (1, 40_000)),
        (19, 7, (1, 24_000)),
        (20, 5, (40_000,)),
        (20, 6, (40_000,)),
        (21, 2, (1, 40_000)),
        (STREAMS_GROUP_HEARTBEAT, 0, (1, 4_000)),
    ],
)
def test_many_entries_are_read_in_many_slices(api_key, version, counts):
    """Otherwise a turn of the event loop took 0.3 s."""
    kind = load_request_schema(api_key, version)
    entity = filled(kind, counts)
    slices = 20_000 // SLICE_ENTRIES
    data, count = counted(write_in_slices(entity))
    assert count >= slices or api_key == STREAMS_GROUP_HEARTBEAT, (
        "the gateway does not write this API"
    )
    (read, _), count = counted(read_in_slices(data, 0, kind, most_entries=50_000))
    assert read == entity
    assert count >= slices


def test_few_entries_are_a_single_slice():
    kind = load_request_schema(44, 1)
    entity = filled(kind, (3, 2))
    data, count = counted(write_in_slices(entity))
    assert count == 1
    assert counted(read_in_slices(data, 0, kind)) == ((entity, len(data)), 1)


@pytest.mark.parametrize("counts", [(60_000,), (1, 60_000), (2, 30_000), (200, 300)])
def test_more_entries_than_allowed_are_an_error(counts):
    kind = load_request_schema(44, 1)
    data = finish(write_in_slices(filled(kind, counts)))
    with pytest.raises(WireError, match="too many entries"):
        finish(read_in_slices(data, 0, kind, most_entries=50_000))


@pytest.mark.parametrize("counts", [(1, 400), (400, 1), (2, 2)])
def test_a_truncated_entity_is_an_error(counts):
    kind = load_request_schema(44, 1)
    data = finish(write_in_slices(filled(kind, counts)))
    for end in (*range(0, len(data), 97), len(data) - 1):
        with pytest.raises(WireError):
            finish(read_in_slices(data[:end], 0, kind))


def test_unknown_tagged_fields_are_left_out():
    kind = load_request_schema(44, 1)
    entity = filled(kind, (400, 1))
    data = finish(write_in_slices(entity))
    [form] = {written(resource) for resource in entity.resources}
    tagged = b"\x01\x63\x02hi"
    longer = data.replace(form, form[:-1] + tagged)[:-1] + tagged
    assert finish(read_in_slices(longer, 0, kind)) == (entity, len(longer))


def test_announced_entries_that_are_missing_are_an_error():
    kind = load_request_schema(44, 1)
    for count in (b"\xff\xff\xff\xff\x0f", b"\x85\x10", b"\x00"):
        with pytest.raises(WireError):
            finish(read_in_slices(count + bytes(30), 0, kind))

"""Every address in every response that has one is found."""

import dataclasses
import tracemalloc

import pytest
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from penstock.gateway.sessions.routes import VERSIONS, route
from penstock.kafka.wire.addresses import holds_addresses, replace_in_slices
from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.primitives import varint
from penstock.kafka.wire.schemas import load_response_schema
from tests.kafka.wire.entities import coordinators, filled, in_slices, written
from tests.raw import parse_response
from tests.readdressed import is_readdressed

# Offered to brokers and controllers only, or no broker's address (streams: the application's; a
# quorum: the controllers', which are not brokers' even where one process is both).
NOT_OF_BROKERS = {52, 53, 54, 55, 59, 82, 88, 89}
CASES = [
    (api_key, version)
    for api_key, name in api_key_map.items()
    for version, entities in schema_name_map[name].items()
    if EntityType.response in entities and is_readdressed(api_key, version)
]


def replaced(frame, api_key, version, replace) -> bytes:
    """Replace the addresses, in as many slices as necessary."""
    return b"".join(in_slices(replace_in_slices(frame, api_key, version, replace))[0])


def test_every_response_schema_with_an_address_is_known():
    holding = {
        (api_key, version)
        for api_key, name in api_key_map.items()
        for version, entities in schema_name_map[name].items()
        if EntityType.response in entities and api_key not in NOT_OF_BROKERS
        if holds_addresses(api_key, version)
    }

    streamed = {place for place in holding if route(place[0]).rewrite is not None}
    beyond = {place for place in holding - streamed if not is_readdressed(*place)}
    assert {api_key for api_key, _ in streamed} == {78}
    assert all(version > VERSIONS[api_key][1] for api_key, version in beyond)
    assert {api_key for api_key, _ in holding} == {0, 1, 3, 10, 60, 78, 79}


@pytest.mark.parametrize(("api_key", "version"), CASES)
def test_only_addresses_are_replaced(api_key, version):
    schema = load_response_schema(api_key, version)
    entity = filled(schema, [0])
    frame = written(entity)
    seen = []

    def replace(node: int, host: str, port: int) -> tuple[str, int]:
        seen.append((node, host, port))
        return f"gateway{'x' * (node % 90)}", 100 + node

    result = replaced(frame, api_key, version, replace)

    assert seen
    assert all((host, port) == (f"broker-{n}.example", 9000 + n) for n, host, port in seen)
    assert b"broker-" not in result

    def expected(value, node=0):
        if isinstance(value, tuple):
            return tuple(expected(item, node) for item in value)
        if not dataclasses.is_dataclass(value):
            return value
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        node = fields.get("node_id", fields.get("broker_id", node))
        if "host" in fields:
            fields |= {"host": f"gateway{'x' * (node % 90)}", "port": 100 + node}
        return dataclasses.replace(
            value, **{name: expected(field, node) for name, field in fields.items()}
        )

    assert parse_response(result, api_key, version) == expected(entity)
    assert replaced(frame, api_key, version, lambda _, h, p: (h, p)) == frame


@pytest.mark.parametrize(("api_key", "version"), [(3, 12), (10, 4), (0, 13), (60, 1)])
def test_a_truncated_response_is_an_error(api_key, version):
    frame = written(filled(load_response_schema(api_key, version), [0]))
    with pytest.raises(WireError):
        replaced(frame[:25], api_key, version, lambda n, h, p: (h, p))


def to_gateway(node: int, _host: str, _port: int) -> tuple[str, int]:
    return f"gateway-{node}", 100 + node


@pytest.mark.parametrize(("key", "brokers"), [(b"k", 1), (b"a key", 3), (bytes(200), 2), (b"", 5)])
def test_each_of_many_coordinators_gets_its_address(key, brokers):
    frame = coordinators(2500, brokers=brokers, key=key)
    result = replaced(frame, 10, 4, to_gateway)
    found = parse_response(result, 10, 4).coordinators
    assert [
        (address.key.encode(), address.node_id, address.host, address.port) for address in found
    ] == [
        (key, number % brokers, f"gateway-{number % brokers}", 100 + number % brokers)
        for number in range(2500)
    ]


def test_a_long_response_is_read_in_slices_with_memory_proportional_to_its_bytes():
    frame = coordinators(100_000, brokers=3)
    tracemalloc.start()
    buffers, slices = in_slices(replace_in_slices(frame, 10, 4, to_gateway))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 90 <= slices <= 180
    assert most < 3 * sum(map(len, buffers))


def with_tags(tags):
    """A response to Produce of partitions with unknown tagged fields."""
    partitions = b"".join(bytes(4 + 2 + 8 + 8 + 8) + b"\x01\x00" + tag for tag in tags)
    topic = bytes(16) + varint(len(tags) + 1) + partitions + b"\x00"
    body = (7).to_bytes(4, "big") + b"\x00\x02" + topic + bytes(4) + b"\x00"
    return len(body).to_bytes(4, "big") + body


def test_tagged_fields_count_as_steps_and_their_number_is_limited():
    few, many = (varint(count) + b"\x7f\x00" * count for count in (500, 100_000))
    buffers, slices = in_slices(replace_in_slices(with_tags([few] * 100), 0, 13, to_gateway))
    assert b"".join(buffers) == with_tags([few] * 100)
    assert 40 <= slices <= 80
    with pytest.raises(WireError, match="tagged fields"):
        in_slices(replace_in_slices(with_tags([many]), 0, 13, to_gateway))


def test_a_response_with_many_partitions_is_read_in_slices():
    partition = bytes(4 + 2 + 8 + 8 + 8) + b"\x01\x00\x00"
    topic = bytes(16) + varint(20_001) + partition * 20_000 + b"\x00"
    nodes = b"\x02" + (3).to_bytes(4, "big") + b"\x05host" + bytes(4) + b"\x01\x00"
    tags = b"\x01\x00" + varint(len(nodes)) + nodes
    body = (7).to_bytes(4, "big") + b"\x00\x02" + topic + bytes(4) + tags
    frame = len(body).to_bytes(4, "big") + body
    buffers, slices = in_slices(replace_in_slices(frame, 0, 13, to_gateway))
    assert 10 <= slices <= 25
    assert b"gateway-3" in b"".join(buffers)
    assert len(buffers) < 10

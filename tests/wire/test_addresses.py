"""Every address in every response that has one is found."""

import dataclasses
import datetime
import io
import typing
import uuid

import pytest
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_writer
from kio.static.constants import EntityType

from penstock.gateway.routes import VERSIONS
from penstock.wire.addresses import holds_addresses, replace_addresses
from penstock.wire.errors import WireError
from tests.raw import parse_response
from tests.readdressed import is_readdressed

# Offered to brokers and controllers only, or no broker's address (streams: the application's).
NOT_FOR_CLIENTS = {52, 53, 54, 59, 82, 88, 89}
CASES = [
    (api_key, version)
    for api_key, name in api_key_map.items()
    for version, entities in schema_name_map[name].items()
    if EntityType.response in entities and is_readdressed(api_key, version)
]


SOME = {
    "string": "text",
    "bytes": b"bytes",
    "records": b"records",
    "bool": True,
    "uuid": uuid.UUID(int=7),
    "error_code": ErrorCode(0),
    "timedelta_i32": datetime.timedelta(0),
}


def filled(schema, counter):
    """An entity whose arrays have two elements and whose addresses are numbered."""
    fields = {}
    for field in dataclasses.fields(schema):
        kind = field.type
        choices = typing.get_args(kind)
        array = tuple in {typing.get_origin(kind), *map(typing.get_origin, choices)}
        kafka_type = field.metadata.get("kafka_type")
        if kafka_type is None:
            inner = kind
            if array:
                inner = next(
                    typing.get_args(c)[0] if typing.get_origin(c) is tuple else c
                    for c in ((kind,) if typing.get_origin(kind) is tuple else choices)
                )
            fields[field.name] = (
                (filled(inner, counter), filled(inner, counter))
                if array
                else filled(inner, counter)
            )
        elif field.name in {"node_id", "broker_id"}:
            counter[0] += 1
            fields[field.name] = counter[0]
        elif field.name == "host":
            fields[field.name] = f"broker-{counter[0]}.example"
        elif field.name == "port":
            fields[field.name] = 9000 + counter[0]
        elif array:
            fields[field.name] = ()
        elif field.default is dataclasses.MISSING:
            fields[field.name] = SOME.get(kafka_type, 0)
    return schema(**fields)


def written(entity) -> bytes:
    buffer = io.BytesIO()
    header = entity.__header_schema__
    entity_writer(header)(buffer, header(correlation_id=7))
    entity_writer(type(entity))(buffer, entity)
    body = buffer.getvalue()
    return len(body).to_bytes(4, "big") + body


def test_every_response_with_an_address_is_known():
    holding = {
        (api_key, version)
        for api_key, name in api_key_map.items()
        for version, entities in schema_name_map[name].items()
        if EntityType.response in entities and api_key not in NOT_FOR_CLIENTS
        if holds_addresses(api_key, version)
    }

    beyond = {place for place in holding if not is_readdressed(*place)}
    assert all(version > VERSIONS[api_key][1] for api_key, version in beyond)
    assert {api_key for api_key, _ in holding} == {0, 1, 3, 10, 55, 60, 78, 79}


@pytest.mark.parametrize(("api_key", "version"), CASES)
def test_addresses_are_replaced_and_nothing_else(api_key, version):
    schema = load_response_schema(api_key, version)
    entity = filled(schema, [0])
    frame = written(entity)
    seen = []

    def replace(node: int, host: str, port: int) -> tuple[str, int]:
        seen.append((node, host, port))
        return f"gateway{'x' * (node % 90)}", 100 + node

    result = b"".join(replace_addresses(frame, api_key, version, replace))

    assert seen
    assert all((host, port) == (f"broker-{n}.example", 9000 + n) for n, host, port in seen)
    assert b"broker-" not in result

    def expected(value, node=0):
        if isinstance(value, tuple):
            return tuple(expected(one, node) for one in value)
        if not dataclasses.is_dataclass(value):
            return value
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        node = fields.get("node_id", fields.get("broker_id", node))
        if "host" in fields:
            fields |= {"host": f"gateway{'x' * (node % 90)}", "port": 100 + node}
        return dataclasses.replace(
            value, **{name: expected(one, node) for name, one in fields.items()}
        )

    assert parse_response(result, api_key, version) == expected(entity)
    assert b"".join(replace_addresses(frame, api_key, version, lambda _, h, p: (h, p))) == frame


@pytest.mark.parametrize(("api_key", "version"), [(3, 12), (10, 4), (0, 13), (60, 1)])
def test_a_response_that_ends_too_early_is_an_error(api_key, version):
    frame = written(filled(load_response_schema(api_key, version), [0]))
    with pytest.raises(WireError):
        replace_addresses(frame[:25], api_key, version, lambda n, h, p: (h, p))

"""Responses with entities of a schema, read in slices."""

import dataclasses
import datetime
import io
import typing
import uuid
from collections.abc import Iterator
from typing import Any

from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from penstock.kafka.wire.primitives import varint

SOME = {
    "string": "text",
    "bytes": b"bytes",
    "records": b"records",
    "bool": True,
    "uuid": uuid.UUID(int=7),
    "error_code": ErrorCode(0),
    "timedelta_i32": datetime.timedelta(0),
}


def filled(schema: type, counter: list[int]) -> Any:
    """Return an entity whose arrays have two elements and whose addresses are numbered."""
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


def in_slices(steps: Iterator[object]) -> tuple[object, int]:
    """Return the result of work in slices, and the number of slices."""
    slices = 1
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, slices
        slices += 1


def written(entity: Any) -> bytes:
    buffer = io.BytesIO()
    header = entity.__header_schema__
    entity_writer(header)(buffer, header(correlation_id=7))
    entity_writer(type(entity))(buffer, entity)
    body = buffer.getvalue()
    return len(body).to_bytes(4, "big") + body


def coordinators(count: int, *, brokers: int = 1, key: bytes = b"key") -> bytes:
    """A response to FindCoordinator version 4 with many keys."""
    ends = [
        node.to_bytes(4, "big") + b"\x08brokers" + (9000 + node).to_bytes(4, "big") + bytes(2)
        + b"\x01\x00"
        for node in range(brokers)
    ]  # fmt: skip
    elements = b"".join(
        varint(len(key) + 1) + key + ends[number % brokers] for number in range(count)
    )
    body = (7).to_bytes(4, "big") + b"\x00" + bytes(4) + varint(count + 1) + elements + b"\x00"
    return len(body).to_bytes(4, "big") + body

"""Responses to share fetches."""

import dataclasses
from typing import Any

from penstock.kafka.wire.primitives import read_varint, skip_tags, varint
from penstock.kafka.wire.schemas import load_response_schema
from tests.kafka.wire.entities import filled


def response(version: int, **partition: object) -> Any:
    entity = filled(load_response_schema(78, version), [0])
    topics = tuple(
        dataclasses.replace(
            topic,
            partitions=tuple(dataclasses.replace(each, **partition) for each in topic.partitions),
        )
        for topic in entity.responses
    )
    return dataclasses.replace(entity, responses=topics)


def without_filler(frame: bytes) -> bytes:
    """Remove the tagged field at the end, as a client ignores it."""
    for start in range(len(frame) - 3, 0, -1):
        if frame[start : start + 2] == b"\x01\x01":
            tag = read_varint(frame, start + 2)[0]
            if skip_tags(frame, start + 1) == len(frame) and tag in {127, 16383}:
                body = frame[4:start] + b"\x01\x00"
                return len(body).to_bytes(4, "big") + body
    raise AssertionError("no filler")


def small_partitions(count: int) -> bytes:
    partition = bytes(6) + b"\x00" + bytes(2) + b"\x00" + bytes(8) + b"\x00\x00\x01\x00"
    topic = bytes(16) + varint(count + 1) + partition * count + b"\x00"
    body = bytes(4) + b"\x00" + bytes(6) + b"\x00" + bytes(4) + b"\x02" + topic + b"\x01\x00"
    return len(body).to_bytes(4, "big") + body

"""Asks a broker for topic names and ids: Metadata (API key 3) version 12.

Version 12 is the first that answers by id (Kafka 3.1). Nothing is created by asking.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.types import TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32

from penstock.wire.errors import WireError
from penstock.wire.primitives import INT32, skip_tags

if TYPE_CHECKING:
    from collections.abc import Iterable

NO_ID: Final = UUID(int=0)
_write_header = entity_writer(RequestHeader)
_write_request = entity_writer(MetadataRequest)
_read_response = entity_reader(MetadataResponse)


class FoundTopic(NamedTuple):
    """What the broker says of one topic: an error code, or both its name and id."""

    code: int
    name: str | None
    topic_id: UUID


def request(correlation_id: int, *, names: Iterable[str], ids: Iterable[UUID]) -> bytes:
    """Write a request for some topics, length included."""
    by_name = (MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in names)
    by_id = (MetadataRequestTopic(topic_id=one, name=None) for one in ids)
    buffer = io.BytesIO()
    _write_header(
        buffer,
        RequestHeader(
            request_api_key=i16(3),
            request_api_version=i16(12),
            correlation_id=i32(correlation_id),
            client_id="penstock",
        ),
    )
    _write_request(
        buffer,
        MetadataRequest(
            topics=(*by_name, *by_id),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        ),
    )
    body = buffer.getvalue()
    return INT32.pack(len(body)) + body


def response(frame: bytes) -> list[FoundTopic]:
    """Read the response, length included.

    Raises:
        WireError: It cannot be read.
    """
    try:
        answer, _ = _read_response(frame, skip_tags(frame, 8))
    except Exception as error:
        raise WireError("a response to Metadata that cannot be read") from error
    return [
        FoundTopic(int(topic.error_code), topic.name, topic.topic_id or NO_ID)
        for topic in answer.topics
    ]

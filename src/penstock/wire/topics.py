"""Metadata (API key 3) and DescribeConfigs (32): the gateway's own requests about topics.

Metadata version 12 is the first one with topic ids (Kafka 3.1); DescribeConfigs version 1 is
supported by every broker since 1.1. No topic is created automatically.
"""

from __future__ import annotations

from struct import error
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from kio.schema.describe_configs.v1.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v1.response import DescribeConfigsResponse
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.types import TopicName
from kio.static.primitive import i8

from penstock.wire.errors import WireError
from penstock.wire.names import NO_ID
from penstock.wire.own_requests import CLIENT_ID, read_response, write_request
from penstock.wire.primitives import INT16, INT32, read_length, read_varint, skip_tags

if TYPE_CHECKING:
    from collections.abc import Iterable

_TOPIC: Final = 2
_RESPONSE_AT: Final = 8
_UUID_BYTES: Final = 16
_PARTITION_BYTES: Final = 2 + 4 + 4 + 4  # error, index, leader, its epoch
_NODE_ARRAYS: Final = 3  # replicas, in sync, offline
_MAX_MESSAGE_BYTES: Final = "max.message.bytes"


class FoundTopic(NamedTuple):
    """A topic in a Metadata response: an error code, or the other fields."""

    code: int
    name: str | None
    topic_id: UUID
    partitions: int = 0
    replication_factor: int = 0


def metadata_request(
    correlation_id: int,
    *,
    names: Iterable[str],
    ids: Iterable[UUID] = (),
    client_id: str | None = CLIENT_ID,
) -> bytes:
    """Return a Metadata request for topics by name and id, length included."""
    by_name = (MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in names)
    by_id = (MetadataRequestTopic(topic_id=one, name=None) for one in ids)
    return write_request(
        correlation_id,
        MetadataRequest(
            topics=(*by_name, *by_id),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        ),
        client_id,
    )


def metadata_response(frame: bytes) -> list[FoundTopic]:
    """Return the topics of a Metadata response, length included.

    Raises:
        WireError: It cannot be read.
    """
    return [
        FoundTopic(
            int(topic.error_code),
            topic.name,
            topic.topic_id or NO_ID,
            len(topic.partitions),
            min((len(one.replica_nodes) for one in topic.partitions), default=0),
        )
        for topic in read_response(frame, MetadataResponse).topics
    ]


class NamedTopic(NamedTuple):
    """A topic in a Metadata response: an error code, its name and its id."""

    code: int
    name: str | None
    topic_id: UUID


def names_response(frame: bytes) -> list[NamedTopic]:
    """Return the topics of a Metadata response, length included, without their partitions.

    A topic may have thousands of partitions, and a connection reads such a response every ten
    seconds: those of the last topic are not looked at, those of others are skipped.

    Raises:
        WireError: It cannot be read as far as that.
    """
    try:
        return _names(frame)
    except (IndexError, error, UnicodeDecodeError):
        raise WireError("a MetadataResponse that cannot be read") from None


def _names(frame: bytes) -> list[NamedTopic]:
    position = _skip_brokers(frame, skip_tags(frame, _RESPONSE_AT) + INT32.size)  # throttle time
    position = _skip_string(frame, position) + INT32.size  # cluster id, controller id
    count, position = read_length(frame, position, flexible=True)
    found = []
    for left in range(count, 0, -1):
        (code,) = INT16.unpack_from(frame, position)
        length, position = read_length(frame, position + INT16.size, flexible=True)
        name = frame[position : position + length].decode() if length >= 0 else None
        position += max(0, length)
        end = position + _UUID_BYTES
        if end > len(frame):
            raise IndexError
        found.append(NamedTopic(code, name, UUID(bytes=frame[position:end])))
        if left > 1:
            position = _skip_partitions(frame, end + 1) + INT32.size  # is_internal; operations
            position = skip_tags(frame, position)
    return found


def _skip_brokers(frame: bytes, position: int) -> int:
    count, position = read_length(frame, position, flexible=True)
    for _ in range(count):
        position = _skip_string(frame, position + INT32.size) + INT32.size  # id, host, port
        position = skip_tags(frame, _skip_string(frame, position))  # rack
    return position


def _skip_partitions(frame: bytes, position: int) -> int:
    count, position = read_length(frame, position, flexible=True)
    for _ in range(count):
        position += _PARTITION_BYTES
        for _ in range(_NODE_ARRAYS):
            nodes, position = read_varint(frame, position)
            if nodes > 1:
                position += INT32.size * (nodes - 1)
        position = skip_tags(frame, position) if frame[position] else position + 1
    return position


def _skip_string(frame: bytes, position: int) -> int:
    length, position = read_length(frame, position, flexible=True)
    return position + max(0, length)


def max_message_bytes_request(correlation_id: int, *, names: Iterable[str]) -> bytes:
    """Return a DescribeConfigs request for `max.message.bytes` of topics, length included."""
    return write_request(
        correlation_id,
        DescribeConfigsRequest(
            resources=tuple(
                DescribeConfigsResource(
                    resource_type=i8(_TOPIC),
                    resource_name=name,
                    configuration_keys=(_MAX_MESSAGE_BYTES,),
                )
                for name in names
            )
        ),
    )


def max_message_bytes_response(frame: bytes) -> dict[str, int]:
    """Return the `max.message.bytes` by topic in a DescribeConfigs response, length included.

    Raises:
        WireError: It cannot be read.
    """
    found: dict[str, int] = {}
    for result in read_response(frame, DescribeConfigsResponse).results:
        for config in result.configs if not result.error_code else ():
            if config.name == _MAX_MESSAGE_BYTES and config.value is not None:
                found[result.resource_name] = int(config.value)
    return found

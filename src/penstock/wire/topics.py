"""Metadata (API key 3) and DescribeConfigs (32): the gateway's own requests about topics.

Metadata version 12 is the first one with topic ids (Kafka 3.1); DescribeConfigs version 1 is
supported by every broker since 1.1. No topic is created automatically.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kio.schema.describe_configs.v1.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v1.response import DescribeConfigsResponse
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.types import TopicName
from kio.static.primitive import i8

from penstock.wire.names import NO_ID
from penstock.wire.own_requests import CLIENT_ID, read_response, write_request

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

_TOPIC: Final = 2
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

"""Topics: described (Metadata version 11), and created (CreateTopics version 7): Kafka 2.8."""

from __future__ import annotations

import datetime as dt
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from kio.schema.create_topics.v7.request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.schema.create_topics.v7.response import CreateTopicsResponse
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v11.response import MetadataResponse
from kio.schema.types import TopicName
from kio.static.primitive import i16, i32, i32Timedelta

from penstock.kafka.client.connections.metadata import NO_NODE, metadata_request
from penstock.kafka.client.connections.retries import retried
from penstock.kafka.client.errors import response_error
from penstock.kafka.client.protocol.raw_requests import raw_request
from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.names import NO_ID
from penstock.kafka.wire.requests.topics import FoundTopic, found_in
from penstock.kafka.wire.slices import finish

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from kio.schema.metadata.v11.response import MetadataResponseTopic

    from penstock.kafka.client.connections.connection import Connection

READ, WRITE = 3, 4
"""Operations (AclOperation.java)."""
_UNKNOWN_OPERATIONS: Final = -(2**31)
_NAMES_MAX: Final = 500
"""The most topics of a request."""
_VERSION: Final = 11
_NO_LENGTH: Final = bytes(4)


class DescribedPartition(NamedTuple):
    """A partition.

    Attributes:
        leader: The node id of its leader; -1 while there is none.
        replicas: How many brokers have it.
    """

    leader: int
    replicas: int


class DescribedTopic(NamedTuple):
    """A topic in a response: an error code, or the other fields.

    Attributes:
        topic_id: Its id; zero if the cluster returns none.
        partitions: By number.
        operations: A bit for each operation that the principal may perform.
    """

    name: str
    code: int
    topic_id: UUID
    partitions: Mapping[int, DescribedPartition]
    operations: int

    @property
    def has_leaders(self) -> bool:
        """Whether it has partitions, and each of them has a leader."""
        leaders = [partition.leader for partition in self.partitions.values()]
        return bool(leaders) and NO_NODE not in leaders

    def allows(self, *operations: int) -> bool:
        """Return whether the principal may perform operations; True if brokers do not say."""
        if self.operations == _UNKNOWN_OPERATIONS:
            return True
        return all(self.operations & 1 << operation for operation in operations)


class NewTopic(NamedTuple):
    """A topic to create; -1 stands for the cluster's default.

    Attributes:
        partitions: The number of partitions.
        replicas: The replication factor.
    """

    name: str
    partitions: int = -1
    replicas: int = -1
    configs: Mapping[str, str] = MappingProxyType({})


def describe_topics(
    connection: Connection, names: Iterable[str], timeout_s: float, *, operations: bool = False
) -> dict[str, DescribedTopic]:
    """Describe topics, which are not created; those that the response leaves out are, too.

    Args:
        timeout_s: When to give up.
        operations: Whether to request the operations that the principal may perform.

    Raises:
        ClientError: The cluster does not respond in time.
        WireError: A response cannot be read.
    """
    topics: dict[str, DescribedTopic] = {}
    remaining_names = iter(names)
    while some := list(islice(remaining_names, _NAMES_MAX)):
        request = metadata_request(some, operations=operations)
        response = retried(
            connection,
            timeout_s,
            lambda left_s, request=request: connection.send_to_any(  # type: ignore[misc]
                request, MetadataResponse, timeout_s=left_s
            ),
        )
        topics |= {str(topic.name): _described(topic) for topic in response.topics}
    return topics


def _described(topic: MetadataResponseTopic) -> DescribedTopic:
    partitions = {
        int(partition.partition_index): DescribedPartition(
            int(partition.leader_id), len(partition.replica_nodes)
        )
        for partition in topic.partitions
    }
    return DescribedTopic(
        str(topic.name),
        int(topic.error_code),
        topic.topic_id or NO_ID,
        partitions,
        int(topic.topic_authorized_operations),
    )


def list_topics(connection: Connection, timeout_s: float) -> list[FoundTopic]:
    """Return all topics that the principal may describe.

    Raises:
        ClientError: The cluster does not respond in time.
        WireError: The response cannot be read.
    """
    request = raw_request(metadata_request(None))
    response = retried(
        connection, timeout_s, lambda left_s: connection.send_raw_to_any(request, left_s)
    )
    # Read as the gateway reads such a response: a cluster may have 100,000 partitions.
    return finish(found_in(_NO_LENGTH + response.frame, _VERSION))


def create_topic(connection: Connection, topic: NewTopic, timeout_s: float) -> None:
    """Create a topic. Brokers may know it a moment later.

    Raises:
        ResponseError: The cluster refuses it; 36 if there is a topic of its name.
        ClientError: The cluster does not respond in time.
        WireError: A response cannot be read.
    """
    retried(connection, timeout_s, lambda left_s: _create(connection, topic, left_s))


def _create(connection: Connection, topic: NewTopic, timeout_s: float) -> None:
    controller = connection.cluster(timeout_s).controller
    if controller == NO_NODE:
        raise response_error(int(ErrorCode.not_controller), "the cluster has no controller now")
    request = CreateTopicsRequest(
        topics=(
            CreatableTopic(
                name=TopicName(topic.name),
                num_partitions=i32(topic.partitions),
                replication_factor=i16(topic.replicas),
                assignments=(),
                configs=tuple(
                    CreatableTopicConfig(name=name, value=value)
                    for name, value in topic.configs.items()
                ),
            ),
        ),
        timeout=i32Timedelta.parse(dt.timedelta(seconds=timeout_s)),
    )
    response = connection.send(controller, request, CreateTopicsResponse, timeout_s=timeout_s)
    for result in response.topics:
        if result.error_code:
            raise response_error(
                int(result.error_code), f"topic {topic.name}", result.error_message
            )
        return
    raise WireError("a CreateTopicsResponse without the topic")

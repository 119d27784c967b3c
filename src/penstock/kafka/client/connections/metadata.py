"""Topics as metadata describe them: ids, leaders, leader epochs (Metadata version 11).

Version 11 is served by Kafka 2.8 and later. No topic is created automatically.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kio.schema.metadata.v11.request import MetadataRequest, MetadataRequestTopic
from kio.schema.types import TopicName

from penstock.configuration.values import Address
from penstock.kafka.wire.names import NO_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from kio.schema.metadata.v11.response import MetadataResponse, MetadataResponseTopic

NO_NODE = -1


class PartitionLeader(NamedTuple):
    """The leader of a partition.

    Attributes:
        node: Its node id; -1 while there is none.
        epoch: Its leader epoch; -1 if the cluster returns none.
    """

    node: int
    epoch: int


class ClusterNodes(NamedTuple):
    """A cluster and its brokers.

    Attributes:
        cluster_id: Empty if the cluster returns none.
        controller: The node id of the broker for requests to the controller; -1 while there is
            none.
        brokers: Addresses by node id.
    """

    cluster_id: str
    controller: int
    brokers: dict[int, Address]


class TopicLeaders(NamedTuple):
    """A topic.

    Attributes:
        code: An error code, or 0.
        topic_id: Its id; zero if the cluster returns none.
    """

    name: str
    code: int
    topic_id: UUID
    leaders: Mapping[int, PartitionLeader]


def metadata_request(names: Iterable[str] | None, *, operations: bool = False) -> MetadataRequest:
    """Return a request for topics.

    Args:
        names: The names of topics; none for the brokers alone, None for all topics.
        operations: Whether to include the operations that the principal may perform.
    """
    topics = None
    if names is not None:
        topics = tuple(MetadataRequestTopic(topic_id=None, name=TopicName(n)) for n in names)
    return MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=operations,
    )


def read_nodes(response: MetadataResponse) -> ClusterNodes:
    """Return the cluster and its brokers."""
    return ClusterNodes(
        response.cluster_id or "", int(response.controller_id), read_brokers(response)
    )


def read_brokers(response: MetadataResponse) -> dict[int, Address]:
    """Return the addresses of the brokers by node id."""
    return {
        int(broker.node_id): Address(broker.host, int(broker.port)) for broker in response.brokers
    }


def read_topics(response: MetadataResponse) -> dict[str, TopicLeaders]:
    """Return the topics by name."""
    return {str(topic.name): _read_topic(topic) for topic in response.topics}


def _read_topic(topic: MetadataResponseTopic) -> TopicLeaders:
    leaders = {
        int(partition.partition_index): PartitionLeader(
            int(partition.leader_id), int(partition.leader_epoch)
        )
        for partition in topic.partitions
    }
    return TopicLeaders(str(topic.name), int(topic.error_code), topic.topic_id or NO_ID, leaders)


def merged(old: TopicLeaders | None, new: TopicLeaders) -> TopicLeaders:
    """Return new metadata, with the old leader where a broker is behind (KIP-320).

    Brokers learn of a new leader at different times, so a broker may still name the previous
    leader; its epoch shows that.
    """
    if old is None or old.topic_id != new.topic_id:
        return new
    leaders = {
        partition: old_leader
        if (old_leader := old.leaders.get(partition)) is not None
        and old_leader.epoch > leader.epoch
        else leader
        for partition, leader in new.leaders.items()
    }
    return new._replace(leaders=leaders)

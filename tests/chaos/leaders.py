"""Moves the leaders of partitions without stopping a broker."""

import random
from collections.abc import Iterable
from typing import Any

from confluent_kafka.admin import AdminClient
from kio.schema.alter_partition_reassignments.v1.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32

from tests.raw import RawClient

PREFERRED = i8(0)


def move_leaders(bootstrap: str, topics: Iterable[str], chance: random.Random) -> None:
    """Reorder the replicas of every partition, and elect the first replica."""
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).topics
    chosen = {topic: found[topic].partitions for topic in topics if topic in found}
    with RawClient(bootstrap.split(",", maxsplit=1)[0]) as client:
        client.call(
            AlterPartitionReassignmentsRequest(
                topics=tuple(
                    ReassignableTopic(
                        name=TopicName(topic),
                        partitions=tuple(
                            _shuffled(partition, chance) for partition in partitions.values()
                        ),
                    )
                    for topic, partitions in chosen.items()
                )
            )
        )
        client.call(
            ElectLeadersRequest(
                election_type=PREFERRED,
                topic_partitions=tuple(
                    TopicPartitions(topic=TopicName(topic), partitions=tuple(map(i32, partitions)))
                    for topic, partitions in chosen.items()
                ),
            )
        )


def _shuffled(partition: Any, chance: random.Random) -> ReassignablePartition:
    others = [node for node in partition.replicas if node != partition.leader]
    order = [*chance.sample(others, len(others)), partition.leader]
    return ReassignablePartition(
        partition_index=i32(partition.id),
        replicas=tuple(BrokerId(node) for node in order if node >= 0),
    )

"""How large records are: the bytes of logs (DescribeLogDirs), from their leaders.

It is only for planning. Where brokers do not say (it needs Describe on the cluster), records
count as `Sizes.default_bytes`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from kio.schema.describe_log_dirs.v2.request import DescribableLogDirTopic, DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v2.response import DescribeLogDirsResponse
from kio.schema.types import TopicName
from kio.static.primitive import i32

from penstock.jobs.tasks.planning import Sizes
from penstock.kafka.client.errors import ClientError
from penstock.kafka.cluster.ranges import Partition
from penstock.kafka.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.kafka.client.connections.connection import Connection
    from penstock.kafka.cluster.offsets import Cluster, Topic

_CHUNK: Final = 10_000
"""The number of partitions in a request."""


def measured(connection: Connection, cluster: Cluster, topics: Sequence[Topic]) -> Sizes:
    """Return how large the records of topics are, on average, by partition.

    Args:
        connection: To the same cluster.

    Returns:
        The sizes. Partitions that no broker describes, and empty partitions, are left out.

    Raises:
        ClusterError: The cluster does not answer.
    """
    first, end = cluster.first_offsets(topics), cluster.end_offsets(topics)
    whole = {
        partition: end[partition] - first[partition]
        for partition in first
        if end[partition] > first[partition]
    }
    sizes: dict[Partition, float] = {}
    for leader, partitions in _by_leader(connection, whole).items():
        for start in range(0, len(partitions), _CHUNK):
            stored_sizes = _stored(connection, leader, partitions[start : start + _CHUNK])
            sizes |= {
                partition: size / whole[partition]
                for partition, size in stored_sizes.items()
                if partition in whole
            }
    if not sizes:
        return Sizes()
    # Unknown partitions are estimated as the average of the others.
    total = sum(size * whole[partition] for partition, size in sizes.items())
    return Sizes(sizes, max(total / sum(whole[partition] for partition in sizes), 1.0))


def _by_leader(
    connection: Connection, partitions: Iterable[Partition]
) -> Mapping[int, list[Partition]]:
    sorted_partitions = sorted(partitions)
    partitions_by_leader: dict[int, list[Partition]] = defaultdict(list)
    try:
        topics = connection.describe(
            dict.fromkeys(partition.topic for partition in sorted_partitions)
        )
    except (ClientError, WireError):
        return partitions_by_leader
    for partition in sorted_partitions:
        leader = (
            topics[partition.topic].leaders.get(partition.number)
            if partition.topic in topics
            else None
        )
        if leader is not None and leader.node >= 0:
            partitions_by_leader[leader.node].append(partition)
    return partitions_by_leader


def _stored(
    connection: Connection, node: int, partitions: Iterable[Partition]
) -> dict[Partition, int]:
    """Return the bytes of a broker's logs; without the partitions that it does not describe."""
    topics: dict[str, list[i32]] = defaultdict(list)
    for partition in partitions:
        topics[partition.topic].append(i32(partition.number))
    request = DescribeLogDirsRequest(
        topics=tuple(
            DescribableLogDirTopic(topic=TopicName(topic), partitions=tuple(numbers))
            for topic, numbers in topics.items()
        )
    )
    try:
        response = connection.send(node, request, DescribeLogDirsResponse)
    except (ClientError, WireError):
        return {}
    return {
        Partition(topic.name, int(partition.partition_index)): int(partition.partition_size)
        for folder in response.results
        for topic in folder.topics
        for partition in topic.partitions
        if not partition.is_future_key
    }

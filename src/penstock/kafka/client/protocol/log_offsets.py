"""Requests to a leader about offsets: where the log starts and ends, where an epoch ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from kio.schema.list_offsets.v6 import request as v6
from kio.schema.list_offsets.v6.response import ListOffsetsResponse as ListOffsetsResponse6
from kio.schema.list_offsets.v8 import request as v8
from kio.schema.list_offsets.v8.response import ListOffsetsResponse as ListOffsetsResponse8
from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kio.schema.offset_for_leader_epoch.v4.response import OffsetForLeaderEpochResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

from penstock.kafka.client.errors import response_error
from penstock.kafka.client.protocol.raw_requests import read_entity
from penstock.kafka.wire.errors import WireError

if TYPE_CHECKING:
    from penstock.kafka.client.connections.metadata import PartitionLeader
    from penstock.kafka.client.protocol.raw_requests import RawResponse

T = TypeVar("T")
EARLIEST, LATEST = -2, -1
"""Timestamps that mean the log's start and the high watermark."""
_EARLIEST_LOCAL: Final = -4
_LIST_OFFSETS: Final = 2
_CONSUMER: Final = BrokerId(-1)


class Sends(Protocol):
    """The part of `Connection` that is used here."""

    def send(self, node: int, request: object, response: type[T]) -> T: ...

    def versions(self, node: int, api_key: int, *, channel: str = "") -> range: ...


class LogPartition(NamedTuple):
    """A partition."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"topic {self.topic}, partition {self.number}"


class EpochEnd(NamedTuple):
    """The largest epoch up to the requested epoch, and the offset after its last record.

    Both are -1 where the leader does not know.
    """

    epoch: int
    end: int


def list_offset(
    connection: Sends, leader: PartitionLeader, partition: LogPartition, timestamp: int
) -> int:
    """Return the offset that a timestamp means.

    Raises:
        ClientError: The leader does not say.
        WireError: Its response cannot be read.
    """
    request = offset_request(leader, partition, timestamp)
    return _offset(connection.send(leader.node, request, ListOffsetsResponse6), partition)


def offset_request(
    leader: PartitionLeader, partition: LogPartition, timestamp: int, *, committed: bool = False
) -> v6.ListOffsetsRequest:
    """Return the request for the offset that a timestamp means.

    Args:
        committed: Whether the end is before open transactions.
    """
    requested = v6.ListOffsetsPartition(
        partition_index=i32(partition.number),
        current_leader_epoch=i32(leader.epoch),
        timestamp=i64(timestamp),
    )
    topic = v6.ListOffsetsTopic(name=TopicName(partition.topic), partitions=(requested,))
    return v6.ListOffsetsRequest(
        replica_id=_CONSUMER, isolation_level=i8(committed), topics=(topic,)
    )


def read_offset(response: RawResponse, partition: LogPartition) -> int:
    """Return the offset in a response to `offset_request`.

    Raises:
        ResponseError: The leader does not say.
        WireError: The response cannot be read.
    """
    return _offset(read_entity(response, ListOffsetsResponse6), partition)


def local_log_start(connection: Sends, leader: PartitionLeader, partition: LogPartition) -> int:
    """Return the first offset that the leader itself stores; others are in a tier (KIP-405).

    Where brokers know no tiers it is the log's start.

    Raises:
        ClientError: The leader does not say.
        WireError: Its response cannot be read.
    """
    if 8 not in connection.versions(leader.node, _LIST_OFFSETS):
        return list_offset(connection, leader, partition, EARLIEST)
    requested = v8.ListOffsetsPartition(
        partition_index=i32(partition.number),
        current_leader_epoch=i32(leader.epoch),
        timestamp=i64(_EARLIEST_LOCAL),
    )
    topic = v8.ListOffsetsTopic(name=TopicName(partition.topic), partitions=(requested,))
    request = v8.ListOffsetsRequest(replica_id=_CONSUMER, isolation_level=i8(0), topics=(topic,))
    return _offset(connection.send(leader.node, request, ListOffsetsResponse8), partition)


def _offset(response: ListOffsetsResponse6 | ListOffsetsResponse8, partition: LogPartition) -> int:
    for topic in response.topics:
        for result in topic.partitions:
            if result.error_code:
                raise response_error(int(result.error_code), str(partition))
            return int(result.offset)
    raise WireError("a ListOffsetsResponse without the partition")


def epoch_end(
    connection: Sends, leader: PartitionLeader, partition: LogPartition, epoch: int
) -> EpochEnd:
    """Return where an epoch ended in the leader's log (KIP-320).

    Raises:
        ClientError: The leader does not say.
        WireError: Its response cannot be read.
    """
    requested = OffsetForLeaderPartition(
        partition=i32(partition.number),
        current_leader_epoch=i32(leader.epoch),
        leader_epoch=i32(epoch),
    )
    topic = OffsetForLeaderTopic(topic=TopicName(partition.topic), partitions=(requested,))
    request = OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=(topic,))
    response = connection.send(leader.node, request, OffsetForLeaderEpochResponse)
    for found_topic in response.topics:
        for result in found_topic.partitions:
            if result.error_code:
                raise response_error(int(result.error_code), str(partition))
            return EpochEnd(int(result.leader_epoch), int(result.end_offset))
    raise WireError("an OffsetForLeaderEpochResponse without the partition")

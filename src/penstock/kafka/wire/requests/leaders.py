"""ListOffsets, OffsetForLeaderEpoch and Metadata: the leaders of partitions, and their replicas.

Only the leader responds to ListOffsets without an error, and not before all its records at its
election are committed (Partition.scala, `fetchOffsetForTimestamp`). The first offset of its own
epoch is where the epoch before ends (KIP-101).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kio.schema.api_versions.v0.response import ApiVersionsResponse
from kio.schema.list_offsets.v4.request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kio.schema.list_offsets.v4.response import ListOffsetsResponse
from kio.schema.metadata.v7.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v7.response import MetadataResponse
from kio.schema.offset_for_leader_epoch.v3.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kio.schema.offset_for_leader_epoch.v3.response import OffsetForLeaderEpochResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

from penstock.kafka.wire.errors import RETRIABLE
from penstock.kafka.wire.own_requests import read_response, write_request

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_API_KEY, _VERSION = 23, 3
_LATEST, _CONSUMER, _ANY_EPOCH = -1, -1, -1
_READ_UNCOMMITTED: Final = i8(0)


class Leader(NamedTuple):
    """The leader of a partition.

    Attributes:
        epoch: The leader's epoch.
        has_committed: Whether all replicas in sync have a record of this epoch, or there was no
            other leader before, or there is no other replica.
    """

    epoch: int
    has_committed: bool


class LeaderOffset(NamedTuple):
    """A response to ListOffsets for a partition.

    Attributes:
        code: Kafka's error code.
        epoch: The leader's epoch.
        high_watermark: The offset before which all replicas in sync have all records.
    """

    code: int
    epoch: int
    high_watermark: int


def request(correlation_id: int, *, partitions: Mapping[str, Mapping[int, int]]) -> bytes:
    """Return a ListOffsets request, length included.

    Args:
        partitions: The partitions by topic; their values are ignored.
    """
    topics = tuple(
        ListOffsetsTopic(
            name=TopicName(name),
            partitions=tuple(
                ListOffsetsPartition(
                    partition_index=i32(number),
                    current_leader_epoch=i32(_ANY_EPOCH),
                    timestamp=i64(_LATEST),
                )
                for number in numbers
            ),
        )
        for name, numbers in partitions.items()
    )
    return write_request(
        correlation_id,
        ListOffsetsRequest(
            replica_id=BrokerId(_CONSUMER), isolation_level=_READ_UNCOMMITTED, topics=topics
        ),
    )


def response(frame: bytes) -> dict[tuple[str, int], LeaderOffset]:
    """Return the results of a ListOffsets response, by topic and partition.

    Raises:
        WireError: The response cannot be read.
    """
    return {
        (topic.name, int(partition.partition_index)): LeaderOffset(
            int(partition.error_code), int(partition.leader_epoch), int(partition.offset)
        )
        for topic in read_response(frame, ListOffsetsResponse).topics
        for partition in topic.partitions
    }


def are_epochs_supported(frame: bytes) -> bool:
    """Return whether the broker returns the ends of epochs, by its ApiVersions response.

    Raises:
        WireError: The response cannot be read.
    """
    return any(
        api.api_key == _API_KEY and api.min_version <= _VERSION <= api.max_version
        for api in read_response(frame, ApiVersionsResponse).api_keys
    )


def unexamined(offsets: Mapping[tuple[str, int], LeaderOffset]) -> dict[tuple[str, int], Leader]:
    """Return the leaders of a broker that does not say where epochs end.

    Args:
        offsets: The response to ListOffsets.
    """
    return {
        place: Leader(epoch, not epoch) for place, (code, epoch, _) in offsets.items() if not code
    }


def epochs_request(correlation_id: int, *, epochs: Mapping[str, Mapping[int, int]]) -> bytes:
    """Return a request for where the epochs before the leaders' epochs end.

    A broker that does not lead in this epoch any more responds with an error (KIP-320).

    Args:
        epochs: The leaders' epochs, by topic and partition.
    """
    topics = tuple(
        OffsetForLeaderTopic(
            topic=TopicName(name),
            partitions=tuple(
                OffsetForLeaderPartition(
                    partition=i32(number),
                    current_leader_epoch=i32(epoch),
                    leader_epoch=i32(epoch - 1),
                )
                for number, epoch in numbers.items()
            ),
        )
        for name, numbers in epochs.items()
    )
    return write_request(
        correlation_id,
        OffsetForLeaderEpochRequest(replica_id=BrokerId(_CONSUMER), topics=topics),
    )


def leaders(
    frame: bytes, *, offsets: Mapping[tuple[str, int], LeaderOffset]
) -> dict[tuple[str, int], Leader]:
    """Return the leaders that still lead, by topic and partition.

    A leader that does not say where its epoch begins has committed nothing, as far as is known.

    Args:
        frame: The response to `epochs_request`, length included.
        offsets: The response to ListOffsets before.

    Raises:
        WireError: The response cannot be read.
    """
    current_leaders = unexamined(offsets)
    for topic in read_response(frame, OffsetForLeaderEpochResponse).topics:
        for partition in topic.partitions:
            place, code = (topic.topic, int(partition.partition)), int(partition.error_code)
            if code in RETRIABLE:
                current_leaders.pop(place, None)
            elif place in current_leaders and not code:
                _, epoch, high_watermark = offsets[place]
                is_begun = 0 <= int(partition.end_offset) < high_watermark
                current_leaders[place] = Leader(epoch, not epoch or is_begun)
    return current_leaders


def replicas_request(correlation_id: int, *, topics: Iterable[str]) -> bytes:
    """Return a request for the replicas of topics' partitions, length included."""
    return write_request(
        correlation_id,
        MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=TopicName(name)) for name in topics),
            allow_auto_topic_creation=False,
        ),
    )


def with_replicas(
    frame: bytes, known_leaders: Mapping[tuple[str, int], Leader]
) -> dict[tuple[str, int], Leader]:
    """Return leaders; those without another replica are final: no other replica may lead again.

    One that is added in the same epoch fetches from this leader first.

    Args:
        frame: The response to `replicas_request`, length included.
        known_leaders: The leaders as they are known without it.

    Raises:
        WireError: The response cannot be read.
    """
    updated_leaders = dict(known_leaders)
    for topic in read_response(frame, MetadataResponse).topics:
        for partition in topic.partitions:
            place = (topic.name, int(partition.partition_index))
            leader = updated_leaders.get(place)
            if (
                leader is not None
                and partition.leader_epoch == leader.epoch
                and len(partition.replica_nodes) == 1
            ):
                updated_leaders[place] = leader._replace(has_committed=True)
    return updated_leaders

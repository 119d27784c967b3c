"""Offsets of many partitions: one ListOffsets request (version 6) to each of their leaders."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kio.schema.list_offsets.v6.request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kio.schema.list_offsets.v6.response import ListOffsetsResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

from penstock.kafka.client.connections.connection import LEADER_NOT_AVAILABLE
from penstock.kafka.client.connections.metadata import NO_NODE
from penstock.kafka.client.connections.retries import retried
from penstock.kafka.client.errors import BrokerUnreachableError, ClientError, response_error
from penstock.kafka.client.protocol.log_offsets import LogPartition
from penstock.kafka.client.protocol.raw_requests import raw_request, read_entity
from penstock.kafka.wire.errors import UNKNOWN_TOPIC_OR_PARTITION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.kafka.client.connections.connection import Connection, PendingResponse
    from penstock.kafka.client.connections.metadata import PartitionLeader

_CONSUMER = BrokerId(-1)


class ListedOffset(NamedTuple):
    """An offset of a partition.

    Attributes:
        offset: -1 if there is none, such as for a time after the last record.
        leader_epoch: The epoch of its record, or of the leader; -1 if it is not known.
    """

    offset: int
    leader_epoch: int


Listed: TypeAlias = "ListedOffset | ClientError"
_Place: TypeAlias = "tuple[str, int]"


def list_offsets(
    connection: Connection,
    partitions: Iterable[_Place],
    timestamp: int,
    timeout_s: float,
    *,
    committed: bool = True,
) -> dict[_Place, Listed]:
    """Return the offsets that a timestamp means, from the leaders; or why a leader has none.

    After an error that a leader has moved, the next call looks it up.

    Args:
        partitions: Topics and partitions.
        timestamp: In ms, or one of those of `log_offsets`.
        timeout_s: How long brokers have.
        committed: Whether the end is before open transactions.

    Raises:
        ClientError: No broker describes the topics in time.
        WireError: A response cannot be read.
    """
    deadline = time.monotonic() + timeout_s
    leaders, answers = _leaders(connection, list(partitions), timeout_s)
    pending: list[tuple[PendingResponse, list[_Place]]] = []
    for node, places in leaders.items():
        request = raw_request(_request(places, timestamp, committed=committed))
        response = connection.begin(node, request, has_deadline=True)
        pending.append((response, list(places)))
    for response, requested_places in pending:
        left_s = max(0.0, deadline - time.monotonic())
        answers |= _answers(response, requested_places, left_s)
    for (topic, _), answer in answers.items():
        if isinstance(answer, ClientError) and answer.retriable:
            connection.refresh(topic)
    return answers


def _leaders(
    connection: Connection, partitions: list[_Place], timeout_s: float
) -> tuple[dict[int, dict[_Place, PartitionLeader]], dict[_Place, Listed]]:
    """Return the partitions of each leader, and the errors of partitions without one."""
    topics = {topic: connection.known_leaders(topic) for topic, _ in partitions}
    codes: dict[str, int] = {}
    if unknown := [topic for topic, leaders in topics.items() if leaders is None]:
        descriptions = retried(
            connection, timeout_s, lambda left_s: connection.describe(unknown, left_s)
        )
        for topic in unknown:
            description = descriptions.get(topic)
            topics[topic] = description.leaders if description else None
            codes[topic] = description.code if description else UNKNOWN_TOPIC_OR_PARTITION
    by_node: defaultdict[int, dict[_Place, PartitionLeader]] = defaultdict(dict)
    errors: dict[_Place, Listed] = {}
    for topic, number in partitions:
        leader = (topics[topic] or {}).get(number)
        if leader is None or leader.node == NO_NODE:
            no_leader = UNKNOWN_TOPIC_OR_PARTITION if leader is None else LEADER_NOT_AVAILABLE
            code = codes.get(topic) or no_leader
            errors[topic, number] = response_error(code, str(LogPartition(topic, number)))
        else:
            by_node[leader.node][topic, number] = leader
    return by_node, errors


def _request(
    places: Mapping[_Place, PartitionLeader], timestamp: int, *, committed: bool
) -> ListOffsetsRequest:
    topics: defaultdict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for (topic, number), leader in places.items():
        topics[topic].append(
            ListOffsetsPartition(
                partition_index=i32(number),
                current_leader_epoch=i32(leader.epoch),
                timestamp=i64(timestamp),
            )
        )
    return ListOffsetsRequest(
        replica_id=_CONSUMER,
        isolation_level=i8(committed),
        topics=tuple(
            ListOffsetsTopic(name=TopicName(topic), partitions=tuple(requested))
            for topic, requested in topics.items()
        ),
    )


def _answers(
    pending: PendingResponse, places: list[_Place], timeout_s: float
) -> dict[_Place, Listed]:
    try:
        response = read_entity(pending.wait(timeout_s), ListOffsetsResponse)
    except ClientError as error:
        return dict.fromkeys(places, error.with_traceback(None))
    no_offset = BrokerUnreachableError("the leader returned no offset")
    answers: dict[_Place, Listed] = dict.fromkeys(places, no_offset)
    for topic in response.topics:
        for result in topic.partitions:
            place = str(topic.name), int(result.partition_index)
            if result.error_code:
                code = int(result.error_code)
                answers[place] = response_error(code, str(LogPartition(*place)))
            else:
                answers[place] = ListedOffset(int(result.offset), int(result.leader_epoch))
    return answers

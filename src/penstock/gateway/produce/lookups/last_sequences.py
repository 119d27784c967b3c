"""Requests the last sequence numbers of producers from a broker (DescribeProducers, KIP-664)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.kafka.wire.errors import (
    NOT_LEADER_OR_FOLLOWER,
    REQUEST_TIMED_OUT,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from penstock.kafka.wire.requests import leaders, producers
from penstock.kafka.wire.requests.produce import PartitionResponse
from penstock.kafka.wire.requests.producers import LastSequence

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from penstock.gateway.produce.request import ReceivedRequest
    from penstock.kafka.wire.requests.leaders import Leader, LeaderOffset

    ProducerIds = dict[str, dict[int, int]]
    """Producer ids by topic and partition."""
    LastSequences = Mapping[tuple[str, int], LastSequence]
    """By topic and partition; empty if the broker is too old."""
    Leaders = Mapping[tuple[str, int], Leader]
    """By topic and partition."""

_PRODUCE_ERRORS: Final = frozenset({UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER})
"""The retriable errors of the requests made here that brokers return to Produce, too."""
_NOT_READ: Final = "The last sequence number of this producer cannot be read now"


def not_read(code: int) -> PartitionResponse:
    """Return the response to a batch whose producer's last sequence number is not known.

    A batch fails for good in librdkafka after an error that no broker returns to Produce, such as
    OFFSET_NOT_AVAILABLE of a leader that was elected just now (`rd_kafka_handle_Produce_error`).

    Args:
        code: The retriable error code of the request for it.
    """
    if code in _PRODUCE_ERRORS:
        return PartitionResponse(code)
    return PartitionResponse(REQUEST_TIMED_OUT, _NOT_READ)


def fetch_last_sequences(
    request: ReceivedRequest,
    unknown: ProducerIds,
    on_found: Callable[[LastSequences], None],
    *,
    doubted: Collection[str] = (),
) -> None:
    """Request the last sequence numbers of producers over the client's connection.

    Args:
        request: The request; if it is cancelled, `on_found` is not called.
        on_found: Called with their last sequence numbers.
        doubted: The topics whose leaders are requested, too.
    """
    connection = request.connection
    offsets: dict[tuple[str, int], LeaderOffset] = {}

    def on_producers(frame: bytes | None) -> None:
        if request.is_cancelled:
            return
        last_sequences = {} if frame is None else producers.response(frame, partitions=unknown)
        last_sequences |= {
            partition: LastSequence(leader.code)
            for partition, leader in offsets.items()
            if leader.code
        }
        epochs = _epochs(last_sequences, doubted, offsets)
        if epochs and connection.supports_leader_epochs:
            connection.send_request(
                partial(leaders.epochs_request, epochs=epochs), partial(on_epochs, last_sequences)
            )
        else:
            on_leaders(leaders.unexamined(offsets), last_sequences)

    def on_epochs(last_sequences: LastSequences, frame: bytes) -> None:
        if not request.is_cancelled:
            on_leaders(leaders.leaders(frame, offsets=offsets), last_sequences)

    def on_leaders(current_leaders: Leaders, last_sequences: LastSequences) -> None:
        _look_at_replicas(
            request,
            current_leaders,
            doubted,
            lambda checked_leaders: on_found(
                _with_leaders(last_sequences, doubted, checked_leaders)
            ),
        )

    def on_support(is_supported: bool) -> None:
        if is_supported:
            connection.send_request(
                partial(leaders.request, partitions=unknown),
                lambda frame: offsets.update(leaders.response(frame)),
            )
            connection.send_request(partial(producers.request, partitions=unknown), on_producers)
        else:
            on_producers(None)

    connection.check_describe_producers_support(on_support)


def _epochs(
    last_sequences: LastSequences,
    doubted: Collection[str],
    offsets: Mapping[tuple[str, int], LeaderOffset],
) -> dict[str, dict[int, int]]:
    """Return the epochs of the requested leaders, by topic and partition."""
    epochs: dict[str, dict[int, int]] = {}
    for place, last in last_sequences.items():
        topic, partition = place
        if topic in doubted and not last.code and place in offsets:
            epochs.setdefault(topic, {})[partition] = offsets[place].epoch
    return epochs


def _look_at_replicas(
    request: ReceivedRequest,
    current_leaders: Leaders,
    doubted: Collection[str],
    on_seen: Callable[[Leaders], None],
) -> None:
    """Request the replicas of partitions whose leaders may not be right otherwise."""

    def on_response(frame: bytes) -> None:
        if not request.is_cancelled:
            on_seen(leaders.with_replicas(frame, current_leaders))

    unsure = {
        topic
        for (topic, _), leader in current_leaders.items()
        if topic in doubted and not leader.has_committed
    }
    if unsure:
        make = partial(leaders.replicas_request, topics=sorted(unsure))
        request.connection.send_request(make, on_response)
    else:
        on_seen(current_leaders)


def _with_leaders(
    last_sequences: LastSequences, doubted: Collection[str], current_leaders: Leaders
) -> LastSequences:
    return {
        place: _with_leader(last, current_leaders.get(place))
        if place[0] in doubted and not last.code
        else last
        for place, last in last_sequences.items()
    }


def _with_leader(last: LastSequence, leader: Leader | None) -> LastSequence:
    """Add the leader; without it another broker is the leader now, and may respond differently."""
    return LastSequence(REQUEST_TIMED_OUT) if leader is None else last._replace(leader=leader)

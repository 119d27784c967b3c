"""Sends the decided batches of a request, and applies the broker's response to them.

Clients compute the offset of a record from the base offset in the response. Where records were
removed, the offsets of those behind them would be too high, and who continues there skips records,
such as consumers whose positions MirrorMaker translates. So the base offset is lowered by the
number of removed records: the last stored record gets its own offset, and no record a higher one
than its own. A repeated batch gets the same base offset.

The base offset is not -1 (unknown), except where nothing is stored:

- librdkafka and Sarama compute -1, 0, 1, and so on from it, which is too high near the beginning of
  a log.
- MirrorMaker would translate no offset of such a batch, and log an error for each record.
- Java and franz-go recognize by the last acknowledged offset that records were deleted and with
  them the state of their producer; so it has to be right.

Near the beginning of a log the base offset may be negative. Kafka Streams and MirrorMaker ignore
negative offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.gateway.produce.intercepted.error_responses import error_response
from penstock.gateway.produce.partition_state import PartitionState
from penstock.gateway.produce.producer_state.producer.batch import Stored
from penstock.kafka.records.header import with_sequence
from penstock.kafka.wire.errors import NONE
from penstock.kafka.wire.requests.produce import PartitionResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.gateway.produce.partition import ProducePartition
    from penstock.gateway.produce.producer_state.producer.batch import Batch
    from penstock.gateway.produce.request import ReceivedRequest
    from penstock.kafka.wire.requests.produce_response import ProduceResponse

    Buffer = bytes | memoryview


class SentBatches:
    """The batches of one request that are sent, or are not because nothing is left of them."""

    __slots__ = ("_producers", "_request")

    def __init__(self, request: ReceivedRequest) -> None:
        self._request = request
        self._producers = request.gateway.producers

    def is_held_up(self, partition: ProducePartition) -> bool:
        """Return whether an earlier batch keeps a batch from being sent now."""
        decision = partition.decision
        if partition.is_answered or decision is None or decision.batch.is_done:
            return False
        identity = decision.identity
        return bool(self._producers.obstacle(identity.key, identity.epoch, decision.batch))

    def send(self, partition: ProducePartition) -> PartitionResponse | Sequence[Buffer] | None:
        """Mark one batch as sent, of which something is left.

        Returns:
            An error response, or the bytes to send; None to send the original batch.
        """
        decision = partition.decision
        if decision is None:
            return _plain(partition)
        identity, batch, _, is_original = decision
        is_whole = is_original and decision.data is None
        code = self._producers.send(identity.key, identity.epoch, batch, is_whole=is_whole)
        if code:
            return error_response(code)
        data = partition.data if is_original else decision.data
        assert data is not None
        if batch.broker_first != batch.first:
            self._producers.translated += 1
            producer_id = identity.key.producer_id
            return with_sequence(data, producer_id, identity.epoch, batch.broker_first)
        return None if is_original else [data]

    def on_no_response(self, partition: ProducePartition) -> None:
        """Assume that a sent batch is stored: with acks=0 there is no response."""
        decision = partition.decision
        if decision is not None:
            identity, batch = decision.identity, decision.batch
            self._producers.on_response(identity.key, identity.epoch, batch, NONE, Stored())

    def on_response(self, partition: ProducePartition, response: ProduceResponse) -> None:
        """Apply the broker's response to a batch, and correct it for the client."""
        topic = partition.topic.data.key
        answer = response.partition_response(topic, partition.number)
        if answer is None:
            return
        dropped = partition.dropped
        decision = partition.decision
        if decision is not None:
            identity, batch = decision.identity, decision.batch
            dropped = batch.dropped
            code = self._producers.on_response(
                identity.key,
                identity.epoch,
                batch,
                answer.code,
                Stored(answer.base_offset, answer.log_append_time, answer.log_start_offset),
            )
            if code != answer.code:
                start = max(0, answer.log_start_offset)
                response.replace_error(topic, partition.number, code, start)
        if partition.removed_count:
            base_offset = _lowered(answer.base_offset, partition.removed_count)
            response.replace_base_offset(topic, partition.number, base_offset)
        if dropped and partition.producer is not None:
            left_out = set(dropped)
            count = partition.producer.record_count
            positions = [position for position in range(count) if position not in left_out]
            response.move_record_errors(topic, partition.number, positions)

    def acknowledge(self, partition: ProducePartition) -> None:
        """Respond to a batch of which nothing was sent; all batches before have a response."""
        decision = partition.decision
        assert decision is not None
        identity, batch = decision.identity, decision.batch
        code = self._producers.acknowledge(identity.key, identity.epoch, batch)
        self._request.answer(partition, error_response(code) if code else _stored(batch))


def _stored(batch: Batch) -> PartitionResponse:
    """Return the response to a batch that is stored, or of which nothing is left."""
    base_offset, log_append_time, log_start_offset = batch.stored
    base_offset = _lowered(base_offset, batch.dropped_count)
    return PartitionResponse(NONE, None, (), base_offset, log_append_time, log_start_offset)


def _lowered(base_offset: int, removed: int) -> int:
    """Return the base offset for the client of a batch without some of its records."""
    return base_offset - removed if base_offset >= 0 else base_offset


def _plain(partition: ProducePartition) -> PartitionResponse | Sequence[Buffer] | None:
    """Return the bytes to send for a batch whose sequence numbers are not changed."""
    if partition.state is PartitionState.UNJUDGED:
        return None  # not judged: the broker stores or refuses the original
    replacement = partition.replacement
    data: Buffer = partition.data if replacement is None else replacement.data
    if not data:
        return PartitionResponse(NONE)
    keeps_numbers = partition.state is PartitionState.REPLACED
    if partition.idempotent_producer is not None and not keeps_numbers:
        return with_sequence(data, -1, -1, -1)
    return None if replacement is None else [data]

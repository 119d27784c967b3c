"""Decides which batches of a request have to be retried, because an earlier batch has to.

For topics whose batches are sent unchanged. `missing_batches` has the rule, and the state
of each producer. The batches of other topics are kept in order by their sequence numbers:
`producer_state.producer.earlier_batches` decides about them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.gateway.produce.lookups.last_sequences import not_read
from penstock.gateway.produce.missing_batches import TEXT
from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
from penstock.gateway.produce.request import SLICE
from penstock.kafka.records.header import is_intact
from penstock.kafka.records.sequences import distance
from penstock.kafka.wire.errors import REQUEST_TIMED_OUT, RETRIABLE
from penstock.kafka.wire.names import is_topic_name
from penstock.kafka.wire.requests.produce import PartitionResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.gateway.context.exchange import RetriedBatches
    from penstock.gateway.produce.lookups.last_sequences import LastSequences, ProducerIds
    from penstock.gateway.produce.partition import ProducePartition, ProduceTopic
    from penstock.gateway.produce.request import ReceivedRequest
    from penstock.kafka.records.header import BatchProducer
    from penstock.kafka.wire.slices import Slices


class SentBatch(NamedTuple):
    """A batch of an idempotent producer."""

    partition: ProducePartition
    key: ProducerKey
    producer: BatchProducer


def producer_ids(batches: Sequence[SentBatch]) -> ProducerIds:
    """Return the producer id of batches, by topic and partition."""
    ids: ProducerIds = {}
    for _, key, _ in batches:
        ids.setdefault(key.topic, {})[key.partition] = key.producer_id
    return ids


class SendOrder:
    """The order of one request's batches behind those of earlier requests."""

    __slots__ = ("_missing", "_request")

    def __init__(self, request: ReceivedRequest) -> None:
        self._request = request
        self._missing = request.gateway.missing_batches

    def __bool__(self) -> bool:
        """Whether a batch of a producer has to be retried; usually there is none."""
        return bool(self._missing)

    @property
    def _connection(self) -> int:
        return self._request.connection.number

    def possibly_past(self) -> Slices[list[SentBatch]]:
        """Return the batches before which the broker may have stored the missing batches.

        Yields:
            After each slice.
        """
        batches: list[SentBatch] = []
        for steps, batch in enumerate(self._unanswered(self._missing.may_be_past), 1):
            if steps % SLICE == 0:
                yield
            if batch is not None:
                batches.append(batch)
        return batches

    def on_last_sequences(
        self, batches: Sequence[SentBatch], last_sequences: LastSequences
    ) -> None:
        """Apply the last sequence numbers that the broker has stored; respond to its errors.

        Args:
            batches: The result of `possibly_past`.
            last_sequences: Those of their producers.
        """
        for partition, key, _ in batches:
            last = last_sequences.get((key.topic, key.partition))
            self._missing.on_last_sequence(key, last)
            if last is not None and last.code in RETRIABLE:
                self._request.answer(partition, not_read(last.code))

    def keep_back(self) -> Slices[bool]:
        """Respond with a retriable error to batches behind a batch that has to be retried.

        Yields:
            After each slice.

        Returns:
            Whether that concerns a batch of the request.
        """
        is_any = False
        for steps, batch in enumerate(self._unanswered(self._missing.overtakes), 1):
            if steps % SLICE == 0:
                yield
            if batch is not None:
                is_any = True
                self._request.answer(batch.partition, PartitionResponse(REQUEST_TIMED_OUT, TEXT))
        return is_any

    def keep_behind(self, retried: RetriedBatches) -> Slices[bool]:
        """Respond with a retriable error to batches behind a batch that the broker has retried.

        Another broker may lead when they arrive. It would refuse them because of the gap, or, if it
        does not know the producer, store them instead of the batch before.

        Args:
            retried: The batches that the client has to retry. Where it is not known which batch it
                is, each batch of the partition counts as behind it.

        Yields:
            After each slice.

        Returns:
            Whether that concerns a batch of the request.
        """
        is_any = False
        if self._request.data.acks == 0:
            return False
        for steps, batch in enumerate(self._sent(), 1):
            if steps % SLICE == 0:
                yield
            if batch is None or batch.partition.is_answered:
                continue
            place = batch.partition.topic.data.key, batch.partition.number
            if place in retried and _is_behind(batch.producer, retried[place]):
                is_any = True
                self._request.answer(batch.partition, PartitionResponse(REQUEST_TIMED_OUT, TEXT))
        return is_any

    def note_answers(self) -> Slices[None]:
        """Record which batches have to be retried before later batches.

        Yields:
            After each slice.
        """
        request = self._request
        if request.data.acks == 0:
            return
        if not self._missing and not any(map(request.is_retried, request.answered)):
            return
        for steps, batch in enumerate(self._sent(), 1):
            if steps % SLICE == 0:
                yield
            if batch is None:
                continue
            partition, key, producer = batch
            if not request.is_retried(partition):
                self._missing.answered(key, producer, self._connection, is_retriable=False)
            elif is_intact(partition.data):  # its sequence number may be wrong otherwise
                self._missing.answered(key, producer, self._connection, is_retriable=True)
                if request.gateway.lane is not None:
                    request.gateway.lane.forget_numbered(key.topic)

    def _unanswered(
        self, concerns: Callable[[ProducerKey, BatchProducer, int], bool]
    ) -> Iterator[SentBatch | None]:
        """Return the batches that have no response yet and that something concerns.

        Yields:
            None for each other batch.
        """
        for batch in self._sent():
            yield (
                batch
                if batch is not None
                and not batch.partition.is_answered
                and concerns(batch.key, batch.producer, self._connection)
                else None
            )

    def _sent(self) -> Iterator[SentBatch | None]:
        """Return the batches of idempotent producers, but for topics with interceptors.

        Nor of partitions that cannot exist: a broker never stores a batch of theirs.

        Yields:
            None for each other batch.
        """
        request = self._request
        principal = request.connection.authentication.principal or ""
        topic, name = None, None
        for partition in request.partitions:
            if partition.topic is not topic:
                topic = partition.topic
                name = self._ordered_name(topic)
            can_be = name is not None and partition.number >= 0
            producer = partition.idempotent_producer if can_be else None
            if name is None or producer is None:
                yield None
                continue
            key = ProducerKey(name, partition.number, producer.producer_id, principal)
            yield SentBatch(partition, key, producer)

    def _ordered_name(self, topic: ProduceTopic) -> str | None:
        """Return the name of a topic; None if its batches are not kept in order here."""
        name = self._request.name_of(topic)
        if name is None or not is_topic_name(name) or self._request.is_intercepted(topic):
            return None
        return name


def _is_behind(batch: BatchProducer, retried: BatchProducer | None) -> bool:
    """Return whether a batch may be behind another in the sequence of the same producer."""
    if batch.base_sequence < 0 or retried is None:
        return batch.base_sequence >= 0
    return batch[:2] == retried[:2] and distance(retried.base_sequence, batch.base_sequence) > 0

"""Registers the batches of a request that may be intercepted, until they are decided.

Later batches of a producer may overtake them, also those on other connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.gateway.produce.idempotence import Idempotence
from penstock.gateway.produce.partition import BatchIdentity
from penstock.gateway.produce.producer_state.arrivals import Arrival
from penstock.gateway.produce.producer_state.producer.numbers import Range
from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
from penstock.kafka.records.header import checksum

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from penstock.gateway.produce.partition import ProducePartition
    from penstock.gateway.produce.request import ReceivedRequest
    from penstock.kafka.records.header import BatchProducer


class ReceivedBatches:
    """The registered batches of one request."""

    __slots__ = ("_idempotence", "_producers", "_registered", "_request")

    def __init__(self, request: ReceivedRequest) -> None:
        """Register none yet."""
        self._request = request
        self._producers = request.gateway.producers
        self._idempotence = request.policies.idempotence
        self._registered: list[ProducePartition] = []

    @property
    def registered(self) -> Sequence[ProducePartition]:
        """The batches that were registered."""
        return self._registered

    @property
    def principal(self) -> str:
        """The principal of the client; others cannot affect the state of its producers."""
        return self._request.connection.authentication.principal or ""

    def arrive(self, partition: ProducePartition) -> None:
        """Register a received batch that may be intercepted, since others may overtake it.

        Only if its sequence numbers may have to be changed.
        """
        producer, data = partition.producer, partition.topic.data
        topic = data.name if data.name is not None else data.topic_id
        if producer is not None and self._translates(producer) and topic is not None:
            arrival = Arrival(topic, partition.number, producer.producer_id, self.principal)
            partition.arrival = arrival
            self._registered.append(partition)
            self._producers.arrivals.add(arrival, producer.epoch, producer.base_sequence)

    def _translates(self, producer: BatchProducer) -> bool:
        if producer.producer_id < 0:
            return False
        return self._idempotence is not Idempotence.STRIP or producer.transactional

    def follows_drops(self, topic: str, partitions: Sequence[ProducePartition]) -> bool:
        """Return whether the sequence numbers of batches may have to be changed.

        Records of the topic were dropped before, or it is undecided which records an earlier batch
        of the same producer loses, under any policies of the topic now.
        """
        return self._producers.has_topic(topic) or any(map(self._follows_undecided, partitions))

    def _follows_undecided(self, partition: ProducePartition) -> bool:
        arrival = partition.arrival
        return arrival is not None and self._producers.arrivals.count(arrival) > 1

    def identify(self, partition: ProducePartition, arrival: Arrival) -> BatchIdentity:
        """Return what identifies a registered batch. The name of its topic must be known.

        Args:
            arrival: Its producer as in the request.
        """
        producer = partition.producer
        assert producer is not None
        key = ProducerKey(
            partition.topic.known_name, partition.number, producer.producer_id, self.principal
        )
        numbers = Range(producer.base_sequence, producer.record_count, checksum(partition.data))
        return BatchIdentity(key, arrival, producer.epoch, numbers)

    def is_unknown_producer(self, partition: ProducePartition) -> bool:
        """Return whether another gateway may have newer state of the batch's producer."""
        if partition.arrival is None:
            return False
        key, _, epoch, (first, count, _) = self.identify(partition, partition.arrival)
        return self._producers.needs_reading(key, epoch, Range(first, count))

    def depends_on_topic_id(self, partition: ProducePartition, topic_id: UUID) -> bool:
        """Return whether a batch is a retry, unless its topic was deleted and created again.

        Then the topic's id has to be looked up: it may have changed since it was.
        """
        if partition.arrival is None:
            return False
        key, _, epoch, numbers = self.identify(partition, partition.arrival)
        return self._producers.depends_on_topic_id(key, epoch, numbers, topic_id)

    def leave(self, partition: ProducePartition) -> None:
        """Unregister one batch, if it is registered."""
        arrival = partition.arrival
        if arrival is None:
            return
        partition.arrival = None
        producer = partition.producer
        assert producer is not None
        self._producers.arrivals.remove(arrival, producer.epoch, producer.base_sequence)

    def depart(self) -> None:
        """Unregister the batches: they are decided, so others no longer wait for them."""
        for partition in self._registered:
            self.leave(partition)
        self._registered.clear()

"""Batches of idempotent producers that have to be retried before later batches.

A broker detects a gap in a producer's sequence numbers, but not before it has stored a batch of
that producer: it accepts any number for the first batch. So after a batch with a retriable error,
all later batches get a retriable error, until the first batch was retried with another result.

Over a new connection a client first sends the oldest batch without a response. So a later batch
that arrives there first shows that the earlier batch got its response from another gateway.

Over the same connection a client retries the batches after the first batch only after that batch.
If they arrive without it, or later batches do, another broker may have been the leader meanwhile,
and may have the first batch through another gateway. So the gateway requests the producer's last
sequence number (KIP-664), and the batch that follows it is the first that has to arrive.

Batches of topics with interceptors are not kept here: see `producer_state`.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cachetools import TTLCache

from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
from penstock.kafka.records.sequences import add, distance

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.kafka.records.header import BatchProducer
    from penstock.kafka.wire.requests.producers import LastSequence

KEPT_S: Final = 300.0
"""A producer that has not sent the batch again for so long has given it up: by default that takes
two minutes (`delivery.timeout.ms`, `message.timeout.ms` of librdkafka: five)."""
REQUEST_INTERVAL_S: Final = 1.0
"""The interval of requests to the broker for the last sequence number of the same producer."""
KEPT_MAX: Final = 10_000
"""How many are kept, of all principals together."""

TEXT: Final = "An earlier batch of this producer must be retried first"


@dataclass(slots=True)
class _First:
    """The first batch that has to be retried.

    Attributes:
        epoch: Its producer's epoch.
        base_sequence: Its first sequence number.
        connection: The number of the connection over which it came; later connections have larger
            numbers.
        following: The sequence number after the last batch that came over the connection.
        requested_at: When the last sequence number was last requested.
    """

    epoch: int
    base_sequence: int
    connection: int
    following: int
    requested_at: float = -math.inf


class MissingBatches:
    """The first batch of each producer and partition that has to be retried.

    The calls for one producer and partition are in the order of its requests. If there is no
    room for another producer, the principal with the most producers loses one: it cannot displace
    those of a principal with fewer. Clients that do not authenticate are one principal.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first: dict[str, TTLCache[ProducerKey, _First]] = {}  # by principal
        self._none: TTLCache[ProducerKey, _First] = TTLCache(0, KEPT_S, clock)
        # The number for each topic. Old entries are counted until the topic is counted again.
        self._topics: TTLCache[str, int] = TTLCache(math.inf, KEPT_S, clock)
        self._count = 0  # of the entries that are not removed yet, though some may be too old

    def __len__(self) -> int:
        return sum(map(len, self._first.values()))

    def __bool__(self) -> bool:
        # For each request: a principal is only known where something is kept for it.
        if not self._first:
            return False
        if any(map(len, self._first.values())):
            return True
        self._first.clear()
        self._topics.clear()
        self._count = 0
        return False

    def __contains__(self, key: object) -> bool:
        """Return whether a batch of a producer for a partition has to be retried."""
        return isinstance(key, ProducerKey) and key in self._of(key)

    def has_topic(self, name: str) -> bool:
        """Return whether a batch for a topic may have to be retried; False if surely none has."""
        return bool(self) and name in self._topics

    def overtakes(self, key: ProducerKey, batch: BatchProducer, connection: int) -> bool:
        """Return whether a batch comes after another batch that has to be retried first.

        Args:
            key: The partition and the producer.
            batch: Its place in the sequence of the producer's batches.
            connection: The number of the client's connection.
        """
        first = self._of(key).get(key)
        if first is None or first.epoch != batch.epoch or first.connection < connection:
            return False
        return distance(add(first.base_sequence, 1), batch.base_sequence) >= 0

    def may_be_past(self, key: ProducerKey, batch: BatchProducer, connection: int) -> bool:
        """Return whether to request the last sequence number, to see if the first batch is stored.

        Args:
            key: The partition and the producer.
            batch: The place of the next batch in the sequence of the producer's batches.
            connection: The number of the client's connection.
        """
        first = self._of(key).get(key)
        return (
            first is not None
            and batch.base_sequence != first.following
            and self._clock() >= first.requested_at + REQUEST_INTERVAL_S
            and self.overtakes(key, batch, connection)
        )

    def on_last_sequence(self, key: ProducerKey, last: LastSequence | None) -> None:
        """Apply the last sequence number that the broker has stored of a producer.

        Args:
            key: The partition and the producer.
            last: The broker's response; None if the broker does not support the request.
        """
        first = self._of(key).get(key)
        if first is None:
            return
        first.requested_at = self._clock()
        if last is None or last.code or last.epoch < first.epoch:
            return
        if last.epoch > first.epoch:
            self._forget(key)  # the broker refuses later batches of the older epoch
        elif last.sequence >= 0 and distance(first.base_sequence, last.sequence) >= 0:
            first.base_sequence = add(last.sequence, 1)

    def answered(
        self, key: ProducerKey, batch: BatchProducer, connection: int, *, is_retriable: bool
    ) -> None:
        """Record the answer to a batch, or that it was sent to the broker.

        Args:
            key: The partition and the producer.
            batch: Its place in the sequence of the producer's batches.
            connection: The number of the client's connection.
            is_retriable: Whether the answer is a retriable error.
        """
        if batch.producer_id < 0 or batch.base_sequence < 0:
            return
        first = self._of(key).get(key)
        if first is not None and first.epoch > batch.epoch:
            return  # the broker refuses it: the producer has a newer epoch
        following = add(batch.base_sequence, batch.record_count)
        if is_retriable:
            if first is not None and self.overtakes(key, batch, connection):
                first.following = following
            else:
                new = _First(batch.epoch, batch.base_sequence, connection, following)
                new.requested_at = new.requested_at if first is None else first.requested_at
                self._keep(key, new)
        elif first is not None and _is_past(first, batch, connection):
            self._forget(key)

    def _of(self, key: ProducerKey) -> TTLCache[ProducerKey, _First]:
        return self._first.get(key.principal, self._none)

    def _keep(self, key: ProducerKey, first: _First) -> None:
        if self._count >= KEPT_MAX and key not in self._of(key):
            self._make_room()
        first_batches = self._first.get(key.principal)
        if first_batches is None:
            first_batches = TTLCache(math.inf, KEPT_S, self._clock)
            self._first[key.principal] = first_batches
        is_new = key not in first_batches
        self._count += is_new
        first_batches[key] = first
        self._topics[key.topic] = self._topics.get(key.topic, 0) + is_new

    def _forget(self, key: ProducerKey) -> None:
        first_batches = self._of(key)
        first_batches.pop(key, None)
        self._count -= 1
        self._forget_topic_of(key)
        if not first_batches:
            del self._first[key.principal]

    def _forget_topic_of(self, key: ProducerKey) -> None:
        key_count = self._topics.get(key.topic, 0) - 1
        if key_count > 0:
            self._topics[key.topic] = key_count
        else:
            self._topics.pop(key.topic, None)

    def _make_room(self) -> None:
        """Remove batches that are too old and, if full, the oldest of the principal with most.

        The oldest batch is the least likely to be retried.
        """
        self._first = {
            owner: first_batches for owner, first_batches in self._first.items() if first_batches
        }
        self._count = len(self)
        while self._count >= KEPT_MAX:
            key, _ = max(self._first.values(), key=len).popitem()
            self._count -= 1
            self._forget_topic_of(key)


def _is_past(first: _First, batch: BatchProducer, connection: int) -> bool:
    """Return whether a batch is the first batch, or shows that the producer is past it."""
    if first.epoch < batch.epoch or first.connection < connection:
        return True
    return 0 <= distance(batch.base_sequence, first.base_sequence) < max(batch.record_count, 1)

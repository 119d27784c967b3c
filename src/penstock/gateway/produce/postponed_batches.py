"""Batches of idempotent producers that have to come again, and what must not overtake them.

A broker finds a gap in a producer's sequence numbers, but not before it has stored a batch of that
producer: it takes any number for the first one. So the batches after one that was answered with a
retriable error are answered so, too, until that one has come again and got another answer.

Over a new connection a client first sends the oldest batch that has no answer. So what comes there
before the batch that was to come again shows that it has got its answer: from another gateway.

Over the same connection a client sends the batches after the first one again only after that one.
If they come without it, or later ones do, another broker may have been the leader meanwhile, and
have got the first one through another gateway. So the broker is asked for the producer's last
sequence number (KIP-664), and the batch that follows is the first that has to come.

Batches of topics with interceptors are not kept here: see `producer_state`.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from cachetools import TTLCache

from penstock.records.sequences import SEQUENCES

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.records.header import BatchProducer
    from penstock.wire.requests.producers import LastSequence

KEPT_S: Final = 300.0
"""A producer that has not sent the batch again for so long has given it up: by default that takes
two minutes (`delivery.timeout.ms`, `message.timeout.ms` of librdkafka: five)."""
ASKED_AGAIN_S: Final = 1.0
"""After so long the broker is asked again for the last sequence number of the same producer."""
KEPT_MAX: Final = 10_000
"""How many are kept, of all principals together."""

TEXT: Final = "A batch that this producer sent before has to come again first"


class SentBy(NamedTuple):
    """A partition and the producer of a batch for it.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        producer_id: The producer id.
        principal: Of the client; others cannot hold up its batches.
    """

    topic: str
    partition: int
    producer_id: int
    principal: str


@dataclass(slots=True)
class _First:
    """The first batch that has to come again.

    Attributes:
        epoch: Its producer's epoch.
        base_sequence: Its first sequence number.
        connection: The number of the connection over which it came; later ones are larger.
        following: The sequence number after the last batch that came over the connection.
        asked: When the broker was asked for the last sequence number.
    """

    epoch: int
    base_sequence: int
    connection: int
    following: int
    asked: float = -math.inf


class PostponedBatches:
    """The first batch of each producer and partition that has to come again.

    The calls for one producer and partition are in the order of its requests. Where there is no
    room for another one, the principal that has most makes room: none pushes out those of one that
    has fewer. Clients that do not authenticate are one principal.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first: dict[str, TTLCache[SentBy, _First]] = {}  # by principal
        self._none: TTLCache[SentBy, _First] = TTLCache(0, KEPT_S, clock)
        # How many of each topic. What is too old is still counted, until the topic is, too.
        self._topics: TTLCache[str, int] = TTLCache(math.inf, KEPT_S, clock)
        self._count = 0  # of what has not been removed, though some may be too old

    def __len__(self) -> int:
        return sum(map(len, self._first.values()))

    def __bool__(self) -> bool:
        # Asked for each request: there are principals only where something is kept of them.
        if not self._first:
            return False
        if any(map(len, self._first.values())):
            return True
        self._first.clear()
        self._topics.clear()
        self._count = 0
        return False

    def __contains__(self, sent_by: object) -> bool:
        """Return whether a batch of a producer for a partition has to come again."""
        return isinstance(sent_by, SentBy) and sent_by in self._of(sent_by)

    def has_topic(self, name: str) -> bool:
        """Return whether a batch for a topic may have to come again; False if surely none has."""
        return bool(self) and name in self._topics

    def overtakes(self, sent_by: SentBy, batch: BatchProducer, connection: int) -> bool:
        """Return whether a batch comes after one that has to come again first.

        Args:
            sent_by: The partition and the producer.
            batch: Its place in the sequence of the producer's batches.
            connection: The number of the client's connection.
        """
        first = self._of(sent_by).get(sent_by)
        if first is None or first.epoch != batch.epoch or first.connection < connection:
            return False
        after_first = (first.base_sequence + 1) % SEQUENCES
        return _is_at_or_after(batch.base_sequence, after_first)

    def may_be_past(self, sent_by: SentBy, batch: BatchProducer, connection: int) -> bool:
        """Return whether the broker is to be asked if it has stored the first batch meanwhile.

        Args:
            sent_by: The partition and the producer.
            batch: The place of the next batch in the sequence of the producer's batches.
            connection: The number of the client's connection.
        """
        first = self._of(sent_by).get(sent_by)
        return (
            first is not None
            and batch.base_sequence != first.following
            and self._clock() >= first.asked + ASKED_AGAIN_S
            and self.overtakes(sent_by, batch, connection)
        )

    def on_last_sequence(self, sent_by: SentBy, last: LastSequence | None) -> None:
        """Apply the last sequence number that the broker has stored of a producer.

        Args:
            sent_by: The partition and the producer.
            last: The broker's response; None if the broker does not support the request.
        """
        first = self._of(sent_by).get(sent_by)
        if first is None:
            return
        first.asked = self._clock()
        if last is None or last.code or last.epoch < first.epoch:
            return
        if last.epoch > first.epoch:
            self._forget(sent_by)  # the broker refuses what the older epoch still sends
        elif last.sequence >= 0 and _is_at_or_after(last.sequence, first.base_sequence):
            first.base_sequence = (last.sequence + 1) % SEQUENCES

    def answered(
        self, sent_by: SentBy, batch: BatchProducer, connection: int, *, comes_again: bool
    ) -> None:
        """Record the answer to a batch, or that it was sent to the broker.

        Args:
            sent_by: The partition and the producer.
            batch: Its place in the sequence of the producer's batches.
            connection: The number of the client's connection.
            comes_again: Whether the answer is a retriable error.
        """
        if batch.producer_id < 0 or batch.base_sequence < 0:
            return
        first = self._of(sent_by).get(sent_by)
        if first is not None and first.epoch > batch.epoch:
            return  # the broker refuses it: the producer has a newer epoch
        following = (batch.base_sequence + batch.record_count) % SEQUENCES
        if comes_again:
            if first is not None and self.overtakes(sent_by, batch, connection):
                first.following = following
            else:
                new = _First(batch.epoch, batch.base_sequence, connection, following)
                new.asked = new.asked if first is None else first.asked
                self._keep(sent_by, new)
        elif first is not None and _is_past(first, batch, connection):
            self._forget(sent_by)

    def _of(self, sent_by: SentBy) -> TTLCache[SentBy, _First]:
        return self._first.get(sent_by.principal, self._none)

    def _keep(self, sent_by: SentBy, first: _First) -> None:
        if self._count >= KEPT_MAX and sent_by not in self._of(sent_by):
            self._make_room()
        kept = self._first.get(sent_by.principal)
        if kept is None:
            kept = TTLCache(math.inf, KEPT_S, self._clock)
            self._first[sent_by.principal] = kept
        is_new = sent_by not in kept
        self._count += is_new
        kept[sent_by] = first
        self._topics[sent_by.topic] = self._topics.get(sent_by.topic, 0) + is_new

    def _forget(self, sent_by: SentBy) -> None:
        kept = self._of(sent_by)
        kept.pop(sent_by, None)
        self._count -= 1
        self._forget_topic_of(sent_by)
        if not kept:
            del self._first[sent_by.principal]

    def _forget_topic_of(self, sent_by: SentBy) -> None:
        left = self._topics.get(sent_by.topic, 0) - 1
        if left > 0:
            self._topics[sent_by.topic] = left
        else:
            self._topics.pop(sent_by.topic, None)

    def _make_room(self) -> None:
        """Remove what is too old, and, if all is full, the oldest of the principal that has most.

        What is kept for longest is the least likely to come again.
        """
        self._first = {owner: kept for owner, kept in self._first.items() if kept}
        self._count = len(self)
        while self._count >= KEPT_MAX:
            sent_by, _ = max(self._first.values(), key=len).popitem()
            self._count -= 1
            self._forget_topic_of(sent_by)


def _is_at_or_after(sequence: int, other: int) -> bool:
    return (sequence - other) % SEQUENCES < SEQUENCES // 2


def _is_past(first: _First, batch: BatchProducer, connection: int) -> bool:
    """Return whether a batch is the first one, or shows that the producer is past it."""
    if first.epoch < batch.epoch or first.connection < connection:
        return True
    return (first.base_sequence - batch.base_sequence) % SEQUENCES < max(batch.record_count, 1)

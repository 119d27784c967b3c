"""The batches that were received and are not decided yet."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID


class Arrival(NamedTuple):
    """A producer at a partition, by the name or id of the topic as in the request."""

    topic: str | UUID
    partition: int
    producer_id: int
    principal: str = ""


class Arrivals:
    """The received batches of idempotent producers that are not decided.

    A batch may be overtaken by a batch on another connection, when the leader of the partition
    changes.
    """

    def __init__(self) -> None:
        """Begin without a batch."""
        self._batches: dict[Arrival, list[tuple[int, int]]] = {}
        self._topics: Counter[str | UUID] = Counter()

    def __bool__(self) -> bool:
        return bool(self._batches)

    def add(self, arrival: Arrival, epoch: int, first: int) -> None:
        """Register a batch that was received."""
        self._batches.setdefault(arrival, []).append((epoch, first))
        self._topics[arrival.topic] += 1

    def remove(self, arrival: Arrival, epoch: int, first: int) -> None:
        """Unregister a batch: it is decided next, or never."""
        batches = self._batches[arrival]
        batches.remove((epoch, first))
        if not batches:
            del self._batches[arrival]
        self._topics[arrival.topic] -= 1
        if not self._topics[arrival.topic]:
            del self._topics[arrival.topic]

    def count(self, arrival: Arrival) -> int:
        """How many batches of a producer and partition are registered."""
        return len(self._batches.get(arrival, ()))

    def have_topic(self, topic: str | UUID) -> bool:
        """Whether a batch of a topic, as its request named it, is registered."""
        return topic in self._topics

    def first_numbers(self, arrival: Arrival, epoch: int) -> Sequence[int]:
        """Return the first sequence numbers of a producer's registered batches in an epoch."""
        return [
            first for batch_epoch, first in self._batches.get(arrival, ()) if batch_epoch == epoch
        ]

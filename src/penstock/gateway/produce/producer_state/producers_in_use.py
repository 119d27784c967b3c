"""The producers that are in use here."""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import ItemsView

    from penstock.gateway.produce.producer_state.producer.state_machine import Producer
    from penstock.gateway.produce.producer_state.records.encoding import ProducerKey

_EVICTION_CANDIDATES: Final = 64
"""How many least recently used producers are searched for one without a record to evict."""


class ProducersInUse:
    """The state of producers by key, the least recently used first.

    The state of the epoch before is kept next to that of a newer epoch. The client with the newer
    epoch may not be authorized to write: until the broker has stored a batch of it, the older epoch
    remains valid.
    """

    def __init__(self) -> None:
        """Begin without a producer."""
        self._producers: OrderedDict[ProducerKey, Producer] = OrderedDict()
        self._before: dict[ProducerKey, Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def __contains__(self, key: object) -> bool:
        return key in self._producers

    def get(self, key: ProducerKey) -> Producer | None:
        """Return the state of a producer's newest epoch; None if it is not in use."""
        return self._producers.get(key)

    def of(self, key: ProducerKey, epoch: int) -> Producer | None:
        """Return the state of a producer in an epoch; None if it is not in use."""
        for producer in (self._producers.get(key), self._before.get(key)):
            if producer is not None and producer.epoch == epoch:
                return producer
        return None

    def before(self, key: ProducerKey, epoch: int | None) -> Producer | None:
        """Return the state of the epoch before the newest, if it is that of an epoch."""
        state = self._before.get(key)
        return state if state is not None and state.epoch == epoch else None

    def items(self) -> ItemsView[ProducerKey, Producer]:
        """Return all producers, the least recently used first."""
        return self._producers.items()

    def add(self, key: ProducerKey, producer: Producer) -> None:
        """Add a producer, or its newest epoch."""
        self._producers[key] = producer

    def use(self, key: ProducerKey) -> None:
        """Record that a producer is used now."""
        if key in self._producers:
            self._producers.move_to_end(key)

    def supersede(self, key: ProducerKey) -> None:
        """Make room for the state of a newer epoch of a producer in use."""
        producer = self._producers.pop(key)
        if key in self._before:
            producer.clear()
        else:
            self._before[key] = producer

    def settle_epoch(self, key: ProducerKey) -> None:
        """Record that the broker has stored a batch of the newest epoch."""
        self._before.pop(key, None)

    def remove_before(self, key: ProducerKey) -> None:
        """Remove the state of the epoch before the newest."""
        state = self._before.pop(key, None)
        if state is not None:
            state.clear()

    def remove_newest(self, key: ProducerKey) -> None:
        """Remove the state of a producer's newest epoch, if it is in use."""
        producer = self._producers.pop(key, None)
        if producer is not None:
            producer.clear()

    def remove(self, key: ProducerKey) -> None:
        """Remove the state of a producer."""
        self.remove_newest(key)
        self.remove_before(key)

    def unused_since(self, limit: float) -> tuple[ProducerKey, Producer] | None:
        """Return the least recently used producer, if it was not used since a time."""
        oldest = next(iter(self._producers.items()), None)
        return oldest if oldest is not None and oldest[1].used < limit else None

    def least_needed(self) -> tuple[ProducerKey, Producer]:
        """Return the producer to evict: a least recently used producer.

        If possible, it has no record, and no batch that may be retried, which later batches would
        overtake.
        """
        oldest = islice(self._producers, min(_EVICTION_CANDIDATES, len(self._producers) - 1))
        key = min(oldest, key=self._need, default=next(iter(self._producers)))
        return key, self._producers[key]

    def _need(self, key: ProducerKey) -> tuple[bool, bool]:
        producer = self._producers[key]
        return producer.earlier.may_be_retried, bool(producer.record.written)

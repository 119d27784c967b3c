"""Batches on which interceptors spent all their time: a client sends them again and again.

Such a batch is answered at once for ten times as long as it took, so that, however often it
comes back, it has at most a tenth of a worker.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from cachetools import TLRUCache

from penstock.records.header import checksum

if TYPE_CHECKING:
    from collections.abc import Callable

_REST: Final = 10
_KEPT_MAX: Final = 10_000

Batch = tuple[str, int, int, int]
"""Topic, partition, size and the checksum that the batch carries."""


def batch_of(topic: str, partition: int, data: bytes | memoryview) -> Batch:
    """Tell a batch from others, by what its sender computed over it."""
    return topic, partition, len(data), checksum(data)


class TimedOutBatches:
    """Which batches are not to be tried yet."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: TLRUCache[Batch, float] = TLRUCache(
            _KEPT_MAX, ttu=lambda _batch, until, _now: until, timer=clock
        )

    def add(self, batch: Batch, spent_s: float) -> None:
        """Remember a batch that took so long, to no result."""
        self._until[batch] = self._clock() + _REST * spent_s

    def rests(self, batch: Batch) -> bool:
        """Whether a batch is to be answered without another attempt."""
        return batch in self._until

    def __bool__(self) -> bool:
        return bool(self._until)

"""Batches on which interceptors spent all their time: a client sends them again and again.

Such a batch is answered at once for ten times as long as it took, so that, however often it
comes back, it has at most a tenth of a worker.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

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
        self._until: dict[Batch, float] = {}

    def add(self, batch: Batch, spent_s: float) -> None:
        """Remember a batch that took so long, to no result."""
        if len(self._until) >= _KEPT_MAX:
            now = self._clock()
            self._until = {b: until for b, until in self._until.items() if until > now}
            while len(self._until) >= _KEPT_MAX:
                del self._until[next(iter(self._until))]
        self._until[batch] = self._clock() + _REST * spent_s

    def rests(self, batch: Batch) -> bool:
        """Whether a batch is to be answered without another attempt."""
        until = self._until.get(batch)
        if until is None:
            return False
        if self._clock() < until:
            return True
        del self._until[batch]
        return False

    def __bool__(self) -> bool:
        return bool(self._until)

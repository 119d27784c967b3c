"""Batches on which interceptors timed out: their clients send them again and again.

Such a batch is answered at once for ten times as long as it took, so that, however often it
comes back, it has at most a tenth of a worker.
"""

from __future__ import annotations

import time
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from cachetools import TLRUCache

from penstock.kafka.records.header import checksum

if TYPE_CHECKING:
    from collections.abc import Callable

_SUSPENSION_FACTOR: Final = 10
_CACHED_MAX: Final = 10_000

Batch = tuple[str, int, int, int, bytes]
"""Topic, partition, size, the checksum that the batch carries, and a digest of its sender."""


def batch_of(topic: str, partition: int, data: bytes | memoryview, sender: bytes) -> Batch:
    """Return the identity of a batch: its checksum, computed by its sender, and its partition.

    It includes the sender if policies use it: the same bytes of another client are another batch.
    """
    sender_digest = blake2b(sender, digest_size=16).digest() if sender else b""
    return topic, partition, len(data), checksum(data), sender_digest


class TimedOutBatches:
    """A cache of batches that are not to be retried yet."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end_times: TLRUCache[Batch, float] = TLRUCache(
            _CACHED_MAX, ttu=lambda _batch, expiry, _now: expiry, timer=clock
        )

    def add(self, batch: Batch, spent_s: float) -> None:
        """Add a batch that took this long without a result."""
        self._end_times[batch] = self._clock() + _SUSPENSION_FACTOR * spent_s

    def is_suspended(self, batch: Batch) -> bool:
        """Return whether a batch is to be answered without another attempt."""
        return batch in self._end_times

    def __bool__(self) -> bool:
        return bool(self._end_times)

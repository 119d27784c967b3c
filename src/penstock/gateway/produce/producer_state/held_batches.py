"""The bytes of decided batches that are held for retries, within a limit of memory."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.gateway.produce.producer_state.producer.batch import Batch

HELD_S: Final = 600.0
"""No client retries a batch for longer, unless configured to."""
HELD_MAX_BYTES: Final = 256 * 2**20


class HeldBatches:
    """The batches whose data or dead letters are held, the oldest first.

    Attributes:
        bytes: The memory that they take.
    """

    def __init__(self, max_bytes: int, now: Callable[[], float]) -> None:
        """Hold none.

        Args:
            max_bytes: The most bytes that are held.
            now: Returns the time in seconds since the epoch.
        """
        self._max_bytes = max_bytes
        self._now = now
        self._held: OrderedDict[Batch, tuple[int, float]] = OrderedDict()
        self.bytes = 0

    def hold(self, batch: Batch) -> None:
        """Hold the data of a batch for retries; for lack of memory, release the oldest batches."""
        data = batch.data
        if batch in self._held or (data is None and not batch.dropped and not batch.letters):
            return
        size = len(batch.dropped) * 4 + len(batch.letters or b"")
        if data is not None:
            held_bytes = memoryview(data.obj).nbytes if isinstance(data, memoryview) else len(data)
            if 2 * len(data) < held_bytes:
                batch.data = bytes(data)  # or a small batch would hold a large request
                held_bytes = len(data)
            size += held_bytes
        self._held[batch] = (size, self._now())
        self.bytes += size
        while self.bytes > self._max_bytes and self._held:
            self.release(next(iter(self._held)))

    def release(self, batch: Batch) -> None:
        """Release the data and the dead letters of a batch."""
        size, _ = self._held.pop(batch, (0, 0.0))
        self.bytes -= size
        batch.data = batch.letters = None

    def release_letters(self, batch: Batch) -> None:
        """Release the dead letters of a batch: they are stored."""
        size, held_at = self._held.get(batch, (0, 0.0))
        letters = min(size, len(batch.letters or b""))
        if letters:
            self._held[batch] = (size - letters, held_at)
        self.bytes -= letters
        batch.letters = None

    def expire(self) -> None:
        """Release the batches that no client retries any more."""
        limit = self._now() - HELD_S
        while self._held and next(iter(self._held.values()))[1] < limit:
            self.release(next(iter(self._held)))

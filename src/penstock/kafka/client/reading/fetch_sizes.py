"""How many bytes to request: enough for the range, not much more, and not above a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.kafka.client.reading.batches import Selection

_FIRST_BYTES: Final = 2**20
_LEAST_BYTES: Final = 2**14
_MARGIN: Final = 1.1


class FetchSizes:
    """The sizes of one range's fetches, derived from its batches until now."""

    def __init__(self, max_bytes: int) -> None:
        """Set the limit of a response; a larger batch is sent nevertheless."""
        self._max_bytes = max_bytes
        self._bytes = 0
        self._offsets = 0
        self._largest = 0
        self._last = 0

    def learn(self, size: int, offsets: int, selection: Selection) -> None:
        """Take a response.

        Args:
            size: Its records in bytes.
            offsets: How many offsets it moved the position by.
        """
        self._bytes += size
        self._offsets += offsets
        self._largest = max(self._largest, selection.largest)
        self._last = size

    @property
    def is_within_limit(self) -> bool:
        """Whether the last response was no larger than the limit."""
        return self._last <= self._max_bytes

    def wanted(self, offsets: int) -> int:
        """Return how many bytes to request for so many offsets."""
        if not self._offsets:
            return min(self._max_bytes, _FIRST_BYTES)
        expected = int(_MARGIN * offsets * self._bytes / self._offsets) + self._largest
        return min(self._max_bytes, max(expected, _LEAST_BYTES))

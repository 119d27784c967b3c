"""A frame with some bytes replaced, in about as much memory as it has bytes."""

from __future__ import annotations

from typing import Final

_SMALL_BYTES: Final = 4096
"""Less than this is copied: an object for each part would cost more."""
_SHARED_BYTES: Final = 512
"""From this on a replacement is not copied: the same bytes may be in thousands of places."""


class SplicedFrame:
    """Collects the kept parts of a frame, and the replacements of the rest, from front to back."""

    __slots__ = ("_frame", "_last", "_parts", "_position", "_view", "is_changed")

    def __init__(self, frame: bytes, start: int) -> None:
        """Begin.

        Args:
            start: The first of its bytes that belongs to the result.
        """
        self._frame = frame
        self._view = memoryview(frame)
        self._position = start
        self._parts: list[bytes | bytearray | memoryview] = []
        self._last = bytearray()
        self.is_changed = False

    def replace(self, start: int, end: int, replacement: bytes) -> None:
        """Put other bytes in the place of those from `start` to `end`; `start` never goes back."""
        self._keep(start)
        self._position = end
        self.is_changed = True
        if len(replacement) < _SHARED_BYTES:
            self._last += replacement
        else:
            self._append(replacement)

    def finish(self, end: int) -> list[bytes | memoryview]:
        """Return the buffers of the result, with the original bytes up to `end`."""
        self._keep(end)
        if self._last:
            self._parts.append(self._last)
            self._last = bytearray()
        return [memoryview(part) if isinstance(part, bytearray) else part for part in self._parts]

    def _keep(self, end: int) -> None:
        if end - self._position < _SMALL_BYTES:
            self._last += self._frame[self._position : end]
        else:
            self._append(self._view[self._position : end])

    def _append(self, part: bytes | memoryview) -> None:
        if self._last:
            self._parts.append(self._last)
            self._last = bytearray()
        self._parts.append(part)


def framed(parts: list[bytes | memoryview]) -> list[bytes | memoryview]:
    """Return the buffers of a frame: its length, and its parts."""
    return [sum(map(len, parts)).to_bytes(4, "big"), *parts]

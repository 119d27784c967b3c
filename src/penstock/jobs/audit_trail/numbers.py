"""Which numbers were there already, and which are missing between the first and the last."""

from __future__ import annotations

from typing import Final

_BITS: Final = 1024


class Numbers:
    """A set of numbers from 1 on, small where they are close together, in whatever order they come.

    Attributes:
        count: How many there are.
        first: The lowest, or 0.
        last: The highest, or 0.
    """

    def __init__(self) -> None:
        self.count = self.first = self.last = 0
        self._bits: dict[int, int] = {}

    def add(self, number: int) -> bool:
        """Add a number; return False if it was there already."""
        place, bit = number // _BITS, 1 << number % _BITS
        bits = self._bits.get(place, 0)
        if bits & bit:
            return False
        self._bits[place] = bits | bit
        self.count += 1
        self.first = min(self.first or number, number)
        self.last = max(self.last, number)
        return True

    @property
    def missing(self) -> int:
        """How many are missing between the first and the last."""
        return self.last - self.first + 1 - self.count if self.count else 0

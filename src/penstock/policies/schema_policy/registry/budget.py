"""How many look-ups in vain there may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Budget:
    """A token bucket: a number of tokens that grows again, slowly."""

    def __init__(self, tokens: int, per_second: float, clock: Callable[[], float]) -> None:
        """Begin with all tokens.

        Args:
            tokens: The most that there are at once.
            per_second: How many come back.
            clock: Seconds.
        """
        self._most = float(tokens)
        self._per_second = per_second
        self._clock = clock
        self._left = float(tokens)
        self._at = clock()

    @property
    def is_spent(self) -> bool:
        """Whether there is no whole token."""
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._at) * self._per_second)
        self._at = now
        return self._left < 1

    def spend(self) -> None:
        """Take a token; only where it is not spent."""
        self._left -= 1

"""Limits the number of look-ups that find nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cachetools import LRUCache

if TYPE_CHECKING:
    from collections.abc import Callable

SHARES_KEPT: Final = 10_000
"""How many topics' shares are kept; the others are full."""


class TokenBucket:
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
        self._tokens = float(tokens)
        self._last_s = clock()

    @property
    def is_spent(self) -> bool:
        """Whether there is less than one token."""
        now = self._clock()
        self._tokens = min(self._most, self._tokens + (now - self._last_s) * self._per_second)
        self._last_s = now
        return self._tokens < 1

    def spend(self) -> None:
        """Take a token; only where it is not spent."""
        self._tokens -= 1


class Shares:
    """Tokens of several topics: some that each has for itself, then those that all have together.

    So a topic that takes as many as it can get leaves the others their shares.
    """

    def __init__(
        self,
        tokens: int,
        per_second: float,
        *,
        own_tokens: int,
        own_per_second: float,
        clock: Callable[[], float],
    ) -> None:
        """Begin with all tokens.

        Args:
            tokens: The most that a topic can have at once.
            per_second: How many come back to it at most.
            own_tokens: How many of these no other topic can take.
            own_per_second: How many of those that come back.
            clock: Seconds.
        """
        self._own_tokens, self._own_per_second = own_tokens, own_per_second
        self._clock = clock
        self._of_all = TokenBucket(tokens - own_tokens, per_second - own_per_second, clock)
        self._own: LRUCache[str, TokenBucket] = LRUCache(SHARES_KEPT)

    def __len__(self) -> int:
        return len(self._own)

    def is_spent(self, topic: str) -> bool:
        """Whether there is no token for a topic."""
        own = self._own.get(topic)
        return own is not None and own.is_spent and self._of_all.is_spent

    def spend(self, topic: str) -> None:
        """Take a token for a topic; only where it is not spent."""
        own = self._own.get(topic)
        if own is None:
            own = self._own[topic] = TokenBucket(
                self._own_tokens, self._own_per_second, self._clock
            )
        (self._of_all if own.is_spent else own).spend()

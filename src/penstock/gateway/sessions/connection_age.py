"""When a client's connection is old enough to be closed (`connections.max.age.ms`)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

JITTER: Final = 0.1
"""Connections that were opened together become old at different times, as with gRPC."""
_WAITS_FOR: Final = 0.1
_WAITS_MAX_S: Final = 10.0
"""So much of the age, and no longer, an old connection may wait for a moment between requests."""


class ConnectionAge:
    """The age at which a connection is closed."""

    def __init__(
        self,
        max_age_s: float,
        opened_at: float,
        vary: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """Draw the time at which the connection is old.

        Args:
            max_age_s: The age, on average; infinite if connections do not become old.
            opened_at: When the connection was opened.
            vary: Returns a number between two numbers.
        """
        self._old_at = opened_at + max_age_s * vary(1 - JITTER, 1 + JITTER)
        self._waits_until = self._old_at + min(_WAITS_MAX_S, max_age_s * _WAITS_FOR)

    def has_come(self, now: float, is_between_requests: Callable[[], bool]) -> bool:
        """Return whether the connection is to be ended.

        Args:
            now: The time by the clock of `opened_at`.
            is_between_requests: Whether nothing on it is received, awaited or sent. Once it is
                older still, that does not matter.
        """
        return now >= self._old_at and (now >= self._waits_until or is_between_requests())

"""A cache of `max.message.bytes`, the largest batch that a topic accepts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from cachetools import TTLCache

if TYPE_CHECKING:
    from collections.abc import Callable

_TTL_S: Final = 60.0
_TOPICS_MAX: Final = 10_000


class MaxMessageBytes:
    """The limits of topics, as brokers returned them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits: TTLCache[str, int | None] = TTLCache(_TOPICS_MAX, _TTL_S, timer=clock)

    def is_unknown(self, topic: str) -> bool:
        """Whether the limit has to be requested from the broker."""
        return topic not in self._limits

    def get(self, topic: str) -> int | None:
        """Return the limit; None if the broker did not return it, and enforces it alone."""
        return self._limits.get(topic)

    def put(self, topic: str, max_bytes: int | None) -> None:
        """Store the limit of a topic."""
        self._limits[topic] = max_bytes

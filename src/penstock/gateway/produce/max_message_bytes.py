"""How large a batch may be for a topic: `max.message.bytes`, as brokers told."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from cachetools import TTLCache

if TYPE_CHECKING:
    from collections.abc import Callable

_TTL_S: Final = 60.0
_TOPICS_MAX: Final = 10_000


class MaxMessageBytes:
    """A cache of what was told of some topics."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits: TTLCache[str, int | None] = TTLCache(_TOPICS_MAX, _TTL_S, timer=clock)

    def is_unknown(self, topic: str) -> bool:
        """Whether a broker has to be asked."""
        return topic not in self._limits

    def get(self, topic: str) -> int | None:
        """Return the limit; None where the broker did not tell, and will itself refuse."""
        return self._limits.get(topic)

    def put(self, topic: str, max_bytes: int | None) -> None:
        """Keep what a broker told."""
        self._limits[topic] = max_bytes

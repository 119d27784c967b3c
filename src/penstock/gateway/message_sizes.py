"""How large a batch may be for a topic: `max.message.bytes`, as brokers told."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from cachetools import TTLCache

if TYPE_CHECKING:
    from collections.abc import Callable

_BELIEVED_S: Final = 60.0
_KEPT_MAX: Final = 10_000


class MessageSizes:
    """What was told of some topics, for a minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._told: TTLCache[str, int | None] = TTLCache(_KEPT_MAX, _BELIEVED_S, timer=clock)

    def knows_not(self, topic: str) -> bool:
        """Whether it has to be asked."""
        return topic not in self._told

    def most_bytes(self, topic: str) -> int | None:
        """Give the limit; None where the broker did not tell, and will itself refuse."""
        return self._told.get(topic)

    def learn(self, topic: str, most_bytes: int | None) -> None:
        """Take note."""
        self._told[topic] = most_bytes

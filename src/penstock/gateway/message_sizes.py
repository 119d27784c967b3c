"""How large a batch may be for a topic: `max.message.bytes`, as brokers told."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_BELIEVED_S: Final = 60.0
_KEPT_MAX: Final = 10_000


class MessageSizes:
    """What was told of some topics, for a minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: dict[str, tuple[int | None, float]] = {}

    def knows_not(self, topic: str) -> bool:
        """Whether it has to be asked."""
        _, until = self._told.get(topic, (None, 0.0))
        return self._clock() >= until

    def most_bytes(self, topic: str) -> int | None:
        """Give the limit; None where the broker did not tell, and will itself refuse."""
        return self._told.get(topic, (None, 0.0))[0]

    def learn(self, topic: str, most_bytes: int | None) -> None:
        """Take note."""
        if len(self._told) >= _KEPT_MAX:
            self._told.clear()
        self._told[topic] = (most_bytes, self._clock() + _BELIEVED_S)

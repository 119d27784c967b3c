"""The cached rights of clients to write to topics, as brokers have returned them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from cachetools import TTLCache

if TYPE_CHECKING:
    from collections.abc import Callable

    Client = tuple[int, str | None]
    """The number of a connection, and the principal on it."""

TTL_S: Final = 10.0
"""Changes of rights take effect after it."""
_KNOWN_MAX: Final = 10_000


class WriteRights:
    """The rights of clients, from recent responses of brokers."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._codes: TTLCache[tuple[Client, str], int] = TTLCache(_KNOWN_MAX, TTL_S, timer=clock)

    def code(self, client: Client, topic: str) -> int | None:
        """Return the error code for a client that writes to a topic; None if it is not known."""
        return self._codes.get((client, topic))

    def put(self, client: Client, topic: str, code: int) -> None:
        """Store the error code of a broker; 0 for the right to write."""
        self._codes[client, topic] = code

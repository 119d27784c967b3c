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
    """The rights of clients, from recent responses of brokers.

    If there is no room for another, those of the principals with the most are removed: a client may
    name any number of topics, also some that do not exist.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._codes: dict[str | None, TTLCache[tuple[int, str], int]] = {}  # by principal
        self._count = 0  # of the entries, with those that are too old

    def code(self, client: Client, topic: str) -> int | None:
        """Return the error code for a client that writes to a topic; None if it is not known."""
        number, principal = client
        codes = self._codes.get(principal)
        return None if codes is None else codes.get((number, topic))

    def put(self, client: Client, topic: str, code: int) -> None:
        """Store the error code of a broker; 0 for the right to write."""
        if self._count >= _KNOWN_MAX:
            self._make_room()
        number, principal = client
        codes = self._codes.get(principal)
        if codes is None:
            codes = self._codes[principal] = TTLCache(_KNOWN_MAX, TTL_S, timer=self._clock)
        codes[number, topic] = code
        self._count += 1

    def _make_room(self) -> None:
        """Remove what is too old and, if it is full then, half: first of those with most."""
        self._codes = {principal: codes for principal, codes in self._codes.items() if codes}
        self._count = sum(map(len, self._codes.values()))
        if self._count < _KNOWN_MAX:
            return
        most = sorted(self._codes, key=lambda principal: len(self._codes[principal]))
        while self._count > _KNOWN_MAX // 2:
            self._count -= len(self._codes.pop(most.pop()))

"""How much is done to say why payloads do not fit: verdicts come first, and all of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_RECORDS: Final = 100
MAX_SECONDS: Final = 0.2
"""Nothing is explained later. What is under way then takes 50 ms at most."""


class Explanations:
    """The explanations of one batch."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._records = MAX_RECORDS
        self._until: float | None = None

    def ask(self, explain: Callable[[], str | None]) -> str | None:
        """Return what a function says; None where it says nothing, or is not asked any more."""
        if not self._records:
            return None
        self._records -= 1
        now = self._clock()
        if self._until is None:
            self._until = now + MAX_SECONDS
        return explain() if now < self._until else None

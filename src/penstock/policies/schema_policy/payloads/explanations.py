"""How much is done to say why payloads do not fit: verdicts come first, and all of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_RECORDS: Final = 100
MAX_SECONDS: Final = 0.2
"""Of the processor. Nothing is explained when they are spent; the last takes 50 ms at most."""


class PayloadExplanations:
    """The explanations of one batch."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._records = MAX_RECORDS
        self._left = MAX_SECONDS

    def ask(self, explain: Callable[[], str | None]) -> str | None:
        """Return what a function says; None where it says nothing, or is not called any more."""
        if not self._records or self._left <= 0:
            return None
        self._records -= 1
        began = self._clock()
        said = explain()
        self._left -= self._clock() - began
        return said

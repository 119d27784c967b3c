"""Limits the time for explanations why payloads do not fit: verdicts do not wait for them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_RECORDS: Final = 100
MAX_SECONDS: Final = 0.2
"""Of CPU time. No explanation begins after them; the last takes 50 ms at most."""


class PayloadExplanations:
    """The explanations of a batch."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._records = MAX_RECORDS
        self._left = MAX_SECONDS

    def explain(self, explain: Callable[[], str | None]) -> str | None:
        """Return the result of a function; None if the limits are reached."""
        if not self._records or self._left <= 0:
            return None
        self._records -= 1
        began = self._clock()
        explanation = explain()
        self._left -= self._clock() - began
        return explanation

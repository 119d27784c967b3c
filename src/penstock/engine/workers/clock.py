"""A monotonic clock that counts only time in which the gateway ran."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_STEP_MAX_S: Final = 0.1


class RunningClock:
    """A clock that all but stops while it is not read.

    The gateway reads it twenty times a second, or more. Where it could not (a suspended machine, a
    stopped process, an event loop that stood still), no policy is charged for the time.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_reading = clock()
        self._seconds = 0.0

    def now(self) -> float:
        """Return the time in seconds; each step since the last reading counts at most 0.1 s."""
        reading = self._clock()
        step = reading - self._last_reading
        self._last_reading = reading
        self._seconds += min(step, _STEP_MAX_S)
        return self._seconds

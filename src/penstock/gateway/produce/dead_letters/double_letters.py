"""Logs that dead letters may be stored twice."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

log = structlog.get_logger()

_EVERY_S: Final = 60.0


class DoubleLetters:
    """Logs it once a minute, with the number of times since the last line."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._logged_at = -math.inf
        self._times = 0

    def warn(self, reason: str) -> None:
        """Log it, unless that was less than a minute ago."""
        self._times += 1
        now = self._clock()
        if now - self._logged_at >= _EVERY_S:
            log.warning("dead letters may be stored twice", reason=reason, times=self._times)
            self._logged_at, self._times = now, 0

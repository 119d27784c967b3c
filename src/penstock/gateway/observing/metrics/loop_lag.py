"""The delay of the event loop: all clients wait for as long."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

EVERY_S: Final = 0.25
_KEPT: Final = 240
"""As many lags make a minute."""


class LoopLag:
    """Measures the lag of the event loop by a timer.

    Attributes:
        longest_s: The longest lag of the last minute, in seconds.
    """

    def __init__(self) -> None:
        """Prepare; `run` measures."""
        self._lags: deque[float] = deque(maxlen=_KEPT)

    @property
    def longest_s(self) -> float:
        """The longest lag of the last minute, in seconds."""
        return max(self._lags, default=0.0)

    async def run(self, clock: Callable[[], float] | None = None) -> None:
        """Measure until it is cancelled.

        Args:
            clock: Returns the time in seconds; that of the loop unless given.
        """
        now = clock or asyncio.get_running_loop().time
        while True:
            due = now() + EVERY_S
            await asyncio.sleep(EVERY_S)
            self._lags.append(max(0.0, now() - due))

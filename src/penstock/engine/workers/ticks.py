"""Calls a function at intervals, which are longer while there is nothing to do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

TICK_S: Final = 0.02
IDLE_TICK_S: Final = 0.05
"""While nothing is being judged; less than `RunningClock` counts at a time."""


class Ticks:
    """A timer. Timers of the event loop take a tenth of the time of a task that waits."""

    def __init__(self, tick: Callable[[], bool]) -> None:
        """Call nothing yet.

        Args:
            tick: Called at intervals; returns whether there is nothing to do now.
        """
        self._tick: Callable[[], bool] | None = tick
        self._timer: asyncio.TimerHandle | None = None
        self._is_idle = False

    def start(self) -> None:
        """Begin; to be called in the event loop."""
        self._set_timer(TICK_S)

    def wake(self) -> None:
        """Call the function after the shorter interval: there is something to do again."""
        if self._is_idle:
            self._is_idle = False
            if self._timer is not None:
                self._timer.cancel()
                self._set_timer(TICK_S)

    def stop(self) -> None:
        """Call the function no more."""
        self._tick = None  # it may refer to an object that has this
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, delay_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_time)

    def _on_time(self) -> None:
        if self._tick is None:
            return
        self._is_idle = False  # what the function itself begins is known when it returns
        try:
            self._is_idle = self._tick()
        finally:  # an error of one call ends no later call
            if self._tick is not None:
                self._set_timer(IDLE_TICK_S if self._is_idle else TICK_S)

"""Cuts long work on the event loop into slices, between which others have their turn."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_next_turn: Callable[[], Awaitable[None]] = partial(asyncio.sleep, 0)


class Steps:
    """Counts the steps of some work."""

    def __init__(self, steps: int, turn: Callable[[], Awaitable[None]] = _next_turn) -> None:
        """Begin the work.

        Args:
            steps: How many steps a slice has.
            turn: Waits for the next slice's turn: `Turns.turn` where clients choose how many do
                such work at once.
        """
        self._steps = steps
        self._turn = turn
        self._done = 0

    async def step(self) -> None:
        """Count a step; after the last one of a slice, let others have their turn."""
        self._done += 1
        if not self._done % self._steps:
            await self._turn()

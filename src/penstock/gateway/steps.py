"""Cuts long work on the event loop into slices, between which others have their turn."""

from __future__ import annotations

import asyncio


class Steps:
    """Counts the steps of some work."""

    def __init__(self, steps: int) -> None:
        """Begin the work.

        Args:
            steps: How many steps a slice has.
        """
        self._steps = steps
        self._done = 0

    async def step(self) -> None:
        """Count a step; after the last one of a slice, let others have their turn."""
        self._done += 1
        if not self._done % self._steps:
            await asyncio.sleep(0)

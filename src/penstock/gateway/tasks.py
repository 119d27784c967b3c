"""The tasks of a gateway: coroutines that run independently of connections."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine


class Tasks:
    """Runs coroutines until they end or the gateway stops.

    Attributes:
        loop: The event loop; set before anything runs.
    """

    loop: asyncio.AbstractEventLoop

    def __init__(self) -> None:
        """Begin without tasks."""
        self._running: set[asyncio.Task[Any]] = set()

    def run(self, coroutine: Coroutine[object, object, Any]) -> asyncio.Task[Any]:
        """Run a coroutine until it ends or `end` is called."""
        task: asyncio.Task[Any] = self.loop.create_task(coroutine)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def end(self) -> None:
        """Cancel all coroutines, and wait until they have ended."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

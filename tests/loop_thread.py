"""Servers of an event loop in a thread, for tests without an event loop."""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

_READY_S = 60.0


class LoopThread(ABC):
    """Listens in a thread while it is entered; a context manager."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(_READY_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.call(self._ended.set)
        self._thread.join(60)

    def call(self, function: Callable[..., object], *arguments: Any) -> None:
        """Run a function in the thread."""
        self._loop.call_soon_threadsafe(function, *arguments)

    @abstractmethod
    async def listen(self) -> Sequence[asyncio.Server]:
        """Start the servers, which are closed at the end with their connections."""

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        servers = await self.listen()
        self._ready.set()
        await self._ended.wait()
        for server in servers:
            server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0.1)

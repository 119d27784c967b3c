"""Sends changes to subscribers, as server-sent events.

https://html.spec.whatwg.org/multipage/server-sent-events.html. A message is encoded once for all.
Each subscriber has a bounded queue: a slow subscriber loses messages, and gets their number
before the next message. The first message is a snapshot, so nothing has to be kept for those
who come back.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

SUBSCRIBERS_MAX: Final = 16
"""Half of the listener's connections: others are left for probes and for Prometheus."""
QUEUE_MAX: Final = 40
"""Ten seconds of messages."""
QUEUE_MAX_BYTES: Final = 2 * 2**20
"""The most bytes, if it is more than one message: messages with a hundred long texts are large."""
HEARTBEAT_S: Final = 15.0
"""After so long without a message a comment is sent, to detect whether the client is connected."""
CONTENT_TYPE: Final = "text/event-stream"
_HEARTBEAT: Final = b": \n\n"
_RETRY: Final = b"retry: 3000\n\n"


def as_text(data: Any) -> str:
    """Return a line of JSON, in ASCII only: no character in it can end the line."""
    return json.dumps(data, separators=(",", ":"))


def encode_event(name: str, data: str) -> bytes:
    """Return an event with a line of JSON."""
    return f"event: {name}\ndata: {data}\n\n".encode("ascii")


class Subscriber:
    """Waits for messages.

    Attributes:
        missed: How many it lost since that was last reported to it.
    """

    def __init__(self) -> None:
        self._messages: deque[bytes] = deque()
        self._bytes = 0
        self._there = asyncio.Event()
        self.missed = 0

    def put(self, message: bytes) -> None:
        """Add a message; the oldest messages are lost if there are too many."""
        self._messages.append(message)
        self._bytes += len(message)
        while len(self._messages) > 1 and (
            len(self._messages) > QUEUE_MAX or self._bytes > QUEUE_MAX_BYTES
        ):
            self._bytes -= len(self._messages.popleft())
            self.missed += 1
        self._there.set()

    async def next(self) -> bytes:
        """Wait for messages; return all that have arrived, or a comment if there are none."""
        try:
            async with asyncio.timeout(HEARTBEAT_S):
                await self._there.wait()
        except TimeoutError:
            return _HEARTBEAT
        self._there.clear()
        missed_event = (
            encode_event("missed", as_text({"count": self.missed})) if self.missed else b""
        )
        self.missed = 0
        messages = b"".join(self._messages)
        self._messages.clear()
        self._bytes = 0
        return missed_event + messages


class Subscribers:
    """All who watch."""

    def __init__(self) -> None:
        self._all: set[Subscriber] = set()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._all)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another subscriber."""
        return len(self._all) >= SUBSCRIBERS_MAX

    def publish(self, name: str, data: Any) -> None:
        """Pass on an event to all."""
        if self._all:
            message = encode_event(name, as_text(data))
            for subscriber in self._all:
                subscriber.put(message)

    async def subscribe(
        self, snapshot: Callable[[], Awaitable[str]], is_allowed: Callable[[], bool]
    ) -> AsyncGenerator[bytes]:
        """Yield the messages for a new subscriber, which begins at the first iteration.

        Args:
            snapshot: Returns the state, as a line of JSON, for the first event (`state`).
            is_allowed: Whether the subscriber may still watch; it is called now and then.
        """
        subscriber = Subscriber()
        # Not before it is read for the first time: an iterator that was not started is not ended.
        self._all.add(subscriber)
        try:
            yield _RETRY + encode_event("state", await snapshot())
            while is_allowed():
                yield await subscriber.next()
        finally:
            self._all.discard(subscriber)

"""Checks the open connections of clients, and closes idle connections."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from penstock.gateway.sessions.memory import LOOK_EVERY_S

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.gateway.parts import GatewayParts

_CHECK_IDLE_EVERY_S: Final = 5.0
_CHECK_EVERY_S: Final = 1.0
_CHECKS_A_ROUND: Final = 10
_CHECKED_AT_ONCE_MIN: Final = 100
FIRST_REQUEST_S: Final = 30.0
"""The time in which a client has to send its first request, and to authenticate if required."""


class Checked(Protocol):
    """A client's connection."""

    @property
    def last_active(self) -> float:
        """When it was used last, by the event loop's clock."""

    @property
    def since(self) -> float:
        """When it was opened, by the same clock."""

    @property
    def is_established(self) -> bool:
        """Whether it has sent a request, and has authenticated if required."""

    def check(self) -> None:
        """Do the due checks of a connection."""

    def close(self) -> None:
        """Close it."""


def close_idle(connections: Collection[Checked], now: float, max_idle_s: float) -> None:
    """Close the connections that are idle, and those that do not begin.

    Args:
        connections: The open connections.
        now: The time by the event loop's clock, in seconds.
        max_idle_s: How long a connection may be idle (`connections.max.idle.ms`).
    """
    for client in list(connections):
        if now - client.last_active > max_idle_s or (
            now - client.since > FIRST_REQUEST_S and not client.is_established
        ):
            client.close()


def idle_interval(max_idle_s: float) -> float:
    """Return how many seconds may pass between two calls of `close_idle`."""
    return min(max_idle_s / 4, _CHECK_IDLE_EVERY_S)


async def check_once(connections: Collection[Checked]) -> None:
    """Check each connection within a second, a few at a time: no request waits for all."""
    clients = list(connections)
    size = max(_CHECKED_AT_ONCE_MIN, -(-len(clients) // _CHECKS_A_ROUND))
    parts = [clients[start : start + size] for start in range(0, len(clients), size)]
    for part in parts or [[]]:
        for client in part:
            client.check()
        await asyncio.sleep(_CHECK_EVERY_S / max(1, len(parts)))


class ConnectionChecks:
    """Checks the connections of a gateway again and again, and their memory."""

    def __init__(self, parts: GatewayParts, max_idle_s: float) -> None:
        """Prepare; `begin` begins.

        Args:
            max_idle_s: How long a connection may be idle (`connections.max.idle.ms`).
        """
        self._parts = parts
        self._max_idle_s = max_idle_s
        self._memory_short = asyncio.Event()

    def begin(self) -> None:
        """Check from now on, until the gateway stops."""
        self._parts.run(self._close_idle())
        self._parts.run(self._close_stalled())
        self._parts.run(self._check())

    def memory_is_short(self, is_short: bool) -> None:
        """Have little read of each client at once, while memory is short."""
        if is_short:
            self._memory_short.set()
        else:
            self._memory_short.clear()
        if self._parts.lane is not None:
            self._parts.lane.set_short(is_short)

    async def _close_idle(self) -> None:
        parts, max_idle_s = self._parts, self._max_idle_s
        while True:
            await asyncio.sleep(idle_interval(max_idle_s))
            parts.producers.expire()
            parts.budget.tick()
            close_idle(parts.connections, parts.loop.time(), max_idle_s)

    async def _close_stalled(self) -> None:
        while True:
            await self._memory_short.wait()
            await asyncio.sleep(LOOK_EVERY_S)
            self._parts.budget.look()

    async def _check(self) -> None:
        while True:
            if self._parts.lane is not None:
                self._parts.lane.look_again()
            await check_once(self._parts.connections)

"""`metrics.listener`: `/metrics`, `/livez` and `/readyz` of a gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import structlog

from penstock.configuration import Address
from penstock.gateway.listener import bind
from penstock.gateway.metrics import gauges
from penstock.gateway.metrics.exposition import CONTENT_TYPE, render
from penstock.gateway.metrics.http_server import Answer, HttpServer
from penstock.gateway.metrics.readiness import Inspected, Readiness, inspect

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine
    from pathlib import Path

    from penstock.gateway.metrics.broker_checks import BrokerChecks
    from penstock.gateway.metrics.counts import GatewayCounts

log = structlog.get_logger()


class Observed(gauges.Measured, Inspected, Protocol):
    """A gateway, as far as it is looked at from here."""

    def run(self, coroutine: Coroutine[object, object, None]) -> asyncio.Task[object]:
        """Run a coroutine until it ends or the gateway stops."""


class MetricsListener:
    """Serves what is known of a gateway, from before it has started until it has ended."""

    def __init__(self, gateway: Observed, counts: GatewayCounts, checks: BrokerChecks) -> None:
        """Prepare; nothing is listened on.

        Args:
            gateway: The gateway.
            counts: What it counts.
            checks: How the last attempt to connect to each broker ended.
        """
        self._gateway = gateway
        self._counts = counts
        self._checks = checks
        self._server: HttpServer | None = None

    async def start(self, address: Address, token: str | None, file: Path) -> None:
        """Listen.

        Args:
            address: Where.
            token: What requests for metrics have to carry, if anything.
            file: The configuration file, for errors.

        Raises:
            ConfigurationError: The address cannot be listened on.
        """
        listening = bind(address, "metrics.listener", file)
        paths = {"/metrics": self._metrics, "/livez": self._livez, "/readyz": self._readyz}
        server = HttpServer(listening, paths, token=token, without_token={"/livez", "/readyz"})
        await server.start()
        self._server = server
        port: int = listening.getsockname()[1]
        log.info("metrics", address=str(Address(address.host, port)))
        self._gateway.run(self._checks.run())

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            await self._server.close()

    @property
    def _readiness(self) -> Readiness:
        return inspect(self._gateway, self._checks.brokers)

    async def _metrics(self) -> Answer:
        is_ready = not self._readiness.missing
        body = await render(
            [
                *self._counts.families(),
                await gauges.connections(self._gateway),
                *gauges.of_gateway(self._gateway, self._checks.brokers, is_ready=is_ready),
            ]
        )
        return Answer(200, body, CONTENT_TYPE)

    async def _livez(self) -> Answer:
        """Answer that the event loop runs."""
        return Answer(200, b"alive\n")

    async def _readyz(self) -> Answer:
        found = self._readiness
        return Answer(503 if found.missing else 200, found.text.encode("utf-8", "replace"))

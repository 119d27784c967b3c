"""`metrics.listener`: `/metrics`, `/livez` and `/readyz` of a gateway, and its console."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from penstock.configuration import Address
from penstock.gateway.listening.listener import bind
from penstock.gateway.observing.console import assets
from penstock.gateway.observing.console.console import Console, ConsoleGateway
from penstock.gateway.observing.console.peers import Peers
from penstock.gateway.observing.metrics import gauges
from penstock.gateway.observing.metrics.access import Access
from penstock.gateway.observing.metrics.exposition import (
    CONTENT_TYPE,
    OPENMETRICS,
    OPENMETRICS_TYPE,
    TEXT_TYPE,
    render,
)
from penstock.gateway.observing.metrics.http_server import HttpResponse, HttpServer
from penstock.gateway.observing.metrics.loop_lag import LoopLag
from penstock.gateway.observing.metrics.negotiation import compressed, preferred
from penstock.gateway.observing.metrics.process_usage import WorkerUsage
from penstock.gateway.observing.metrics.readiness import Readiness, inspect

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from penstock.configuration import Configuration
    from penstock.gateway.observing.metrics.broker_checks import BrokerChecks
    from penstock.gateway.observing.metrics.counts import GatewayCounts
    from penstock.gateway.observing.metrics.http_server import Request

log = structlog.get_logger()

WITHOUT_TOKEN: Final = ("/livez", "/readyz", "/", "/login", "/logout",
                        *(f"/{name}" for name in assets.PUBLIC))  # fmt: skip
"""Probes, and the files of the login."""


class Observed(ConsoleGateway, Protocol):
    """The part of a gateway that the listener reads."""

    @property
    def worker_pids(self) -> list[int]:
        """The process ids of all policy workers."""


class MetricsListener:
    """Serves the state of a gateway, from before it has started until it has ended.

    Attributes:
        address: Where it listens; None before.
    """

    def __init__(
        self,
        gateway: Observed,
        counts: GatewayCounts,
        checks: BrokerChecks,
        run: Callable[[Coroutine[object, object, None]], object],
    ) -> None:
        """Prepare; nothing is listened on.

        Args:
            counts: What it counts.
            checks: How the last attempt to connect to each broker ended.
            run: Runs a coroutine until it ends or the gateway stops.
        """
        self._gateway = gateway
        self._run = run
        self._counts = counts
        self._checks = checks
        self._server: HttpServer | None = None
        self._lag = LoopLag()
        self._workers = WorkerUsage()
        self.console = Console(gateway, counts, checks, peers=_peers(gateway.configuration))
        self.address: Address | None = None

    async def start(self, address: Address, token: str | None, file: Path) -> None:
        """Listen.

        Args:
            address: The address to listen on.
            token: The token that requests need, except for probes, if any.
            file: The configuration file, for errors.

        Raises:
            ConfigurationError: The gateway cannot listen on the address.
        """
        listening = bind(address, "metrics.listener", file)
        port: int = listening.getsockname()[1]
        access = Access(
            token, without_token=WITHOUT_TOKEN, host=address.host, cookie=f"penstock_{port}"
        )
        server = HttpServer(
            listening,
            {
                "/metrics": self._metrics,
                "/livez": self._livez,
                "/readyz": self._readyz,
                **self.console.paths(access),
            },
            posts=self.console.posts(access),
            refuse=access.refuse,
        )
        await server.start()
        self._server = server
        self.address = Address(address.host, port)
        log.info("metrics", address=str(self.address))
        self._run(self._checks.run())
        self._run(self.console.run())
        self._run(self._lag.run())

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            await self._server.close()

    @property
    def _readiness(self) -> Readiness:
        return inspect(self._gateway, self._checks.brokers)

    async def _metrics(self, request: Request) -> HttpResponse:
        is_ready = not self._readiness.missing
        media_type = preferred(request.header(b"accept"), (TEXT_TYPE, OPENMETRICS_TYPE))
        is_openmetrics = media_type == OPENMETRICS_TYPE
        body = await render(
            [
                *self._counts.families(),
                await gauges.connections(self._gateway),
                *await gauges.tls_connections(self._gateway),
                *gauges.of_gateway(self._gateway, self._checks.brokers, is_ready=is_ready),
                *self.console.gauges(),
                *gauges.of_workers(
                    self._workers.of(self._gateway.worker_pids), self._lag.longest_s
                ),
            ],
            is_openmetrics=is_openmetrics,
        )
        answer = HttpResponse(200, body, OPENMETRICS if is_openmetrics else CONTENT_TYPE)
        return await compressed(answer, request)

    async def _livez(self, _: Request) -> HttpResponse:
        """Answer that the event loop runs."""
        return HttpResponse(200, b"alive\n")

    async def _readyz(self, _: Request) -> HttpResponse:
        readiness = self._readiness
        return HttpResponse(
            503 if readiness.missing else 200, readiness.text.encode("utf-8", "replace")
        )


def _peers(configuration: Configuration) -> Callable[[str], Peers] | None:
    """Return what makes the other gateways that are shown; None if there are none."""
    addresses = configuration.console_peers
    return partial(Peers, addresses, configuration.metrics_listener_token) if addresses else None

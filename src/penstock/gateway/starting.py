"""Starts a gateway: loads policies, finds the brokers, opens state, and listens."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog

from penstock import __version__
from penstock.configuration import ConfigurationError
from penstock.engine.plans.plan import allows_topic_settings
from penstock.gateway.admin.opened_topic_configs import TIMEOUT_S as TOPIC_CONFIGS_TIMEOUT_S
from penstock.gateway.lane.availability import (
    NativeThreadsError,
    describe_lane,
    find_lane,
    find_tls,
    is_lane_required,
    why_without_tls,
)
from penstock.gateway.lane.lane import Lane
from penstock.gateway.listening.client_listeners import Listening, check_free
from penstock.gateway.listening.listener import ConnectionLimits
from penstock.gateway.observing.audit_trail.opening import open_audit_trail
from penstock.gateway.sessions.connection import ClientConnection
from penstock.gateway.sessions.schemas import load_schemas

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.configuration import Address, Configuration
    from penstock.gateway.listening.endpoints import Endpoints
    from penstock.gateway.metrics_listener import MetricsListener
    from penstock.gateway.parts import GatewayParts
    from penstock.gateway.policy_state import PolicyState
    from penstock.gateway.refusal_reports import RefusalReports
    from penstock.gateway.upstream import Upstream

log = structlog.get_logger()

DISCOVERY_TIMEOUT_S: Final = 10.0


class Starting:
    """The steps of a start, in order.

    After an error, everything that was opened is in the parts, which are to be closed.
    """

    def __init__(
        self,
        configuration: Configuration,
        name: str,
        endpoints: Endpoints,
        upstream: Upstream,
        state: PolicyState,
        parts: GatewayParts,
        reports: RefusalReports,
        metrics: MetricsListener | None,
    ) -> None:
        """Prepare; nothing is opened.

        Args:
            name: The name of this gateway.
            metrics: Serves metrics; None if nothing does.
        """
        self._configuration = configuration
        self._name = name
        self._endpoints = endpoints
        self._upstream = upstream
        self._state = state
        self._parts = parts
        self._reports = reports
        self._metrics = metrics

    def check(self) -> Any | None:
        """Check this system before anything is opened.

        Returns:
            The native module if it is to forward connections; None if Python does.

        Raises:
            ConfigurationError: A port is taken, or `PENSTOCK_NATIVE_LANE` demands threads that
                this system does not have.
        """
        try:
            native_lane = find_lane()
            log.info("native extension", version=__version__, connections=describe_lane())
        except NativeThreadsError as error:
            raise ConfigurationError(str(error)) from None
        check_free(self._configuration)
        return native_lane

    async def open(self, native_lane: Any | None) -> tuple[Address, Listening]:
        """Open everything.

        Args:
            native_lane: The result of `check`.

        Returns:
            The bootstrap address, with the actual port if the file says 0, and the listeners.

        Raises:
            ConfigurationError: A policy cannot be loaded, a port cannot be bound, or
                `PENSTOCK_NATIVE_LANE` requires threads that cannot be started.
            brokers.UnreachableError: The cluster does not respond.
        """
        configuration, state = self._configuration, self._state
        await self._serve_metrics()
        log.info("loading policies")
        schemas = self._parts.run(asyncio.to_thread(load_schemas))  # while workers start
        state.activate(await state.load(configuration))
        log.info(
            "waiting for the cluster",
            servers=configuration.upstream_properties["bootstrap.servers"],
            gives_up_after_s=DISCOVERY_TIMEOUT_S,
        )
        description = await self._upstream.describe(DISCOVERY_TIMEOUT_S)
        self._reports.audit_trail = await open_audit_trail(configuration, self._name)
        await self._open_state()
        if native_lane is not None:
            self._open_lane(native_lane)
        await schemas
        return await self._listen(description.brokers)

    async def _serve_metrics(self) -> None:
        configuration = self._configuration
        if self._metrics is not None and configuration.metrics_listener is not None:
            await self._metrics.start(
                configuration.metrics_listener,
                configuration.metrics_listener_token,
                configuration.path,
            )

    async def _open_state(self) -> None:
        configuration, state = self._configuration, self._state
        if allows_topic_settings(configuration):
            log.info(
                "reading settings of topics",
                topic=configuration.topic_settings_topic,
                gives_up_after_s=TOPIC_CONFIGS_TIMEOUT_S,
            )
            await state.open_topic_configs(configuration)
        await state.open_producers(
            self._upstream.cluster_id, loses_records=state.active.loses_records, is_start=True
        )

    def _open_lane(self, native: Any) -> None:
        """Let native threads forward connections.

        Raises:
            ConfigurationError: They cannot be started, and `PENSTOCK_NATIVE_LANE` requires them.
        """
        parts = self._parts
        try:
            lane = Lane(
                native,
                parts,
                parts.loop,
                connections=parts.connections,
                request_max_bytes=parts.request_max_bytes,
                budget_bytes=parts.budget.max_bytes,
            )
        except OSError as error:
            if is_lane_required():
                raise ConfigurationError(f"PENSTOCK_NATIVE_LANE=1, but {error}") from None
            log.warning("connections are not forwarded natively", reason=str(error))
            return
        parts.lane = self._state.lane = lane
        self._upstream.use(native)
        if parts.counts is not None:
            parts.counts.collect_more = lane.collect_counts

    async def _listen(self, broker_addresses: Mapping[int, Address]) -> tuple[Address, Listening]:
        configuration = self._configuration
        limits = ConnectionLimits(
            max_connections=configuration.max_connections,
            per_ip=configuration.max_connections_per_ip,
            creation_rate=configuration.max_connection_creation_rate,
            clock=self._parts.clock,
        )
        listening = Listening(
            configuration,
            self._endpoints,
            limits,
            partial(ClientConnection, self._parts),
            find_tls(),
            why_without_tls() or self._upstream.in_python,
        )
        try:
            address, self._upstream.addresses = await listening.open(broker_addresses)
        except BaseException:
            await listening.close()
            raise
        return address, listening

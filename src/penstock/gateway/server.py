"""The gateway: puts its parts together, and has them start, reload and stop."""

from __future__ import annotations

import asyncio
import socket
import time
import uuid
from typing import TYPE_CHECKING, Any, Final

from penstock.engine.workers.gathered_writes import GatheredWrites
from penstock.engine.workers.shared_values import SharedValues
from penstock.gateway.active_policies import ActivePolicies
from penstock.gateway.connection_checks import ConnectionChecks
from penstock.gateway.listening.endpoints import endpoints_of
from penstock.gateway.metrics_listener import MetricsListener
from penstock.gateway.observed_gateway import ObservedGateway
from penstock.gateway.observing.audit_trail.keys import check_audit_keys
from penstock.gateway.observing.console.keys import check_console_peers
from penstock.gateway.observing.metrics.broker_checks import BrokerChecks
from penstock.gateway.observing.metrics.counts import GatewayCounts
from penstock.gateway.parts import GatewayParts
from penstock.gateway.policy_loader import PolicyLoader
from penstock.gateway.policy_state import PolicyState
from penstock.gateway.produce.observed_batches import SHARE_OF_MEMORY
from penstock.gateway.refusal_reports import RefusalReports
from penstock.gateway.reloading import Reloading
from penstock.gateway.sessions.memory import Budget, default_budget
from penstock.gateway.starting import Starting
from penstock.gateway.tasks import Tasks
from penstock.gateway.upstream import Upstream
from penstock.kafka.cluster.metadata import ClusterMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from penstock.configuration import Address, Configuration
    from penstock.gateway.listening.client_listeners import Listening
    from penstock.gateway.listening.endpoints import Endpoints
    from penstock.gateway.refusal_log import Refused

_ENDING_EXTRA_S: Final = 5.0


class Gateway:
    """A proxy for one cluster, as described by a configuration.

    Attributes:
        configuration: The configuration with which it starts.
        warnings: Possible mistakes in it.
        parts: What connections and requests use.
    """

    def __init__(
        self, configuration: Configuration, *, watch: Callable[[Refused], None] | None = None
    ) -> None:
        """Make a gateway; `start` starts it.

        Args:
            watch: Called for each refused partition, in addition to the log.

        Raises:
            ConfigurationError: Keys contradict each other, or a file they name is not usable.
        """
        self.configuration = configuration
        max_bytes = configuration.queued_max_request_bytes
        budget = Budget(max_bytes if max_bytes > 0 else default_budget(), time.monotonic)
        self._reports = RefusalReports(watch)
        check_audit_keys(configuration)
        check_console_peers(configuration)
        endpoints = endpoints_of(configuration)
        self.warnings = endpoints.warnings
        self._tasks = Tasks()
        self._upstream = Upstream(configuration, endpoints.upstream_tls, self.run)
        self._listening: Listening | None = None
        counts = None
        if configuration.metrics_listener is not None:
            counts = GatewayCounts(records_max=configuration.decompressed_batch_max_records)
        writes = GatheredWrites()
        name = gateway_name(configuration)
        self._state = PolicyState(
            configuration,
            name,
            self._active_policies(budget, writes, counts),
            ClusterMetadata(configuration.upstream_properties, configuration.path),
            self.run,
        )
        self._reloading = Reloading(
            configuration, endpoints, self._upstream, self._state, self._tasks, self._renew
        )
        self.parts = GatewayParts(
            configuration,
            self._upstream,
            self._state,
            budget,
            writes,
            counts,
            self._reports,
            self._tasks,
            self._reloading.open_decisions,
        )
        self._checks = ConnectionChecks(self.parts, configuration.connections_max_idle_ms / 1000)
        budget.on_short = self._checks.memory_is_short
        self._observed = ObservedGateway(
            configuration,
            self._upstream,
            self._state,
            budget,
            self._reports,
            self._reports.plan_changed,
        )
        self._state.plans_changed = self._observed.plan_watch.wake
        self.parts.topic_altered = self._observed.plan_watch.altered
        self._metrics = self._metrics_listener(counts, endpoints) if counts is not None else None
        self._starting = Starting(
            configuration,
            name,
            endpoints,
            self._upstream,
            self._state,
            self.parts,
            self._reports,
            self._metrics,
        )

    def _active_policies(
        self, budget: Budget, writes: GatheredWrites, counts: GatewayCounts | None
    ) -> ActivePolicies:
        loader = PolicyLoader(
            self.run,
            self._reports.report,
            counts,
            time.monotonic,
            observed_max_bytes=budget.max_bytes // SHARE_OF_MEMORY,
            shared=SharedValues(),
            writes=writes,
        )
        return ActivePolicies(loader, self.run)

    def _metrics_listener(self, counts: GatewayCounts, endpoints: Endpoints) -> MetricsListener:
        checks = BrokerChecks(
            lambda: self._upstream.known_brokers, self._upstream.rediscover, endpoints.upstream_tls
        )
        self._upstream.watch(checks.connected)
        metrics = MetricsListener(self._observed, counts, checks, self.run)
        self._reports.show = metrics.console.refused
        return metrics

    async def start(self) -> Address:
        """Load the policies, discover the brokers, and listen.

        Returns:
            The bootstrap address, with the actual port if the file says 0.

        Raises:
            ConfigurationError: A policy cannot be loaded, a port cannot be bound, or
                `PENSTOCK_NATIVE_LANE` demands threads that this system does not have.
            brokers.UnreachableError: The cluster does not respond.
        """
        self.parts.begin(asyncio.get_running_loop())
        native_lane = self._starting.check()
        try:
            address, listening = await self._starting.open(native_lane)
        except BaseException:
            await self.stop()
            raise
        self._listening = self._observed.listening = listening
        self.run(self._state.load_topics())
        self._checks.begin()
        if self._metrics is not None or self._reports.audit_trail is not None:
            self.run(self._observed.plan_watch.run())
        return address

    async def reload(self, configuration: Configuration) -> None:
        """Replace the policies by those of another configuration; see `Reloading.reload`."""
        await self._reloading.reload(configuration)

    def _renew(self) -> None:
        """Have the listeners read their certificate again."""
        if self._listening is not None:
            self._listening.renew(self._upstream.known_brokers)

    def reloaded(self, *, worked: bool, why_not: str = "") -> None:
        """Count a reload, also one that ended before `reload` was called.

        Args:
            worked: Whether other policies are in force now.
            why_not: The error, if not.
        """
        if self.parts.counts is not None:
            self.parts.counts.reloaded(worked=worked)
        if self._metrics is not None:
            self._metrics.console.reloaded(worked=worked, why_not=why_not)

    def kept_until_restart(self, configuration: Configuration) -> list[str]:
        """Return the keys that differ in another configuration, and that `reload` ignores."""
        return self.configuration.changed_until_restart(configuration)

    def reopen_audit_file(self) -> None:
        """Open the file of the audit trail again, if it was renamed."""
        self._reports.reopen()

    @property
    def metrics_address(self) -> Address | None:
        """Where metrics and the console are served; None if they are not."""
        return self._metrics.address if self._metrics is not None else None

    def run(self, coroutine: Coroutine[object, object, Any]) -> asyncio.Task[Any]:
        """Run a coroutine until it ends or the gateway stops."""
        return self._tasks.run(coroutine)

    async def stop(self) -> None:
        """Stop accepting, finish the requests in flight, and stop the workers."""
        self._observed.is_ending = True
        self._upstream.end()
        if self._listening is not None:
            await self._listening.close()
        await self._end_connections()
        if self.parts.lane is not None:
            self.parts.lane.close()
        await self._state.active.close()
        await self._tasks.end()
        await self._reports.close()
        await self.parts.dead_letters.close()
        await self._state.close()
        if self._metrics is not None:
            await self._metrics.close()

    async def _end_connections(self) -> None:
        """Let requests in flight get their responses, for some time."""
        connections, loop = self.parts.connections, self.parts.loop
        for client in list(connections):
            client.end()
        limit = self.configuration.policy_timeout_ms / 1000 + _ENDING_EXTRA_S
        deadline = loop.time() + limit
        while connections and loop.time() < deadline:  # noqa: ASYNC110 - at the end only
            await asyncio.sleep(0.02)
        for client in list(connections):
            client.abort()


def gateway_name(configuration: Configuration) -> str:
    """Return a name that identifies this gateway, also after a restart: its host and listener."""
    where = configuration.listener.address
    name = f"{socket.gethostname()}/{where}"
    return name if where.port else f"{name}/{uuid.uuid4()}"

"""The gateway: starts, reloads and stops listeners, workers and stores."""

from __future__ import annotations

import asyncio
import socket
import time
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog

from penstock import __version__
from penstock.configuration import Address, ConfigurationError
from penstock.configuration.topic_keys import put_in_force
from penstock.engine.plans.plan import allows_topic_settings
from penstock.engine.verdict import FailureCause
from penstock.engine.workers.gathered_writes import GatheredWrites
from penstock.engine.workers.shared_values import SharedValues
from penstock.gateway.active_policies import ActivePolicies
from penstock.gateway.admin.opened_topic_configs import TIMEOUT_S as TOPIC_CONFIGS_TIMEOUT_S
from penstock.gateway.admin.opened_topic_configs import OpenedTopicConfigs
from penstock.gateway.admin.policy_checks import PolicyChecks
from penstock.gateway.connection_checks import check_once, close_idle, idle_interval
from penstock.gateway.context.turns import Turns
from penstock.gateway.lane.availability import (
    NativeThreadsError,
    describe_lane,
    find_lane,
    find_tls,
    is_lane_required,
)
from penstock.gateway.lane.lane import Lane
from penstock.gateway.listening.client_listeners import Listening, check_free
from penstock.gateway.listening.endpoints import endpoints_of
from penstock.gateway.listening.listener import ConnectionLimits
from penstock.gateway.listening.tls import server_context
from penstock.gateway.metrics_listener import MetricsListener
from penstock.gateway.observing.audit_trail.keys import check_audit_keys
from penstock.gateway.observing.audit_trail.opening import open_audit_trail
from penstock.gateway.observing.metrics.broker_checks import BrokerChecks
from penstock.gateway.observing.metrics.counts import GatewayCounts
from penstock.gateway.policy_loader import PolicyLoader
from penstock.gateway.produce.bad_shares import BadShares
from penstock.gateway.produce.dead_letters.names import LetterNames
from penstock.gateway.produce.dead_letters.writer import DeadLetterWriter
from penstock.gateway.produce.framework_losses import FrameworkLosses
from penstock.gateway.produce.lookups.cleanup_policies import CleanupPolicies
from penstock.gateway.produce.lookups.max_message_bytes import MaxMessageBytes
from penstock.gateway.produce.lookups.write_rights import WriteRights
from penstock.gateway.produce.observed_batches import SHARE_OF_MEMORY
from penstock.gateway.produce.postponed_batches import PostponedBatches
from penstock.gateway.produce.producer_state.opening import OpenedProducers
from penstock.gateway.produce.producer_state.rollout import InForce, Rollout
from penstock.gateway.produce.producer_state.topic_losses import plans_of
from penstock.gateway.refusal_log import RefusalLog, Refused
from penstock.gateway.sessions.connection import ClientConnection
from penstock.gateway.sessions.memory import LOOK_EVERY_S, READ_BYTES, Budget, default_budget
from penstock.gateway.sessions.schemas import load_schemas
from penstock.gateway.upstream import Upstream
from penstock.kafka.cluster import brokers
from penstock.kafka.cluster.metadata import ClusterMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Mapping

    from penstock.configuration import Configuration
    from penstock.engine.topic_configs.index import Before
    from penstock.engine.workers.schedule import Schedule
    from penstock.gateway.admin.topic_configs import TopicConfigs
    from penstock.gateway.context.policy_set import PolicySet
    from penstock.gateway.listening.addresses import Addresses
    from penstock.gateway.listening.shared_buffer import SharedBufferProtocol
    from penstock.gateway.observing.audit_trail.trail import AuditTrail
    from penstock.gateway.policy_loader import LoadedPolicies
    from penstock.gateway.produce.producer_state.cluster import ClusterStore
    from penstock.gateway.produce.producer_state.producers import Producers
    from penstock.kafka.cluster.state_writes import StateWrites

log = structlog.get_logger()

DISCOVERY_TIMEOUT_S: Final = 10.0
_ENDING_EXTRA_S: Final = 5.0


class Gateway:
    """A proxy for one cluster, as described by a configuration."""

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
        self._name = gateway_name(configuration)
        self.connections: set[ClientConnection] = set()
        self.writes = GatheredWrites()
        self.lane: Lane | None = None
        self.read_buffer = memoryview(bytearray(READ_BYTES))
        self.request_max_bytes = configuration.socket_request_max_bytes
        self.request_min_bytes_per_second = configuration.socket_request_min_bytes_per_second
        self.requires_sasl = configuration.upstream_security_protocol.startswith("SASL_")
        self.sasl_max_bytes = configuration.sasl_server_max_receive_size
        self.clock = time.monotonic
        self.audit_topic = configuration.audit_topic
        self.decompressed_batch_max_records = configuration.decompressed_batch_max_records
        max_bytes = configuration.queued_max_request_bytes
        self.budget = Budget(max_bytes if max_bytes > 0 else default_budget(), self.clock)
        self.budget.on_short = self._memory_is_short
        self._memory_short = asyncio.Event()
        self._refusals = RefusalLog(watch)
        self.audit_trail: AuditTrail | None = None
        check_audit_keys(configuration)
        upstream = configuration.upstream_properties
        self._endpoints = endpoints_of(configuration)
        self.warnings = self._endpoints.warnings
        self._upstream = Upstream(configuration, self._endpoints.upstream_tls, self.run)
        self._listening: Listening | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._reloading = asyncio.Lock()
        self._started = False
        self._ended = False
        self.cluster = ClusterMetadata(upstream, configuration.path)
        self._topic_configs = OpenedTopicConfigs(
            self._name, upstream, self.cluster, self._topic_configs_changed, self.run
        )
        self.max_message_bytes = MaxMessageBytes()
        self.framework_losses = FrameworkLosses(
            CleanupPolicies(self.cluster.cleanup_policies, self.run, self.clock)
        )
        self.postponed = PostponedBatches(self.clock)
        names = LetterNames(self, configuration.own_topics, PolicyChecks(self).creation)
        self.dead_letters = DeadLetterWriter(upstream, configuration.path, self.run, names)
        self.bad_shares = BadShares(self.clock)
        self.write_rights = WriteRights(self.clock)
        self._opening_decisions = False
        self._rollout = Rollout(
            self.cluster, lambda: self.topic_configs, self.run, self._producers_opened
        )
        self._producers_opened(OpenedProducers(self._rollout.producers))
        self.counts: GatewayCounts | None = None
        self._metrics: MetricsListener | None = None
        if configuration.metrics_listener is not None:
            self.counts = GatewayCounts(records_max=configuration.decompressed_batch_max_records)
            checks = BrokerChecks(
                lambda: self._upstream.known_brokers,
                self._upstream.rediscover,
                self._endpoints.upstream_tls,
            )
            self._upstream.watch(checks.connected)
            self._metrics = MetricsListener(self, self.counts, checks)
        loader = PolicyLoader(
            self.run,
            self.refused,
            self.counts,
            self.clock,
            observed_max_bytes=self.budget.max_bytes // SHARE_OF_MEMORY,
            shared=SharedValues(),
            writes=self.writes,
        )
        self._active = ActivePolicies(loader, self.run)

    async def start(self) -> Address:
        """Load the policies, discover the brokers, and listen.

        Returns:
            The bootstrap address, with the actual port if the file says 0.

        Raises:
            ConfigurationError: A policy cannot be loaded, a port cannot be bound, or
                `PENSTOCK_NATIVE_LANE` demands threads that this system does not have.
            brokers.UnreachableError: The cluster does not respond.
        """
        self.loop = asyncio.get_running_loop()
        self.turns = Turns(self.loop.call_soon)
        configuration = self.configuration
        try:
            native_lane = find_lane()
            log.info("native extension", version=__version__, connections=describe_lane())
        except NativeThreadsError as error:
            raise ConfigurationError(str(error)) from None
        check_free(configuration)
        try:
            if self._metrics is not None and configuration.metrics_listener is not None:
                await self._metrics.start(
                    configuration.metrics_listener,
                    configuration.metrics_listener_token,
                    configuration.path,
                )
            log.info("loading policies")
            schemas = self.run(asyncio.to_thread(load_schemas))  # while workers start
            self._activate(await self._load(self.configuration))
            log.info(
                "waiting for the cluster",
                servers=configuration.upstream_properties["bootstrap.servers"],
                gives_up_after_s=DISCOVERY_TIMEOUT_S,
            )
            description = await self._upstream.describe(DISCOVERY_TIMEOUT_S)
            self.audit_trail = await open_audit_trail(configuration, self._name)
            if allows_topic_settings(self.configuration):
                log.info(
                    "reading settings of topics",
                    topic=configuration.topic_settings_topic,
                    gives_up_after_s=TOPIC_CONFIGS_TIMEOUT_S,
                )
                await self._open_topic_configs(self.configuration)
            await self._open_producers(loses_records=self._active.loses_records, is_start=True)
            if native_lane is not None:
                self._open_lane(native_lane)
            await schemas
            address = await self._listen(description.brokers, find_tls())
        except BaseException:
            await self.stop()
            raise
        self._started = True
        self.run(self._load_topics())
        self.run(self._close_idle())
        self.run(self._close_stalled())
        self.run(self._check_connections())
        return address

    def _open_lane(self, native: Any) -> None:
        """Let native threads forward connections.

        Raises:
            ConfigurationError: They are not installed, and `PENSTOCK_NATIVE_LANE` requires them.
        """
        try:
            self.lane = Lane(
                native,
                self,
                self.loop,
                connections=self.connections,
                request_max_bytes=self.request_max_bytes,
                budget_bytes=self.budget.max_bytes,
            )
        except OSError as error:
            if is_lane_required():
                raise ConfigurationError(f"PENSTOCK_NATIVE_LANE=1, but {error}") from None
            log.warning("connections are not forwarded natively", reason=str(error))
            return
        self._upstream.use(native)
        if self.counts is not None:
            self.counts.collect_more = self.lane.collect_counts

    async def _open_producers(self, *, loses_records: bool, is_start: bool = False) -> None:
        """Restore the state of producers; see `Rollout.open`."""
        await self._rollout.open(
            self.configuration,
            self.cluster_id,
            self._name,
            loses_records=loses_records,
            is_start=is_start,
        )

    @property
    def producers(self) -> Producers:
        """The state of producers whose records were dropped."""
        return self._rollout.producers

    @property
    def shared_producers(self) -> ClusterStore | None:
        """The producer state shared by all gateways; None where none is needed."""
        return self._rollout.shared

    @property
    def keeps_decisions(self) -> bool:
        """Whether it is kept which records of a producer are not stored."""
        return self.shared_producers is not None

    def open_decisions(self) -> None:
        """Begin to keep that: a topic's own setting has its bad records put in quarantine."""
        if not self._opening_decisions:
            self._opening_decisions = True
            self.run(self._open_decisions())

    async def _open_decisions(self) -> None:
        try:
            async with self._reloading:
                if not self.keeps_decisions:
                    await self._open_producers(loses_records=True)
        except (ConfigurationError, brokers.UnreachableError) as error:
            log.error("quarantine is not possible", reason=str(error))
        except Exception:
            log.exception("quarantine is not possible")
        finally:
            self._opening_decisions = False

    def _producers_opened(self, opened: OpenedProducers) -> None:
        """Have native threads forget the topics that get state of producers."""
        opened.producers.topics.on_topic = self._forget_natively
        if opened.shared is not None:
            opened.shared.ahead = self._forget_natively
        if self.lane is not None:
            self.lane.follow()

    def _forget_natively(self, topic: str | None) -> None:
        if self.lane is not None:
            self.lane.forget(topic)

    async def _listen(self, broker_addresses: Mapping[int, Address], native: Any | None) -> Address:
        configuration = self.configuration
        limits = ConnectionLimits(
            max_connections=configuration.max_connections,
            per_ip=configuration.max_connections_per_ip,
            creation_rate=configuration.max_connection_creation_rate,
            clock=self.clock,
        )
        make = partial(ClientConnection, self)
        listening = Listening(
            configuration, self._endpoints, limits, make, native, self._upstream.in_python
        )
        try:
            address, self._upstream.addresses = await listening.open(broker_addresses)
        except BaseException:
            await listening.close()
            raise
        self._listening = listening
        return address

    @property
    def addresses(self) -> Addresses:
        """The addresses of brokers. Clients, and so requests, come only when they are known."""
        assert self._upstream.addresses is not None
        return self._upstream.addresses

    @property
    def cluster_id(self) -> str:
        """The id of the cluster; empty if it is not known."""
        return self._upstream.cluster_id

    @property
    def policies(self) -> PolicySet:
        """The current policies."""
        return self._active.policies

    @property
    def topic_configs(self) -> TopicConfigs:
        """The topic configs that were set through admin tools."""
        return self._topic_configs.current

    @property
    def worker_pids(self) -> list[int]:
        """The process ids of all policy workers."""
        return self._active.worker_pids

    # The sources of metrics and readiness

    @property
    def schedules(self) -> list[Schedule]:
        """The schedules of the policies in force: of records, of topics."""
        return self._active.schedules

    @property
    def all_schedules(self) -> list[Schedule]:
        """The schedules of the policies in force, and of those that finish their work."""
        return self._active.all_schedules

    @property
    def is_loaded(self) -> bool:
        """Whether policies are in force."""
        return self._active.loaded is not None

    @property
    def settings_are_missing(self) -> bool:
        """Whether topics have settings that are not read yet."""
        return allows_topic_settings(self.configuration) and not self.topic_configs.are_stored

    @property
    def state_writes(self) -> Mapping[str, StateWrites]:
        """The results of writes of state, by kind of state: producers, settings."""
        shared = self.shared_producers
        writes = {
            "producers": shared.writes if shared is not None else None,
            "settings": self.topic_configs.writes,
        }
        return {state: results for state, results in writes.items() if results is not None}

    @property
    def settings_position(self) -> int:
        """The offset up to which the settings of topics have been read; 0 if there are none."""
        return self.topic_configs.position

    @property
    def is_listening(self) -> bool:
        """Whether clients are accepted."""
        return self._started

    @property
    def brokers_out_of_reach(self) -> Collection[int]:
        """The node ids of brokers that clients cannot reach."""
        return self._upstream.out_of_reach

    @property
    def is_ending(self) -> bool:
        """Whether the gateway is about to end."""
        return self._ended

    @property
    def connections_max(self) -> int:
        """The most connections of clients."""
        return self.configuration.max_connections

    @property
    def certificate_expires_at(self) -> float | None:
        """When the listener's certificate expires; see `Listening.certificate_expires_at`."""
        return self._listening.certificate_expires_at if self._listening is not None else None

    def refused(self, refused: Refused) -> None:
        """Log a refusal, and pass it to the watcher; write it to the audit trail if it was done.

        A batch whose client has gone was not refused.
        """
        if refused.verdict.cause is FailureCause.ABANDONED:
            self._refusals.report(refused)
            return
        if self.audit_trail is not None and not refused.is_observed:
            self.audit_trail.put(refused)
        if self._metrics is not None:
            self._metrics.console.refused(refused)
        self._refusals.report(refused)

    async def reload(self, configuration: Configuration) -> None:
        """Replace the policies by those of another configuration; on an error, keep the policies.

        Each batch and each topic is judged by one of the two sets only. Listeners, the connection
        to the cluster and the topic of the topic configs do not change.

        Raises:
            ConfigurationError: The new policies cannot be loaded; the active policies stay.
            brokers.UnreachableError: Topic configs or the state of producers are needed now, and
                cannot be read; the old policies stay active.
        """
        async with self._reloading:
            if self._endpoints.listener_tls is not None:  # first: an error changes nothing
                server_context(self.configuration.properties, self.configuration.path)
            loaded = await self._load(configuration)
            try:
                put_in_force(loaded.topic_keys)
                if not self.topic_configs.are_stored and allows_topic_settings(configuration):
                    await self._open_topic_configs(configuration)
                are_open = self.keeps_decisions or not loaded.loses_records
                if not are_open:
                    await self._open_producers(loses_records=True)
            except BaseException:
                previous = self._active.loaded
                put_in_force(previous.topic_keys if previous else {})
                await loaded.close()
                raise
            await self._rollout.change(_in_force(loaded), were_open=are_open)
            self._activate(loaded)
            self.run(self._load_topics())
            if self._listening is not None:
                self._listening.renew(self._upstream.known_brokers)

    def reloaded(self, *, worked: bool, why_not: str = "") -> None:
        """Count a reload, also one that ended before `reload` was called.

        Args:
            worked: Whether other policies are in force now.
            why_not: The error, if not.
        """
        if self.counts is not None:
            self.counts.reloaded(worked=worked)
        if self._metrics is not None:
            self._metrics.console.reloaded(worked=worked, why_not=why_not)

    @property
    def metrics_address(self) -> Address | None:
        """Where metrics and the console are served; None if they are not."""
        return self._metrics.address if self._metrics is not None else None

    def kept_until_restart(self, configuration: Configuration) -> list[str]:
        """Return the keys that differ in another configuration, and that `reload` ignores."""
        return self.configuration.changed_until_restart(configuration)

    async def _load(self, configuration: Configuration) -> LoadedPolicies:
        have_settings = self.topic_configs.are_stored or allows_topic_settings(configuration)
        return await self._active.load(configuration, topics_have_settings=have_settings)

    def _activate(self, loaded: LoadedPolicies) -> None:
        """Use the loaded policies from now on; the previous policies finish their work."""
        self._active.activate(loaded)
        self._rollout.in_force = _in_force(loaded)
        put_in_force(loaded.topic_keys)
        self.topic_configs.read_again()
        if self.lane is not None:
            self.lane.follow()
        for client in list(self.connections):
            client.policies_changed()

    async def _load_topics(self) -> None:
        await self._active.load_topics(self.topic_configs, self.cluster)

    # Topic configs

    async def _open_topic_configs(self, configuration: Configuration) -> None:
        """Read the topic configs; see `OpenedTopicConfigs.open`."""
        await self._topic_configs.open(configuration)
        if self.lane is not None:
            self.lane.follow()

    def _topic_configs_changed(self, topic: str, previous_configs: Before) -> None:
        """Close policy instances that the topic's configs no longer name."""
        self._forget_natively(None)
        if not (topic and self.topic_configs.are_stored):
            return  # no name is known, or the first read has not finished
        self._rollout.topic_keys_changed(topic, previous_configs)
        possible_configs = self.topic_configs.store.index.all_of(topic)
        plans = plans_of(topic, self.policies.plan, possible_configs)
        self.policies.retain(topic, {plan.records_policy for plan in plans if plan.records_policy})

    def topic_changed(self, name: str) -> None:
        """Forget the configs of a topic."""
        self.framework_losses.forget(name)

    def topic_deleted(self, name: str) -> None:
        """Close the policy instances of a deleted topic."""
        self.cluster.disallow(name)
        self.framework_losses.forget(name)
        self.policies.retain(name, ())

    async def connect_upstream(
        self, node: int | None, protocol: SharedBufferProtocol
    ) -> asyncio.Transport | None:
        """Connect to a broker, or to any of them if `node` is None; return None if it fails."""
        return await self._upstream.connect(node, protocol)

    # Stopping

    async def stop(self) -> None:
        """Stop accepting, finish the requests in flight, and stop the workers."""
        self._ended = True
        self._upstream.end()
        if self._listening is not None:
            await self._listening.close()
        for client in list(self.connections):
            client.end()
        limit = self.configuration.policy_timeout_ms / 1000 + _ENDING_EXTRA_S
        deadline = self.loop.time() + limit
        while self.connections and self.loop.time() < deadline:  # noqa: ASYNC110 - at the end only
            await asyncio.sleep(0.02)
        for client in list(self.connections):
            client.abort()
        if self.lane is not None:
            self.lane.close()
        await self._active.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._close_stores()
        if self._metrics is not None:
            await self._metrics.close()

    def reopen_audit_file(self) -> None:
        """Open the file of the audit trail again, if it was renamed."""
        if self.audit_trail is not None:
            self.audit_trail.reopen()

    async def _close_stores(self) -> None:
        if self.audit_trail is not None:
            await asyncio.to_thread(self.audit_trail.close)
        await self.dead_letters.close()
        await self.topic_configs.close()
        await self._rollout.close()

    async def _close_idle(self) -> None:
        max_idle_s = self.configuration.connections_max_idle_ms / 1000
        while True:
            await asyncio.sleep(idle_interval(max_idle_s))
            self.producers.expire()
            self.budget.tick()
            close_idle(self.connections, self.loop.time(), max_idle_s)

    def _memory_is_short(self, is_short: bool) -> None:
        """Have little read of each client at once, while memory is short."""
        if is_short:
            self._memory_short.set()
        else:
            self._memory_short.clear()
        if self.lane is not None:
            self.lane.set_short(is_short)

    async def _close_stalled(self) -> None:
        while True:
            await self._memory_short.wait()
            await asyncio.sleep(LOOK_EVERY_S)
            self.budget.look()

    async def _check_connections(self) -> None:
        while True:
            if self.lane is not None:
                self.lane.look_again()
            await check_once(self.connections)

    def run(self, coroutine: Coroutine[object, object, Any]) -> asyncio.Task[Any]:
        """Run a coroutine until it ends or the gateway stops."""
        task: asyncio.Task[Any] = self.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _in_force(loaded: LoadedPolicies) -> InForce:
    return InForce(loaded.policies.plan, loaded.digest, loaded.why_no_digest)


def gateway_name(configuration: Configuration) -> str:
    """Return a name that identifies this gateway, also after a restart: its host and listener."""
    where = configuration.listener.address
    name = f"{socket.gethostname()}/{where}"
    return name if where.port else f"{name}/{uuid.uuid4()}"

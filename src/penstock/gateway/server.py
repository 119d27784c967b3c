"""The gateway: starts, reloads and stops listeners, workers and stores."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import time
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog
from confluent_kafka import KafkaException

from penstock.cluster import brokers
from penstock.cluster.compacted_topic import CompactedTopicError
from penstock.cluster.metadata import ClusterMetadata
from penstock.configuration import Address, ConfigurationError
from penstock.configuration.topic_keys import put_in_force
from penstock.engine.inline import InlineJudge
from penstock.engine.plan import NO_SETTINGS, Plan, allows_topic_settings
from penstock.engine.workers.supervisor import Supervisor
from penstock.gateway.addresses import Addresses
from penstock.gateway.admin.topic_configs import SWEEP_EVERY_S, StoredTopicConfigs, TopicConfigs
from penstock.gateway.admin.topic_policies import TopicPolicies
from penstock.gateway.connection import CONNECT_TIMEOUT_S, ClientConnection
from penstock.gateway.endpoints import endpoints_of
from penstock.gateway.known_topics import validated_topics
from penstock.gateway.listener import ConnectionLimits, Listener, bind
from penstock.gateway.memory import Budget, default_budget
from penstock.gateway.metrics.broker_checks import BrokerChecks
from penstock.gateway.metrics.counts import GatewayCounts
from penstock.gateway.metrics.metrics_listener import MetricsListener
from penstock.gateway.policy_set import PolicySet, submit_or_accept
from penstock.gateway.produce.idempotence import Idempotence
from penstock.gateway.produce.max_message_bytes import MaxMessageBytes
from penstock.gateway.produce.postponed_batches import PostponedBatches
from penstock.gateway.produce.producer_state.cluster import ClusterStore
from penstock.gateway.produce.producer_state.local import LocalStore, LocalStoreError
from penstock.gateway.produce.producer_state.producers import EXPIRATION_S, Producers
from penstock.gateway.produce.transactions import EmptyTransactions
from penstock.gateway.refusal_log import RefusalLog, Refused
from penstock.gateway.tls import renew, server_context
from penstock.records.implementation import NativeMissingError, describe
from penstock.topic_configs.storage import topic_configs_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from penstock.configuration import Configuration
    from penstock.configuration.topic_keys import TopicKey
    from penstock.engine.workers.schedule import Schedule
    from penstock.gateway.policy_set import Submit
    from penstock.gateway.produce.producer_state.encoding import ProducerKey

log = structlog.get_logger()

DISCOVERY_TIMEOUT_S: Final = 10.0
TOPIC_CONFIGS_TIMEOUT_S: Final = 30.0
PRODUCERS_TIMEOUT_S: Final = 30.0
_REDISCOVER_EVERY_S: Final = 5.0
_ENDING_EXTRA_S: Final = 5.0
_CHECK_IDLE_EVERY_S: Final = 5.0
_CHECK_CONNECTIONS_EVERY_S: Final = 1.0
_CHECKS_A_ROUND: Final = 10
_CHECKED_AT_ONCE_MIN: Final = 100
FIRST_REQUEST_S: Final = 30.0
"""The time in which a client has to send its first request, and to authenticate if required."""
_TRIED_PORTS: Final = 20


class Gateway:
    """A proxy for one cluster, as described by a configuration."""

    def __init__(
        self, configuration: Configuration, *, watch: Callable[[Refused], None] | None = None
    ) -> None:
        """Make a gateway; `start` starts it.

        Args:
            configuration: The configuration.
            watch: Called for each refused partition, in addition to the log.

        Raises:
            ConfigurationError: Keys contradict each other, or a file they name is not usable.
        """
        self.configuration = configuration
        self.connections: set[ClientConnection] = set()
        self.request_max_bytes = configuration.socket_request_max_bytes
        self.requires_sasl = configuration.upstream_security_protocol.startswith("SASL_")
        self.sasl_max_bytes = configuration.sasl_server_max_receive_size
        self.clock = time.monotonic
        max_bytes = configuration.queued_max_request_bytes
        self.budget = Budget(max_bytes if max_bytes > 0 else default_budget(), self.clock)
        self._refusals = RefusalLog(watch)
        upstream = configuration.upstream_properties
        endpoints = endpoints_of(configuration)
        self._server_tls = endpoints.listener_tls
        self._upstream_tls = endpoints.upstream_tls
        self._advertised_host = endpoints.advertised_host
        self._listeners: list[Listener] = []
        self._rediscovered = 0.0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._reloading = asyncio.Lock()
        self._draining: set[Supervisor | TopicPolicies] = set()
        self._started = False
        self._ended = False
        self.cluster = ClusterMetadata(upstream, configuration.folder)
        self.topic_configs: TopicConfigs = TopicConfigs()
        self.transactions = EmptyTransactions()
        self.max_message_bytes = MaxMessageBytes()
        self.postponed = PostponedBatches(self.clock)
        self.producers = Producers(now=time.time)
        self.shared_producers: ClusterStore | None = None
        self._local_store: LocalStore | None = None
        self._pool: Supervisor | None = None
        self._topic_policies: TopicPolicies | None = None
        self.counts: GatewayCounts | None = None
        self._checks: BrokerChecks | None = None
        self._metrics: MetricsListener | None = None
        if configuration.metrics_listener is not None:
            self.counts = GatewayCounts(records_max=configuration.decompressed_batch_max_records)
            self._checks = BrokerChecks(self._known_brokers, self._upstream_tls)
            self._metrics = MetricsListener(self, self.counts, self._checks)

    async def _restore_producers(self, cluster_id: str) -> None:
        """Restore the state of producers that this gateway or others have stored.

        Raises:
            ConfigurationError: The directory or the topic cannot be used.
            brokers.UnreachableError: The topic cannot be read now.
        """
        if self.configuration.produce_request_interceptors_state == "cluster":
            await self._follow_producers()
            return
        store = self._local_store = open_store(self.configuration, cluster_id)
        if store is not None:
            self.producers = Producers(
                now=time.time,
                keep=partial(self._keep, store),
                look_up=partial(self._look_up, store),
            )
            for key, record, used in store.records():
                self.producers.restore(key, record, used)
            self._expire_producers()

    async def _follow_producers(self) -> None:
        store = ClusterStore(self.configuration, self.configuration.upstream_properties)
        self.producers = Producers(now=time.time, keep=store.keep, is_shared=True)
        try:
            await store.start(PRODUCERS_TIMEOUT_S, self.producers.restore)
        except CompactedTopicError as error:
            await store.close()
            raise brokers.UnreachableError(str(error)) from None
        except BaseException:
            await store.close()
            raise
        self.shared_producers = store

    @staticmethod
    def _keep(
        store: LocalStore, key: ProducerKey, record: bytes, done: Callable[[str | None], None]
    ) -> None:
        """Write a record to the local store; an error is logged, and does not stop the batch."""
        try:
            store.put(key, record)
        except sqlite3.Error as error:
            log.error("sequence numbers are not kept over a restart", reason=str(error))
        done(None)

    @staticmethod
    def _look_up(store: LocalStore, key: ProducerKey) -> tuple[bytes, float] | None:
        """Read a record from the local store; return None if there is none, or on an error."""
        try:
            return store.get(key)
        except sqlite3.Error as error:
            log.error("the state of a producer cannot be read", reason=str(error))
            return None

    def _expire_producers(self) -> None:
        self.producers.expire()
        if self._local_store is not None:
            try:
                self._local_store.expire(EXPIRATION_S)
            except sqlite3.Error as error:
                log.error("sequence numbers are not kept over a restart", reason=str(error))

    async def start(self) -> Address:
        """Load the policies, discover the brokers, and listen.

        Returns:
            The bootstrap address, with the actual port if the file says 0.

        Raises:
            ConfigurationError: A policy cannot be loaded, a port cannot be bound, or
                `PENSTOCK_NATIVE` demands an extension that cannot be used.
            brokers.UnreachableError: The cluster does not respond.
        """
        self.loop = asyncio.get_running_loop()
        of = self.configuration
        try:
            log.info("record batches", implementation=describe())
        except NativeMissingError as error:
            raise ConfigurationError(str(error)) from None
        self._connection_limits = ConnectionLimits(
            max_connections=of.max_connections,
            per_ip=of.max_connections_per_ip,
            creation_rate=of.max_connection_creation_rate,
            clock=self.clock,
        )
        plan = Plan(self.configuration.policies)
        try:
            if self._metrics is not None and of.metrics_listener is not None:
                await self._metrics.start(of.metrics_listener, of.metrics_listener_token, of.path)
            self._activate(await self._load(self.configuration, plan))
            found = await self._discover(DISCOVERY_TIMEOUT_S)
            await self._restore_producers(found.cluster_id)
            if allows_topic_settings(self.configuration):
                await self._open_topic_configs(self.configuration)
            address = await self._listen(found.brokers)
        except BaseException:
            await self.stop()
            raise
        self._started = True
        self.run(self._load_topics())
        self.run(self._close_idle())
        self.run(self._check_connections())
        return address

    @property
    def policies(self) -> PolicySet:
        """The current policies."""
        return self._policies

    @property
    def worker_pids(self) -> list[int]:
        """The process ids of all policy workers."""
        topics = self._topic_policies.pids if self._topic_policies else []
        return [*(self._pool.pids if self._pool else []), *topics]

    # What metrics and readiness are made of

    @property
    def schedules(self) -> list[Schedule]:
        """What runs the policies in force: of records, of topics."""
        pools = (self._pool, self._topic_policies.pool if self._topic_policies else None)
        return [one.schedule for one in pools if one is not None]

    @property
    def all_schedules(self) -> list[Schedule]:
        """What runs policies: those in force, and those before that finish their work."""
        draining = (one.pool if isinstance(one, TopicPolicies) else one for one in self._draining)
        return [*self.schedules, *(one.schedule for one in draining if one is not None)]

    @property
    def is_loaded(self) -> bool:
        """Whether policies are in force."""
        return self._topic_policies is not None

    @property
    def settings_are_missing(self) -> bool:
        """Whether topics have settings of their own, which are not read yet."""
        return allows_topic_settings(self.configuration) and not self.topic_configs.are_stored

    @property
    def settings_position(self) -> int:
        """Up to where the settings of topics have been read; 0 if there are none."""
        return self.topic_configs.position

    @property
    def is_listening(self) -> bool:
        """Whether clients are accepted."""
        return self._started

    @property
    def is_ending(self) -> bool:
        """Whether the gateway is about to end."""
        return self._ended

    @property
    def connections_max(self) -> int:
        """The most connections of clients."""
        return self.configuration.max_connections

    def _known_brokers(self) -> Mapping[int, Address]:
        return self.addresses.brokers if self._listeners else {}

    def refused(self, refused: Refused) -> None:
        """Log a refusal, and pass it to the watcher."""
        self._refusals.report(refused)

    async def reload(self, configuration: Configuration) -> None:
        """Replace the policies by those of another configuration; keep the old ones on an error.

        Each batch and each topic is judged by one of the two sets only. Listeners, the connection
        to the cluster and the topic of the topic configs do not change.

        Raises:
            ConfigurationError: The new policies cannot be loaded; the old ones stay active.
            brokers.UnreachableError: Topic configs are enabled now, and cannot be read; the old
                policies stay active.
        """
        async with self._reloading:
            if self._server_tls is not None:  # checked first: an error changes nothing
                server_context(self.configuration.properties, self.configuration.path)
            loaded = await self._load(configuration, Plan(configuration.policies))
            try:
                put_in_force(loaded.topic_keys)
                if not self.topic_configs.are_stored and allows_topic_settings(configuration):
                    await self._open_topic_configs(configuration)
            except BaseException:
                put_in_force(self._topic_keys)
                await loaded.close()
                raise
            self._activate(loaded)
            self.run(self._load_topics())
            if self._server_tls is not None:
                renew(self._server_tls, self.configuration.properties, self.configuration.path)

    def reloaded(self, *, worked: bool) -> None:
        """Count a reload, also one that ended before `reload` was called."""
        if self.counts is not None:
            self.counts.reloaded(worked=worked)

    def kept_until_restart(self, configuration: Configuration) -> list[str]:
        """Return the keys that differ in another configuration, and that `reload` ignores."""
        return self.configuration.changed_until_restart(configuration)

    async def _load(self, configuration: Configuration, plan: Plan) -> _Loaded:
        """Start the workers for a plan, if it has any policies."""
        settings = self.topic_configs.are_stored or allows_topic_settings(configuration)
        topics = TopicPolicies(configuration, tries_classes=settings, counts=self.counts)
        pool = None
        if plan.is_empty and not settings:
            log.warning("no topic has a policy: every record passes", file=str(configuration.path))
        if settings or not plan.is_empty or any(plan.names.values()):
            pool = Supervisor(configuration, observer=self.counts)
        submit: Submit = _nothing_to_judge
        inline = None
        try:
            await topics.start()
            if pool is not None:
                await pool.start()
                plan.set_interceptor_patterns(pool.patterns)
                submit = pool.submit
                inline = await self._inline_judge(pool, configuration)
                if inline is not None:
                    submit = partial(submit_or_accept, inline, submit)
        except BaseException:
            await topics.close()
            raise
        policies = PolicySet(
            plan,
            submit,
            whole_request=configuration.produce_rejection_scope == "request",
            topics=topics,
            retain=pool.retain if pool else _nothing_to_retain,
            cancel=pool.cancel if pool else _nothing_to_cancel,
            idempotence=Idempotence(configuration.produce_request_interceptors_idempotence),
            judges_partitions=configuration.create_topic_policy_create_partitions,
            refused_automatic_creation_code=int(
                configuration.create_topic_policy_auto_create_error_code
            ),
            inline=inline,
        )
        return _Loaded(policies, pool, configuration.policies.topic_keys)

    async def _inline_judge(
        self, pool: Supervisor, configuration: Configuration
    ) -> InlineJudge | None:
        """Return what accepts small batches without a worker; it may read files first."""
        try:
            inline = await asyncio.to_thread(
                InlineJudge,
                configuration.policies,
                in_background=self._in_background,
                on_accepted=self.counts.accepted_inline if self.counts is not None else None,
            )
        except BaseException:
            await pool.close()
            raise
        return inline if inline.has_policy else None

    def _activate(self, loaded: _Loaded) -> None:
        """Use the loaded policies from now on; the previous ones finish their work."""
        before = [one for one in (self._pool, self._topic_policies) if one is not None]
        self._policies, self._pool = loaded.policies, loaded.pool
        self._topic_keys = loaded.topic_keys
        put_in_force(loaded.topic_keys)
        self.topic_configs.read_again()
        self._topic_policies = loaded.policies.topics
        for one in before:
            self._draining.add(one)
            self.run(self._drain(one))

    async def _drain(self, one: Supervisor | TopicPolicies) -> None:
        await one.close(drain_s=60.0)
        self._draining.discard(one)

    async def _load_topics(self) -> None:
        """Have the workers load the topics that are known by now; nothing waits for it."""
        pool, plan = self._pool, self._policies.plan
        if pool is None or not pool.loads_topics:
            return
        try:
            pool.load_topics(await validated_topics(plan, self.topic_configs, self.cluster))
        except Exception:
            log.exception("topics not loaded")

    # Topic configs

    async def _open_topic_configs(self, of: Configuration) -> None:
        """Read the topic configs that were set through admin tools, and follow their changes.

        Raises:
            ConfigurationError: The topic that stores them cannot be used.
            brokers.UnreachableError: The cluster does not respond.
        """
        settings_log = topic_configs_topic(of, self.configuration.upstream_properties)
        settings = StoredTopicConfigs(settings_log, gateway_name(of), self._topic_configs_changed)
        try:
            await settings.start(TOPIC_CONFIGS_TIMEOUT_S)
            await settings.sweep(self.cluster.ids, starting=True)
        except CompactedTopicError as error:
            await settings.close()
            raise brokers.UnreachableError(str(error)) from None
        except BaseException:
            await settings.close()
            raise
        self.topic_configs = settings
        self.run(self._sweep(settings))

    async def _sweep(self, settings: StoredTopicConfigs) -> None:
        while True:
            await asyncio.sleep(SWEEP_EVERY_S)
            try:
                await settings.sweep(self.cluster.ids)
            except (CompactedTopicError, KafkaException) as error:
                log.warning("settings of topics could not be looked over", reason=str(error))
            except Exception:
                log.exception("settings of topics could not be looked over")

    def _topic_configs_changed(self, topic: str) -> None:
        """Close policy instances that the topic's configs no longer name."""
        if not self.topic_configs.are_stored:
            return  # the first read has not finished
        plan = self._policies.plan
        every = self.topic_configs.store.index.all_of(topic) or [NO_SETTINGS]
        judged = filter(None, (plan.for_topic(topic, own) for own in every))
        self._policies.retain(topic, {one.records_policy for one in judged if one.records_policy})

    def topic_deleted(self, name: str) -> None:
        """Close the policy instances of a deleted topic."""
        self.cluster.disallow(name)
        self._policies.retain(name, ())

    # Listening

    async def _listen(self, known: Mapping[int, Address]) -> Address:
        of = self.configuration
        any_port = not of.listener.address.port and not of.broker_ports
        tries = _TRIED_PORTS if any_port else 1
        while True:
            tries -= 1
            try:
                return self._listen_for(known)
            except ConfigurationError:
                if not tries:
                    raise
            # The port was free, but one of those that follow it was not.
            for listener in self._listeners:
                await listener.close()
            self._listeners.clear()

    def _listen_for(self, known: Mapping[int, Address]) -> Address:
        """Listen on the bootstrap address and on the ports of the known brokers."""
        where = self.configuration.listener.address
        listening = self._bind(where.port, "listeners")
        self._serve(listening, None)
        port: int = listening.getsockname()[1]
        ports = self.configuration.broker_ports or range(port + 1, min(port + 101, 65536))
        if not ports:
            raise ConfigurationError(
                f"{self.configuration.path}: listeners: no port after {port} is left for brokers; "
                f"take a lower one, or set broker.ports"
            )
        self.addresses = Addresses(
            bootstrap=self.configuration.upstream_servers,
            advertised_host=self._advertised_host,
            ports=ports,
            first_id=self.configuration.broker_ids_first,
            on_broker=self._open_broker_port,
        )
        for node, found in sorted(known.items()):
            self.addresses.learn(node, found)
        return Address(where.host, port)

    def _bind(self, port: int, key: str) -> socket.socket:
        host = self.configuration.listener.address.host
        return bind(Address(host, port), key, self.configuration.path)

    def _serve(self, listening: socket.socket, node: int | None) -> None:
        listening.setblocking(False)
        self._listeners.append(
            Listener(
                listening,
                self._connection_limits,
                lambda on_closed: ClientConnection(self, node, on_closed),
                self._server_tls,
            )
        )

    def _open_broker_port(self, node: int, port: int) -> None:
        """Listen on the port of a broker."""
        try:
            listening = self._bind(port, "broker.ports")
        except ConfigurationError as error:
            if not self._started:
                raise
            log.error("broker out of reach for clients", node=node, reason=str(error))
            return

        self._serve(listening, node)

    # The cluster

    async def connect_upstream(
        self, node: int | None, protocol: asyncio.Protocol
    ) -> asyncio.Transport | None:
        """Connect to a broker, or to any of them if `node` is None; return None if it fails."""
        if node is None:
            addresses = self.addresses.of_cluster()
        else:
            known = self.addresses.of_node(node)
            addresses = [known] if known else []
        for address in addresses:
            name = address.host if self._upstream_tls else None
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    transport, _ = await self.loop.create_connection(
                        lambda: protocol,
                        address.host,
                        address.port,
                        ssl=self._upstream_tls,
                        server_hostname=name,
                    )
            except (OSError, TimeoutError) as error:
                reason = str(error) or type(error).__name__
                log.warning(
                    "broker cannot be reached", node=node, address=str(address), reason=reason
                )
                if self._checks is not None:
                    self._checks.connected(address, reason)
            else:
                if self._checks is not None:
                    self._checks.connected(address)
                return transport
        self._rediscover()
        return None

    async def _discover(self, timeout_s: float) -> brokers.Cluster:
        """Request the addresses of the brokers."""
        of = self.configuration
        return await asyncio.to_thread(
            brokers.describe, of.upstream_properties, of.folder, timeout_s
        )

    def _rediscover(self) -> None:
        """Request the addresses again, at most every few seconds, while a broker is unreachable."""
        now = self.loop.time()
        if now - self._rediscovered > _REDISCOVER_EVERY_S and not self._ended:
            self._rediscovered = now
            self.run(self._rediscovering())

    async def _rediscovering(self) -> None:
        try:
            found = await self._discover(_REDISCOVER_EVERY_S)
        except brokers.UnreachableError as error:
            log.warning("cluster cannot be reached", reason=str(error))
            return
        for node, where in found.brokers.items():
            self.addresses.learn(node, where)

    # Stopping

    async def stop(self) -> None:
        """Stop accepting, finish the requests in flight, and stop the workers."""
        self._ended = True
        for listener in self._listeners:
            await listener.close()
        for client in list(self.connections):
            client.end()
        limit = self.configuration.policy_timeout_ms / 1000 + _ENDING_EXTRA_S
        deadline = self.loop.time() + limit
        while self.connections and self.loop.time() < deadline:  # noqa: ASYNC110 - at the end only
            await asyncio.sleep(0.02)
        for client in list(self.connections):
            client.abort()
        for pool in (*self._draining, self._pool, self._topic_policies):
            if pool is not None:
                await pool.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._close_stores()
        if self._metrics is not None:
            await self._metrics.close()

    async def _close_stores(self) -> None:
        await self.topic_configs.close()
        if self.shared_producers is not None:
            await self.shared_producers.close()
        if self._local_store is not None:
            self._local_store.close()

    async def _close_idle(self) -> None:
        max_idle_s = self.configuration.connections_max_idle_ms / 1000
        while True:
            await asyncio.sleep(min(max_idle_s / 4, _CHECK_IDLE_EVERY_S))
            self._expire_producers()
            self.budget.tick()
            now = self.loop.time()
            for client in list(self.connections):
                if now - client.last_active > max_idle_s or (
                    now - client.since > FIRST_REQUEST_S and not client.is_established
                ):
                    client.close()

    async def _check_connections(self) -> None:
        """Check each connection once a second, a few at a time: no request waits for all."""
        while True:
            clients = list(self.connections)
            size = max(_CHECKED_AT_ONCE_MIN, -(-len(clients) // _CHECKS_A_ROUND))
            parts = [clients[start : start + size] for start in range(0, len(clients), size)]
            for part in parts or [[]]:
                for client in part:
                    client.check()
                await asyncio.sleep(_CHECK_CONNECTIONS_EVERY_S / max(1, len(parts)))

    def _in_background(self, work: Callable[[], None]) -> None:
        self.run(asyncio.to_thread(work))

    def run(self, coroutine: Coroutine[object, object, Any]) -> asyncio.Task[Any]:
        """Run a coroutine until it ends or the gateway stops."""
        task: asyncio.Task[Any] = self.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def open_store(configuration: Configuration, cluster_id: str) -> LocalStore | None:
    """Open the file that stores the state of a cluster's producers across restarts.

    Returns:
        None if no interceptor is configured, and none ever was.

    Raises:
        ConfigurationError: The file cannot be used.
    """
    key = "produce.request.interceptors.state.dir"
    folder = configuration.produce_request_interceptors_state_dir
    if not folder:
        return None
    file = configuration.folder / folder / f"producer-state-{cluster_id}.sqlite"
    if not configuration.produce_request_interceptors and not file.exists():
        return None
    try:
        return LocalStore(file, time.time)
    except LocalStoreError as error:
        raise ConfigurationError(
            f"{configuration.path}: {key}: {error}; name a folder that only this gateway writes, "
            "or leave the value empty to keep nothing over a restart"
        ) from None


class _Loaded(NamedTuple):
    """Policies whose workers have started."""

    policies: PolicySet
    pool: Supervisor | None
    topic_keys: Mapping[str, TopicKey]
    """The topic level keys that the validation policy declares."""

    async def close(self) -> None:
        """Stop the workers."""
        await self.policies.topics.close()
        if self.pool is not None:
            await self.pool.close()


def gateway_name(configuration: Configuration) -> str:
    """Return a name that identifies this gateway, also after a restart: its host and listener."""
    where = configuration.listener.address
    name = f"{socket.gethostname()}/{where}"
    return name if where.port else f"{name}/{uuid.uuid4()}"


def _nothing_to_judge(*_: object, **__: object) -> None:
    raise AssertionError("a topic without a policy is not judged")


def _nothing_to_retain(*_: object) -> None:
    """No topic has an instance of its own."""


def _nothing_to_cancel(_: object) -> None:
    """Nothing waits for a verdict."""

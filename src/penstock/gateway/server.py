"""The gateway as a whole: listeners, the workers, and how they start and stop."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import time
from typing import TYPE_CHECKING, Final

import structlog

from penstock.configuration import Address, ConfigurationError
from penstock.engine.plan import Plan
from penstock.engine.workers.pool import Pool
from penstock.gateway import discovery
from penstock.gateway.addresses import Addresses
from penstock.gateway.connection import CONNECT_TIMEOUT_S, Client
from penstock.gateway.handlers.interceptions import Idempotence
from penstock.gateway.handlers.produce import Policies, Refused
from penstock.gateway.message_sizes import MessageSizes
from penstock.gateway.refusals import RefusalLog
from penstock.gateway.sequence_store import SequenceStore, SequenceStoreError
from penstock.gateway.sequences import Sequences
from penstock.gateway.tls import client_context, server_context
from penstock.gateway.transactions import EmptyTransactions

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from penstock.configuration import Configuration
    from penstock.gateway.sequences import Entry, Producer

log = structlog.get_logger()

DISCOVERY_TIMEOUT_S: Final = 10.0
_REDISCOVER_EVERY_S: Final = 5.0
_ENDING_EXTRA_S: Final = 5.0
_BACKLOG: Final = 1024


class Gateway:
    """Serves clients in front of one cluster, as a configuration says."""

    def __init__(
        self, configuration: Configuration, *, watch: Callable[[Refused], None] | None = None
    ) -> None:
        """Prepare; nothing is started.

        Args:
            configuration: The file.
            watch: Called for each refused partition, besides the log.

        Raises:
            ConfigurationError: Keys do not fit together, or a file they name is not usable.
        """
        self.configuration = configuration
        self.clients: set[Client] = set()
        self.request_most_bytes: int = configuration["socket.request.max.bytes"]
        self._refusals = RefusalLog(watch)
        listener = configuration.listener
        file = configuration.path
        upstream = configuration.upstream_properties
        self._server_tls = server_context(configuration.properties, file) if listener.tls else None
        self._upstream_tls: ssl.SSLContext | None = None
        if configuration["upstream.security.protocol"].endswith("SSL"):
            self._upstream_tls = client_context(upstream, file)
        discovery.check(upstream, file)
        self._advertised_host = advertised_host(configuration)
        self._servers: list[asyncio.Server] = []
        self._broker_servers: dict[int, asyncio.Task[None]] = {}
        self._rediscovered = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = False
        self.transactions = EmptyTransactions()
        self.sizes = MessageSizes()
        self.sequences = Sequences(now=time.time)
        self._store: SequenceStore | None = None

    def _restore_sequences(self, cluster_id: str) -> None:
        self._store = open_store(self.configuration, cluster_id)
        if self._store is not None:
            self.sequences = Sequences(
                now=time.time, keep=self._keep, entries=self._store.entries()
            )
            self.sequences.expire()

    def _keep(self, producer: Producer, entry: Entry | None) -> None:
        """Write a producer's numbers to the disk; records are not held up when that fails."""
        if self._store is None:
            return
        try:
            self._store.put(producer, entry)
        except sqlite3.Error as error:
            log.error("sequence numbers are not kept over a restart", reason=str(error))

    async def start(self) -> Address:
        """Load the policies, find the brokers, accept on every listener.

        Returns:
            The bootstrap address, with the port that was taken where the file says 0.

        Raises:
            ConfigurationError: A policy cannot be loaded, or a port cannot be taken.
            discovery.UnreachableError: The cluster does not answer.
        """
        self.loop = asyncio.get_running_loop()
        plan = Plan(self.configuration)
        self._pool: Pool | None = None
        try:
            self._policies = await self._loaded(self.configuration, plan)
            found = await self._discover(DISCOVERY_TIMEOUT_S)
            self._restore_sequences(found.cluster_id)
            address = await self._listen()
            for node, where in sorted(found.brokers.items()):
                self.addresses.learn(node, where)
            await asyncio.gather(*self._broker_servers.values())
        except BaseException:
            await self.stop()
            raise
        self._run(self._close_idle())
        return address

    @property
    def policies(self) -> Policies:
        """The policies in force now."""
        return self._policies

    @property
    def worker_pids(self) -> list[int]:
        """The process ids of the policy workers."""
        return self._pool.pids if self._pool else []

    def refused(self, refused: Refused) -> None:
        """Log a refusal, and tell who watches."""
        self._refusals.take(refused)

    async def reload(self, configuration: Configuration) -> None:
        """Put the policies of another configuration in force; keep the old ones if that fails.

        Every batch is judged by one of the two sets as a whole. Listeners stay as they are.

        Raises:
            ConfigurationError: The new policies cannot be loaded; the old ones are in force.
        """
        old = self._pool
        self._policies = await self._loaded(configuration, Plan(configuration))
        if old is not None:
            self._run(old.close(drain_s=60.0))

    async def _loaded(self, configuration: Configuration, plan: Plan) -> Policies:
        """Start workers for a plan, if anything in it has to be judged."""
        pool = None
        if plan.is_empty:
            log.warning("no topic has a policy: every record passes", file=str(configuration.path))
        if not plan.is_empty or any(plan.names.values()):
            pool = Pool(configuration)
            await pool.start()
            plan.intercept(pool.patterns)
        self._pool = pool
        whole = configuration["produce.rejection.scope"] == "request"
        idempotence = Idempotence(configuration["produce.request.interceptors.idempotence"])
        return Policies(plan, pool.submit if pool else _nothing_to_judge, whole, idempotence)

    # Listening

    async def _listen(self) -> Address:
        where = self.configuration.listener.address
        server = await self._serve(self._bind(where.port, "listeners"), None)
        port: int = server.sockets[0].getsockname()[1]
        ports = self.configuration["broker.ports"] or range(port + 1, min(port + 101, 65536))
        self.addresses = Addresses(
            bootstrap=self.configuration.upstream_servers,
            advertised_host=self._advertised_host,
            ports=ports,
            first_id=self.configuration["broker.ids.first"],
            on_broker=self._open_broker_port,
        )
        return Address(where.host, port)

    def _bind(self, port: int, key: str) -> socket.socket:
        host = self.configuration.listener.address.host
        try:
            family = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0][0]
            return socket.create_server((host, port), family=family, backlog=_BACKLOG)
        except OSError as error:
            raise ConfigurationError(
                f"{self.configuration.path}: {key}: {Address(host, port)} cannot be listened on: "
                f"{error.strerror or error}"
            ) from None

    async def _serve(self, listening: socket.socket, node: int | None) -> asyncio.Server:
        listening.setblocking(False)
        server = await self.loop.create_server(
            lambda: Client(self, node), sock=listening, ssl=self._server_tls, backlog=_BACKLOG
        )
        self._servers.append(server)
        return server

    def _open_broker_port(self, node: int, port: int) -> None:
        """Take connections for a broker: the kernel does so from here on, we very soon."""
        try:
            listening = self._bind(port, "broker.ports")
        except ConfigurationError as error:
            if not self._tasks:  # while starting
                raise
            log.error("broker out of reach for clients", node=node, reason=str(error))
            return

        async def serve() -> None:
            await self._serve(listening, node)

        self._broker_servers[node] = self.loop.create_task(serve())

    # The cluster

    async def connect_upstream(
        self, node: int | None, protocol: asyncio.Protocol
    ) -> asyncio.Transport | None:
        """Connect to a broker, or to any for the bootstrap address; None when none answers."""
        if node is None:
            places = self.addresses.of_cluster()
        else:
            place = self.addresses.of_node(node)
            places = [place] if place else []
        for place in places:
            name = place.host if self._upstream_tls else None
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    transport, _ = await self.loop.create_connection(
                        lambda: protocol,
                        place.host,
                        place.port,
                        ssl=self._upstream_tls,
                        server_hostname=name,
                    )
            except (OSError, TimeoutError) as error:
                log.warning(
                    "broker cannot be reached",
                    node=node,
                    address=str(place),
                    reason=str(error) or type(error).__name__,
                )
            else:
                return transport
        self._rediscover()
        return None

    async def _discover(self, timeout_s: float) -> discovery.Cluster:
        """Ask where the brokers are."""
        of = self.configuration
        return await asyncio.to_thread(
            discovery.describe, of.upstream_properties, of.folder, timeout_s
        )

    def _rediscover(self) -> None:
        """Ask again where the brokers are, now and then, while one of them is away."""
        now = self.loop.time()
        if now - self._rediscovered > _REDISCOVER_EVERY_S and not self._ended:
            self._rediscovered = now
            self._run(self._rediscovering())

    async def _rediscovering(self) -> None:
        try:
            found = await self._discover(_REDISCOVER_EVERY_S)
        except discovery.UnreachableError as error:
            log.warning("cluster cannot be reached", reason=str(error))
            return
        for node, where in found.brokers.items():
            self.addresses.learn(node, where)

    # Ending

    async def stop(self) -> None:
        """Stop accepting, answer what is in flight, end the workers."""
        self._ended = True
        for server in self._servers:
            server.close()
        for client in list(self.clients):
            client.end()
        limit = self.configuration["policy.timeout.ms"] / 1000 + _ENDING_EXTRA_S
        deadline = self.loop.time() + limit
        while self.clients and self.loop.time() < deadline:  # noqa: ASYNC110 - at the end only
            await asyncio.sleep(0.02)
        for client in list(self.clients):
            client.abort()
        if self._pool is not None:
            await self._pool.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._store is not None:
            self._store.close()

    async def _close_idle(self) -> None:
        most = self.configuration["connections.max.idle.ms"] / 1000
        while True:
            await asyncio.sleep(min(most / 4, 30.0))
            self.sequences.expire()
            for client in list(self.clients):
                if self.loop.time() - client.last_active > most:
                    client.close()

    def _run(self, coroutine: object) -> None:
        task: asyncio.Task[None] = self.loop.create_task(coroutine)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def open_store(configuration: Configuration, cluster_id: str) -> SequenceStore | None:
    """Open the file that keeps a cluster's sequence numbers over a restart.

    It is there where interceptors may drop records, or where they once did.

    Raises:
        ConfigurationError: It cannot be used.
    """
    key = "produce.request.interceptors.state.dir"
    if not configuration[key]:
        return None
    file = configuration.folder / configuration[key] / f"producers-{cluster_id}.sqlite"
    if not configuration["produce.request.interceptors"] and not file.exists():
        return None
    try:
        return SequenceStore(file)
    except SequenceStoreError as error:
        raise ConfigurationError(
            f"{configuration.path}: {key}: {error}; name a folder that only this gateway writes, "
            "or leave the value empty to keep nothing over a restart"
        ) from None


def advertised_host(configuration: Configuration) -> str:
    """Give the host name that clients are told.

    Raises:
        ConfigurationError: It has to be given, because the listener's is a wildcard.
    """
    given: str | None = configuration["advertised.host"]
    host = given or configuration.listener.address.host
    if host in {"", "0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
        raise ConfigurationError(
            f"{configuration.path}: advertised.host must be set: clients cannot connect to "
            f"the listener's wildcard address"
        )
    return host


def _nothing_to_judge(*_: object, **__: object) -> None:
    raise AssertionError("a topic without a policy is not judged")

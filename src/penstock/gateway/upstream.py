"""The brokers of the cluster: connections to them, and their addresses when these change."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import structlog

from penstock.gateway.broker_connection import ConnectError, connect
from penstock.gateway.broker_outage_log import BrokerOutageLog
from penstock.gateway.broker_tls import BrokerTls
from penstock.kafka.cluster import brokers

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Collection, Coroutine, Mapping

    from penstock.configuration import Address, Configuration
    from penstock.gateway.listening.addresses import Addresses
    from penstock.gateway.listening.shared_buffer import SharedBufferProtocol

log = structlog.get_logger()

_CONNECT_TIMEOUT_S: Final = 10.0
CONNECTING_MAX: Final = 64
"""The most connections to a broker that are being made; others wait for these, as long as it may
take to connect."""
_REDISCOVER_EVERY_S: Final = 5.0


class Upstream:
    """Connects to brokers. While one cannot be reached, it requests their addresses again.

    Attributes:
        addresses: The known brokers; None until the gateway listens.
        cluster_id: The id of the cluster, as it was described last; empty if it is not known.
        in_python: Why native threads cannot have connections to brokers; empty if they can.
    """

    def __init__(
        self,
        configuration: Configuration,
        tls: ssl.SSLContext | None,
        run: Callable[[Coroutine[Any, Any, Any]], object],
    ) -> None:
        """Prepare; nothing is connected to.

        Args:
            configuration: The configuration, with the keys of the connection to the cluster.
            tls: The TLS context of connections to brokers; None without TLS.
            run: Runs a coroutine in the background while the gateway runs.
        """
        self.addresses: Addresses | None = None
        self.cluster_id = ""
        self._properties = configuration.upstream_properties
        self._file = configuration.path
        self._tls = (
            BrokerTls(tls, self._properties, configuration.folder) if tls is not None else None
        )
        self.in_python = ""
        self._run = run
        self._outages = BrokerOutageLog()
        self._connecting: dict[Address, asyncio.Semaphore] = {}
        self._watchers: list[Callable[[Address, str], None]] = []
        self._rediscovered = 0.0
        self._is_ending = False

    def use(self, native: Any) -> None:
        """Let native threads have connections with TLS from now on, if that is possible.

        Args:
            native: The native module.
        """
        if self._tls is not None:
            self.in_python = self._tls.use(native)

    def end(self) -> None:
        """Request no addresses from now on: the gateway stops."""
        self._is_ending = True

    def watch(self, connected: Callable[[Address, str], None]) -> None:
        """Call `connected` with the address and the error ("" if none) of each attempt."""
        self._watchers.append(connected)

    @property
    def known_brokers(self) -> Mapping[int, Address]:
        """The addresses of all brokers that were ever known, by node id."""
        return self.addresses.brokers if self.addresses is not None else {}

    @property
    def out_of_reach(self) -> Collection[int]:
        """The node ids of the known brokers that clients cannot reach."""
        return self.addresses.out_of_reach if self.addresses is not None else ()

    async def connect(
        self, node: int | None, protocol: SharedBufferProtocol
    ) -> asyncio.Transport | None:
        """Connect to a broker.

        Args:
            node: The broker's id; None for any broker of the cluster.
            protocol: Gets the bytes that the broker sends.

        Returns:
            The connection; None if it fails.
        """
        for address in self._addresses_of(node):
            try:
                transport = await self._connect(address, protocol)
            except ConnectError as error:
                self._outages.failed(node, address, str(error))
                self._attempted(address, str(error))
            else:
                self._outages.reached(address)
                self._attempted(address)
                return transport
        self._rediscover_soon()
        return None

    async def _connect(self, address: Address, protocol: SharedBufferProtocol) -> asyncio.Transport:
        connecting = self._connecting.setdefault(address, asyncio.Semaphore(CONNECTING_MAX))
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                await connecting.acquire()
        except TimeoutError:
            raise ConnectError(f"{CONNECTING_MAX} connections are being made") from None
        try:
            if self._tls is not None:
                return await self._tls.connect(address, lambda: protocol, _CONNECT_TIMEOUT_S)
            return await connect(address, None, lambda: protocol, _CONNECT_TIMEOUT_S)
        finally:
            connecting.release()

    def _addresses_of(self, node: int | None) -> list[Address]:
        if self.addresses is None:
            return []
        if node is None:
            return self.addresses.of_cluster()
        address = self.addresses.of_node(node)
        if address is None:  # a name in a TLS handshake may be of any broker
            log.warning("broker is not known", node=node)
            return []
        return [address]

    def _attempted(self, address: Address, reason: str = "") -> None:
        for connected in self._watchers:
            connected(address, reason)

    async def describe(self, timeout_s: float) -> brokers.ClusterDescription:
        """Request the id of the cluster and the addresses of its brokers.

        Raises:
            brokers.UnreachableError: The cluster does not respond.
        """
        description = await asyncio.to_thread(
            brokers.describe, self._properties, self._file, timeout_s
        )
        self.cluster_id = description.cluster_id
        return description

    def _rediscover_soon(self) -> None:
        """Request the addresses again, at most every few seconds."""
        now = asyncio.get_running_loop().time()
        if now - self._rediscovered > _REDISCOVER_EVERY_S and not self._is_ending:
            self._rediscovered = now
            self._run(self.rediscover())

    async def rediscover(self) -> Collection[int]:
        """Request the addresses again; return the node ids, or none without a response."""
        try:
            description = await self.describe(_REDISCOVER_EVERY_S)
        except brokers.UnreachableError as error:
            log.warning("cluster cannot be reached", reason=str(error))
            return ()
        if self.addresses is not None:
            for node, where in description.brokers.items():
                self.addresses.learn(node, where)
        return description.brokers.keys()

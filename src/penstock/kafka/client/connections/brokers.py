"""Connections to brokers, on the event loop: opened when needed, closed when they fail.

aiokafka's connections are used without its client, which keeps the reason of a refused login
to its log, knows no leader epochs and no topic ids, and requests the metadata of all topics again
whenever a connection breaks.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from aiokafka.conn import CloseReason
from aiokafka.errors import (
    AuthenticationFailedError,
    AuthenticationMethodNotSupported,
    IllegalSaslStateError,
    IncompatibleBrokerVersion,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)

from penstock.kafka.client.connections.broker_connection import BrokerConnection, refusal_reason
from penstock.kafka.client.connections.daemon_threads import DaemonThreads
from penstock.kafka.client.errors import (
    BrokerUnreachableError,
    ClientError,
    ConnectionLostError,
    LoginError,
    UnsupportedVersionError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.configuration import Address
    from penstock.kafka.client.connections.security import ConnectionSecurity
    from penstock.kafka.client.connections.settings import Settings

# What it warns about is raised here, or was configured so.
logging.getLogger("aiokafka").addHandler(logging.NullHandler())

_CLOSES_WITHIN_S: Final = 2.0
_PATIENCE_S: Final = 3.0
"""How long a broker may be silent before another broker gets the same request."""
_LOGIN_THREADS_MAX: Final = 16
_LOGIN_REFUSED: Final = (
    AuthenticationFailedError,
    AuthenticationMethodNotSupported,
    IllegalSaslStateError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)


class Brokers:
    """The brokers of a cluster. All methods run on one event loop."""

    def __init__(
        self,
        settings: Settings,
        security: ConnectionSecurity,
        address_source: Brokers | None = None,
    ) -> None:
        """Prepare; nothing is contacted.

        Args:
            settings: Of the client.
            security: Has the arguments of `AIOKafkaConnection` that are about TLS and SASL.
            address_source: Connections on another event loop: the addresses that these learn are
                used here.
        """
        self._settings = settings
        self._security = security
        self._address_source = address_source or self
        self._addresses: dict[int, Address] = {}
        self._open: dict[tuple[int | Address, str], BrokerConnection] = {}
        self._logins = DaemonThreads("penstock-logins", _LOGIN_THREADS_MAX)
        self._exchanges: set[asyncio.Task[Any]] = set()
        self._closures: set[asyncio.Future[None]] = set()
        self._locks: defaultdict[tuple[int | Address, str], asyncio.Lock] = defaultdict(
            asyncio.Lock
        )

    def learn(self, addresses: Mapping[int, Address]) -> None:
        """Take the brokers' addresses, by node id; new connections are made to them."""
        self._addresses = dict(addresses)

    def add(self, node: int, address: Address) -> None:
        """Take the address of one broker."""
        self._addresses = {**self._addresses, node: address}

    async def exchange(
        self, node: int | Address, request: Any, channel: str, *, has_deadline: bool = False
    ) -> Any:
        """Send a request; return the response.

        Args:
            node: A node id, or the address of a bootstrap server.
            request: aiokafka's, or a `RawRequest`.
            channel: Requests on one channel wait for each other at the broker.
            has_deadline: The caller cancels it when it has taken too long. A connection that is
                silent then is given up, and other requests on it fail as on a lost connection.
                Without it, the request timeout does that, and a cancelled request does not show it.

        Raises:
            BrokerUnreachableError: There is no connection, or no response in time.
            LoginError: The connection was refused.
            UnsupportedVersionError: The broker does not serve the version.
        """
        connection = await self._connected(node, channel)
        received_at = connection.received_at
        # Frames of an error have the future that has it: such a cycle is collected seldom.
        try:
            return await connection.send(request)
        except asyncio.CancelledError:
            if has_deadline and connection.is_silent(received_at):
                self._give_up(connection)
            raise
        except TimeoutError as error:
            error.__traceback__ = None
            self._give_up(connection)
            raise BrokerUnreachableError(
                f"{_place(connection)} did not respond within "
                f"{self._settings.request_timeout_s:g} s"
            ) from None
        except (IncompatibleBrokerVersion, NotImplementedError) as error:
            raise UnsupportedVersionError(f"{_place(connection)}: {error}") from None
        except (KafkaError, OSError) as error:
            error.__traceback__ = None
            raise ConnectionLostError(
                f"the connection to {_place(connection)} was lost ({type(error).__name__})"
            ) from None

    async def exchange_with_any(self, request: Any) -> Any:
        """Send a request to any broker: a connected broker, a known broker, a bootstrap server.

        While a broker is silent, the next gets it, too. The first response counts. The others are
        not cancelled: the request timeout gives up the connection of a broker that stays silent.

        Raises:
            BrokerUnreachableError: None of them responds. The message has the last reason.
            LoginError: A connection was refused.
            UnsupportedVersionError: A broker does not serve the version.
        """
        last: ClientError | None = None
        pending_exchanges: set[asyncio.Task[Any]] = set()
        candidates = iter(self._candidates())
        target = next(candidates, None)
        while pending_exchanges or target is not None:
            if target is not None:
                exchange = asyncio.ensure_future(self.exchange(target, request, ""))
                pending_exchanges.add(exchange)
                self._exchanges.add(exchange)
                exchange.add_done_callback(self._end_exchange)
            target = next(candidates, None)
            patience_s = None if target is None else _PATIENCE_S
            finished_exchanges, pending_exchanges = await asyncio.wait(
                pending_exchanges, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED
            )
            for exchange in finished_exchanges:
                error = exchange.exception()  # raised, it would keep this frame, which has it
                if not isinstance(error, BrokerUnreachableError):
                    return exchange.result()
                last = error
        servers = ",".join(map(str, self._settings.servers))
        raise BrokerUnreachableError(f"no broker of {servers} responds: {last}") from None

    def _end_exchange(self, exchange: asyncio.Task[Any]) -> None:
        self._exchanges.discard(exchange)
        if not exchange.cancelled():
            exchange.exception()  # it may be that nothing waits for it any more

    async def versions(self, node: int, api_key: int, channel: str) -> range:
        """Return the versions of an API that a broker serves; none of an unknown API.

        Raises:
            BrokerUnreachableError: There is no connection.
            LoginError: The connection was refused.
        """
        connection = await self._connected(node, channel)
        first, last = connection._versions.get(api_key, (0, -1))  # noqa: SLF001 - has no method
        return range(first, last + 1)

    async def close(self) -> None:
        """Close all connections, and wait until they are closed."""
        for exchange in self._exchanges:
            exchange.cancel()
        for connection in self._open.values():
            self._discard(connection, CloseReason.SHUTDOWN)
        self._open.clear()
        if self._closures:
            await asyncio.wait(self._closures, timeout=_CLOSES_WITHIN_S)
        # Sockets are closed in the iteration of the loop after that.
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def _give_up(self, connection: BrokerConnection) -> None:
        """Discard a connection and unsent bytes: the broker may never read them."""
        connection.drop_unsent()
        self._discard(connection, CloseReason.CONNECTION_TIMEOUT)

    def _discard(self, connection: BrokerConnection, reason: CloseReason) -> None:
        closed = connection.close(reason=reason)
        if connection._protocol is not None:  # noqa: SLF001 - otherwise it was never open
            self._closures.add(closed)
            closed.add_done_callback(self._closures.discard)

    def _candidates(self) -> list[int | Address]:
        connected = [
            target for (target, _), connection in self._open.items() if connection.connected()
        ]
        known_nodes: list[int | Address] = random.sample([*self._addresses], len(self._addresses))
        bootstrap_servers: list[int | Address] = random.sample(
            self._settings.servers, len(self._settings.servers)
        )
        return list(dict.fromkeys([*connected, *known_nodes, *bootstrap_servers]))

    async def _connected(self, node: int | Address, channel: str) -> BrokerConnection:
        key = (node, channel)
        async with self._locks[key]:
            addresses = self._address_source._addresses  # noqa: SLF001 - of this class
            address = addresses.get(node) if isinstance(node, int) else node
            open_connection = self._open.get(key)
            if open_connection is not None and open_connection.connected():
                if address in {None, (open_connection.host, open_connection.port)}:
                    return open_connection
                self._give_up(open_connection)  # the broker has moved
            if address is None:
                raise BrokerUnreachableError(f"broker {node} is not among those of the metadata")
            self._open[key] = connection = await self._connect(address)
            return connection

    async def _connect(self, address: Address) -> BrokerConnection:
        settings = self._settings
        connection = BrokerConnection(
            address.host,
            address.port,
            client_id=settings.client_id,
            request_timeout_ms=settings.request_timeout_s * 1000,
            max_idle_ms=settings.idle_timeout_s * 1000,
            logins=self._logins,
            **self._security.options(),
        )
        try:
            async with asyncio.timeout(settings.connect_timeout_s):
                await connection.connect()
        except Exception as error:
            self._discard(connection, CloseReason.AUTH_FAILURE)
            raise self._connect_error(address, error) from None
        return connection

    def _connect_error(self, address: Address, error: Exception) -> ClientError:
        if isinstance(error, LoginError):
            return LoginError(f"{address}: {error}", retriable=error.retriable)
        if isinstance(error, ssl.SSLError):
            return LoginError(f"{address}: TLS: {error.reason or error}")
        if isinstance(error, _LOGIN_REFUSED):
            mechanism = self._security.options().get("sasl_mechanism")
            return LoginError(
                f"{address} refused the login by {mechanism}: {refusal_reason(error)}"
            )
        if isinstance(error, TimeoutError):
            limit = self._settings.connect_timeout_s
            return BrokerUnreachableError(
                f"{address} did not accept a connection within {limit:g} s"
            )
        if isinstance(error, (OSError, KafkaError)):
            reason = getattr(error, "strerror", None) or error
            return BrokerUnreachableError(f"{address} cannot be reached: {reason}")
        # Of aiokafka's mechanisms: a server that cannot prove itself, a missing ticket.
        return LoginError(f"{address}: the login failed: {type(error).__name__}")


def _place(connection: BrokerConnection) -> str:
    return f"{connection.host}:{connection.port}"

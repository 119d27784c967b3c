"""Connections to brokers, on the event loop: opened when needed, closed when they fail.

aiokafka's connections are used without its client, which keeps the reason of a refused login
to its log, knows no leader epochs and no topic ids, and requests the metadata of all topics again
whenever a connection breaks.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import ssl
from collections import defaultdict
from copy import copy
from itertools import chain, zip_longest
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
    from collections.abc import Iterable, Mapping

    from penstock.configuration import Address
    from penstock.kafka.client.connections.security import ConnectionSecurity
    from penstock.kafka.client.connections.settings import Settings

# What it warns about is raised here, or was configured so. At DEBUG it writes every request, with
# the password or token of a login: those lines never leave, whatever level an application sets.
for _name in ("aiokafka", "aiokafka.conn"):
    logging.getLogger(_name).addHandler(logging.NullHandler())
logging.getLogger("aiokafka.conn").addFilter(lambda record: record.levelno > logging.DEBUG)

_CLOSES_WITHIN_S: Final = 2.0
_PATIENCE_S: Final = 3.0
"""How long a broker may be silent before another broker gets the same request."""
_LOGIN_THREADS_MAX: Final = 16
_SHARE_OF_KDC: Final = 0.8
"""The part of the time to connect that a KDC may take: after that, an error can name it."""
_LOGIN_REFUSED: Final = (
    AuthenticationFailedError,
    AuthenticationMethodNotSupported,
    IllegalSaslStateError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
_OTHERS_MAY_RESPOND: Final = (BrokerUnreachableError, LoginError, UnsupportedVersionError)


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
        self._failed_at: dict[Address, float] = {}
        self._open: dict[tuple[int | Address, str], BrokerConnection] = {}
        self._logins = DaemonThreads("penstock-logins", _LOGIN_THREADS_MAX)
        self._exchanges: set[asyncio.Task[Any]] = set()
        self._closures: set[asyncio.Future[None]] = set()
        self._locks: defaultdict[tuple[int | Address, str], asyncio.Lock] = defaultdict(
            asyncio.Lock
        )
        self._failures: dict[tuple[int | Address, str], tuple[float, ClientError]] = {}
        """When the last attempt to connect failed, and why."""
        self._attempts: set[asyncio.Task[BrokerConnection]] = set()

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
        """Send a request to any broker: a connected or known broker, or a bootstrap server.

        These take turns, and brokers that have failed come last, the longest ago first: where
        several known brokers have vanished, a bootstrap server gets the request before the caller's
        time is over (KIP-899). While a broker is silent, the next gets it, too. The first response
        counts. Where there is no connection yet, the request is not sent any more after that. The
        others are not cancelled: the request timeout gives up the connection of a broker that stays
        silent.

        Raises:
            BrokerUnreachableError: None of them responds. The message has the last reason.
            LoginError: None responds, and one has refused the connection.
            UnsupportedVersionError: None responds, and one does not serve the version.
        """
        last: ClientError | None = None
        pending_exchanges: dict[asyncio.Task[Any], int | Address] = {}
        candidates = self._candidates()
        try:
            while pending_exchanges or candidates:
                if candidates:
                    target = min(candidates, key=self._last_failure)
                    candidates.remove(target)
                    pending_exchanges[self._exchange_in_background(target, request)] = target
                finished_exchanges, _ = await asyncio.wait(
                    pending_exchanges,
                    timeout=_PATIENCE_S if candidates else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if not finished_exchanges:
                    self._fail(pending_exchanges.values())
                for exchange in finished_exchanges:
                    del pending_exchanges[exchange]
                    error = exchange.exception()  # raised, it would keep this frame, which has it
                    if not isinstance(error, _OTHERS_MAY_RESPOND):
                        return exchange.result()
                    if last is None or isinstance(last, BrokerUnreachableError):
                        last = error
        except asyncio.CancelledError:
            self._fail(pending_exchanges.values())
            raise
        finally:
            self._cancel_unconnected(pending_exchanges)
        if isinstance(last, (LoginError, UnsupportedVersionError)):
            raise copy(last) from None  # it would keep this frame, too
        servers = ",".join(map(str, self._settings.servers))
        raise BrokerUnreachableError(f"no broker of {servers} responds: {last}") from None

    def _exchange_in_background(self, target: int | Address, request: Any) -> asyncio.Task[Any]:
        async def exchange_with_target() -> Any:
            response = await self.exchange(target, request, "")
            address = self._address(target)
            if address is not None:
                self._failed_at.pop(address, None)
            return response

        exchange = asyncio.ensure_future(exchange_with_target())
        self._exchanges.add(exchange)
        exchange.add_done_callback(self._end_exchange)
        return exchange

    def _cancel_unconnected(self, exchanges: Mapping[asyncio.Task[Any], int | Address]) -> None:
        for exchange, target in exchanges.items():
            connection = self._open.get((target, ""))
            if connection is None or not connection.connected():
                exchange.cancel()

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
        attempts = set(self._attempts)
        for attempt in attempts:
            attempt.cancel()
        if attempts:
            await asyncio.wait(attempts, timeout=_CLOSES_WITHIN_S)
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
        """Return connected brokers, then known brokers, in turn with bootstrap servers."""
        connected = [
            target for (target, _), connection in self._open.items() if connection.connected()
        ]
        known_nodes: list[int | Address] = random.sample([*self._addresses], len(self._addresses))
        nodes = list(dict.fromkeys([*connected, *known_nodes]))
        bootstrap_servers: list[int | Address] = [
            server
            for server in random.sample(self._settings.servers, len(self._settings.servers))
            if server not in connected
        ]
        turns = chain.from_iterable(zip_longest(nodes, bootstrap_servers))
        return [target for target in turns if target is not None]

    def _address(self, target: int | Address) -> Address | None:
        if not isinstance(target, int):
            return target
        addresses = self._address_source._addresses  # noqa: SLF001 - of this class
        return addresses.get(target)

    def _last_failure(self, target: int | Address) -> float:
        address = self._address(target)
        return 0.0 if address is None else self._failed_at.get(address, 0.0)

    def _fail(self, targets: Iterable[int | Address]) -> None:
        """Let other brokers than these get the next requests that any broker may get."""
        now = asyncio.get_running_loop().time()
        for address in filter(None, map(self._address, targets)):
            self._failed_at[address] = now

    async def _connected(self, node: int | Address, channel: str) -> BrokerConnection:
        """Return the connection, which is made if there is none.

        Requests wait in order. Those that wait while an attempt fails fail with it.
        """
        key, start = (node, channel), asyncio.get_running_loop().time()
        async with self._locks[key]:
            failed_at, failure = self._failures.get(key, (0.0, None))
            if failure is not None and failed_at >= start:
                raise copy(failure)  # raised, it would keep the frames of all that wait
            address = self._address(node)
            open_connection = self._open.get(key)
            if open_connection is not None and open_connection.connected():
                if address in {None, (open_connection.host, open_connection.port)}:
                    return open_connection
                self._give_up(open_connection)  # the broker has moved
            if address is None:
                raise BrokerUnreachableError(f"broker {node} is not among those of the metadata")
            outcome = await self._attempted(address)
            if isinstance(outcome, ClientError):
                self._failures[key] = asyncio.get_running_loop().time(), outcome
                raise copy(outcome)
            self._failures.pop(key, None)
            self._open[key] = outcome
            return outcome

    async def _attempted(self, address: Address) -> BrokerConnection | ClientError:
        """Return a new connection, or why there is none. `close` ends the attempt."""
        attempt = asyncio.ensure_future(self._connect(address))
        self._attempts.add(attempt)
        attempt.add_done_callback(self._attempts.discard)
        try:
            await asyncio.wait([attempt])
        except asyncio.CancelledError:
            is_ended = not attempt.cancel()
            if is_ended and not attempt.cancelled() and attempt.exception() is None:
                self._discard(attempt.result(), CloseReason.SHUTDOWN)
            raise
        if attempt.cancelled():
            return BrokerUnreachableError(f"the connection to {address} was closed")
        error = attempt.exception()
        if isinstance(error, ClientError):
            error.__context__ = None  # it has the frames of the login, with its secrets
            return error.with_traceback(None)
        return attempt.result()

    async def _connect(self, address: Address) -> BrokerConnection:
        settings = self._settings
        connection = BrokerConnection(
            address.host,
            address.port,
            client_id=settings.client_id,
            request_timeout_ms=settings.request_timeout_s * 1000,
            max_idle_ms=settings.idle_timeout_s * 1000,
            logins=self._logins,
            kdc_timeout_s=settings.connect_timeout_s * _SHARE_OF_KDC,
            **self._security.options(),
        )
        try:
            async with asyncio.timeout(settings.connect_timeout_s):
                _, writer = await connection.connect()
            # As Java's client: the system finds out that a broker has vanished while it is idle.
            transport_socket = writer.get_extra_info("socket")
            if transport_socket is not None:  # otherwise TLS has ended already
                transport_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except asyncio.CancelledError:
            self._discard(connection, CloseReason.SHUTDOWN)
            raise
        except Exception as error:
            self._discard(connection, CloseReason.AUTH_FAILURE)
            self._fail([address])
            raise self._connect_error(address, error) from None
        self._failed_at.pop(address, None)
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
        # Of aiokafka's mechanisms: a server that cannot prove itself.
        return LoginError(f"{address}: the login failed: {type(error).__name__}")


def _place(connection: BrokerConnection) -> str:
    return f"{connection.host}:{connection.port}"

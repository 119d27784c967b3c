"""Accepts connections, within the connection limits of a Kafka broker."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import socket
import ssl
from collections import Counter
from functools import partial
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Final

import structlog

from penstock.configuration import Address
from penstock.engine.not_now import unusable_by
from penstock.gateway.listening.native_tls import NativeTls
from penstock.gateway.listening.proxy_protocol import (
    HEADER_S,
    EndedError,
    ProxyHeaderError,
    read_client,
    unmapped,
)
from penstock.gateway.listening.tls_connection import attach

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock.gateway.listening.shared_buffer import SharedBufferProtocol

log = structlog.get_logger()

TLS_HANDSHAKE_S: Final = 10.0
ACCEPTED_AT_ONCE: Final = 16
"""So many connections a listener accepts in one turn of the event loop."""
_UNRECOGNIZED_NAME: Final = bytes((21, 3, 3, 0, 2, 2, ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME))
"""A fatal alert (RFC 8446, 5.1 and 6), as before a server's first message: in plain text."""
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_NAME_REFUSED: Final = "CALLBACK_FAILED"
_BACKLOG: Final = 1024
_EXHAUSTED_WAIT_S: Final = 0.2
"""How long no connection is accepted after a failure for lack of resources."""


def bind(address: Address, key: str, file: Path) -> socket.socket:
    """Return a socket that listens on an address.

    Without a host, and on `::`, it accepts IPv4 and IPv6, as Kafka does.

    Args:
        address: The address; port 0 for a free one.
        key: The key that names the address, for errors.
        file: The configuration file, for errors.

    Raises:
        ConfigurationError: The address does not belong to this machine.
        NotNowError: The address is taken, its name does not resolve, or descriptors are too few.
    """
    host, port = address
    try:
        if _is_every_address(host):
            return _bind_both(port)
        family = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        text = f"{file}: {key}: cannot listen on {address}: {reason}"
        raise unusable_by(error, text) from None


def _is_every_address(host: str) -> bool:
    try:
        return not host or ip_address(host) == IPv6Address("::")
    except ValueError:
        return False


def _bind_both(port: int) -> socket.socket:
    """Return a socket that listens on all addresses, of IPv4 alone where there is no IPv6."""
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(
                ("::", port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True
            )
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
    return socket.create_server(("0.0.0.0", port), backlog=_BACKLOG)  # noqa: S104


class ConnectionLimits:
    """Limits the number of connections and the rate at which they are made (KIP-402, KIP-612).

    Attributes:
        count: The number of open connections.
    """

    def __init__(
        self,
        *,
        max_connections: int,
        per_ip: int,
        creation_rate: int,
        clock: Callable[[], float],
    ) -> None:
        """Make the limits of a gateway without connections.

        Args:
            max_connections: `max.connections`: no more are accepted until one closes.
            per_ip: `max.connections.per.ip`: further connections from the same address are closed.
            creation_rate: `max.connection.creation.rate`, per second: further connections wait.
            clock: Returns the monotonic time in seconds.
        """
        self._max_connections = max_connections
        self._per_ip = per_ip
        self._creation_s = 1 / creation_rate
        self._burst_s = 1.0
        self._clock = clock
        self._due = 0.0
        self.count = 0
        self._of_ip: Counter[str] = Counter()
        self._room = asyncio.Event()
        self._room.set()

    async def room(self) -> None:
        """Wait until another connection may be accepted."""
        if not self._room.is_set():
            log.warning("no more connections are accepted", max_connections=self._max_connections)
        await self._room.wait()
        # The connections of one second may be made in a burst; further connections are delayed.
        early = self._due - self._burst_s - self._clock()
        if early > 0:
            await asyncio.sleep(early)

    def opened(self, ip: str | None) -> bool:
        """Count a new connection; return whether it is within the limits.

        Args:
            ip: The client's address; None if it is not known yet. Then `identified` follows.
        """
        self._due = max(self._due, self._clock()) + self._creation_s
        if ip is not None and not self.identified(ip):
            return False
        self.count += 1
        if self.count >= self._max_connections:
            self._room.clear()
        return True

    def identified(self, ip: str) -> bool:
        """Count a connection from an address; return whether it is within the limit."""
        if self._of_ip[ip] >= self._per_ip:
            log.warning("too many connections from one address", ip=ip, max=self._per_ip)
            return False
        self._of_ip[ip] += 1
        return True

    def closed(self, ip: str | None) -> None:
        """Uncount a connection that is closed; without an address if it was never identified."""
        self.count -= 1
        if ip is not None:
            self._of_ip[ip] -= 1
            if not self._of_ip[ip]:
                del self._of_ip[ip]
        if self.count < self._max_connections:
            self._room.set()


class Listener:
    """A listening socket, and the task that accepts connections on it."""

    def __init__(
        self,
        listening: socket.socket,
        limits: ConnectionLimits,
        make: Callable[[Address, Callable[[], None]], SharedBufferProtocol],
        tls: ssl.SSLContext | NativeTls | None,
        *,
        proxied: bool = False,
    ) -> None:
        """Start to accept connections.

        Args:
            listening: A listening, non-blocking socket.
            limits: The limits of all listeners together.
            make: Returns the protocol of a connection. Its arguments are the client's address,
                and a function to be called when the connection is closed.
            tls: The TLS context, perhaps with that of native threads; None for connections without
                TLS.
            proxied: Whether connections begin with a header of the PROXY protocol, which has the
                client's address.
        """
        self.socket = listening
        self._limits = limits
        self._make = make
        self._native_tls = tls if isinstance(tls, NativeTls) else None
        self._tls = tls.context if isinstance(tls, NativeTls) else tls
        self._proxied = proxied
        self._loop = asyncio.get_running_loop()
        self._connecting: set[asyncio.Task[None]] = set()
        self._awaited: set[asyncio.Task[None] | None] = set()
        self._accepting = self._loop.create_task(self._accept())

    async def close(self) -> None:
        """Stop accepting; open connections stay open, those in a handshake are closed."""
        self._accepting.cancel()
        await asyncio.gather(self._accepting, return_exceptions=True)
        for task in self._connecting & self._awaited:
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)
        self.socket.close()

    async def _accept(self) -> None:
        for tried in itertools.count(1):
            if not tried % ACCEPTED_AT_ONCE:
                # Where connections wait, they are accepted without a turn for anybody else.
                await asyncio.sleep(0)
            await self._limits.room()
            try:
                connection, peer = await self._loop.sock_accept(self.socket)
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    reason = error.strerror or str(error)
                    log.error("connections cannot be accepted", reason=reason)
                    await asyncio.sleep(_EXHAUSTED_WAIT_S)
                continue
            connection.setblocking(False)
            address = Address(unmapped(str(peer[0])), int(peer[1]))
            if not self._limits.opened(None if self._proxied else address.host):
                connection.close()
                continue
            task = self._loop.create_task(self._connect(connection, address))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _connect(self, connection: socket.socket, peer: Address) -> None:
        """Attach a protocol to a connection, after the TLS handshake if there is one."""
        is_open = True
        ip = None if self._proxied else peer.host

        def closed() -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                self._limits.closed(ip)

        try:
            if self._proxied:
                with self._client_awaited():
                    client_address = await _client_of(connection, peer)
                if client_address is None or not self._limits.identified(client_address.host):
                    connection.close()
                    closed()
                    return
                peer, ip = client_address, client_address.host
            make = partial(self._make, peer, closed)
            if self._tls is None:
                await self._loop.connect_accepted_socket(make, connection)
            else:
                with self._client_awaited():
                    await self._shake_hands(connection, self._tls, make)
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            log.info("closing a connection", side="client", peer=peer.host, reason=_text_of(error))
            connection.close()
            closed()
        except BaseException:
            connection.close()
            closed()
            raise

    async def _shake_hands(
        self,
        connection: socket.socket,
        tls: ssl.SSLContext,
        make: Callable[[], SharedBufferProtocol],
    ) -> None:
        """Attach a protocol after the handshake."""
        ends = self._loop.time() + TLS_HANDSHAKE_S
        if self._native_tls is not None:
            limit = asyncio.timeout_at(ends)
            try:
                async with limit:
                    accepted = await self._native_tls.accept(connection)
                    if accepted is not None:
                        await attach(connection, accepted, tls, make)
                        return
            except TimeoutError:
                if not limit.expired():
                    raise  # of the connection
                raise ConnectionAbortedError(  # as event loops do
                    f"SSL handshake is taking longer than {TLS_HANDSHAKE_S} seconds: "
                    "aborting the connection"
                ) from None
        timeout_s = max(round(ends - self._loop.time(), 1), 0.1)
        with _alerting(tls, connection):
            await self._loop.connect_accepted_socket(
                make, connection, ssl=tls, ssl_handshake_timeout=timeout_s
            )

    @contextlib.contextmanager
    def _client_awaited(self) -> Iterator[None]:
        """Let `close` cancel the task meanwhile: it waits for the client.

        Nothing else may be cancelled: an event loop that was to attach a protocol closes the
        connection then, and does not notify the protocol.
        """
        task = asyncio.current_task()
        self._awaited.add(task)
        try:
            yield
        finally:
            self._awaited.discard(task)


@contextlib.contextmanager
def _alerting(tls: ssl.SSLContext, connection: socket.socket) -> Iterator[None]:
    """Send the alert where a handshake ends because of the name that the client wants.

    An event loop closes the connection without it. So it is sent over a second descriptor.
    """
    if tls.sni_callback is None:
        yield
        return
    with connection.dup() as again:
        try:
            yield
        except ssl.SSLError as error:
            if error.reason == _NAME_REFUSED:
                with contextlib.suppress(OSError):
                    again.send(_UNRECOGNIZED_NAME)
            raise


async def _client_of(connection: socket.socket, peer: Address) -> Address | None:
    """Return the address in the PROXY header of a connection; None if it is to be closed.

    A load balancer's own connections, such as health checks, have its own address.
    """
    try:
        async with asyncio.timeout(HEADER_S):
            return await read_client(connection) or peer
    except EndedError:
        return None  # a health check that only connects
    except TimeoutError:
        reason = f"it is not there after {HEADER_S:.0f} s"
    except ProxyHeaderError as error:
        reason = str(error)
    log.warning("closing a connection without a PROXY header", peer=peer.host, reason=reason)
    return None


def _text_of(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason == _NAME_REFUSED:
        return "TLS: the server name is not one of a broker"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}"
    return str(error) or type(error).__name__

"""Moves the bytes of one client and of its connection to a broker; `session` decides.

Back-pressure: whoever cannot take more stops the other side from being read, and so does a
client whose requests pile up behind a verdict.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import sys
import termios
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import structlog

from penstock.gateway.gateway_context import GatewayContext
from penstock.gateway.routes import route
from penstock.gateway.session import Session
from penstock.gateway.tls import peer_principal
from penstock.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from penstock.gateway.memory import Budget

log = structlog.get_logger()

WAITING_MAX_BYTES: Final = 4 * 2**20
"""A client is not read while more of it waits behind a verdict (one request may be larger)."""
SMALL_BYTES: Final = 16 * 1024
"""Less than this is not counted at once, but with the next look at all clients."""
WRITE_BUFFER_BYTES: Final = 256 * 1024
CONNECT_TIMEOUT_S: Final = 10.0
HALF_CLOSED_S: Final = 10.0
"""So long answers are awaited for a client that says nothing more; a broker does not wait."""
FLUSH_TIMEOUT_S: Final = 30.0
"""So long a client may take to read its last answers."""
_TCP_CLOSE: Final = 7
_TCP_CLOSE_WAIT: Final = 8
_TLS_BYTES: Final = 2**20
"""What may be on its way between the kernel and us."""


class Phase(Enum):
    """How far a client's connection has come."""

    CONNECTING = auto()
    """There is no connection to its broker yet."""
    OPEN = auto()
    ENDING = auto()
    """What is in flight is answered, nothing new is taken."""
    CLOSED = auto()
    """Both connections are to be closed; what was written may still be flushed."""


TRANSITIONS: Final[dict[Phase, frozenset[Phase]]] = {
    Phase.CONNECTING: frozenset({Phase.OPEN, Phase.ENDING, Phase.CLOSED}),
    Phase.OPEN: frozenset({Phase.ENDING, Phase.CLOSED}),
    Phase.ENDING: frozenset({Phase.ENDING, Phase.CLOSED}),
    Phase.CLOSED: frozenset({Phase.CLOSED}),
}


class ServerContext(GatewayContext, Protocol):
    """What the shell of a connection needs of the gateway, besides what its requests need."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop."""

    @property
    def connections(self) -> set[ClientConnection]:
        """The open connections of clients."""

    @property
    def budget(self) -> Budget:
        """The memory that all clients may take."""

    @property
    def request_max_bytes(self) -> int:
        """The largest request (`socket.request.max.bytes`)."""

    def connect_upstream(
        self, node: int | None, protocol: asyncio.Protocol
    ) -> Coroutine[Any, Any, asyncio.Transport | None]:
        """Connect to a broker, or to any for the bootstrap address; None when none answers."""


class BrokerConnection(asyncio.Protocol):
    """The broker's side."""

    def __init__(self, client: ClientConnection) -> None:
        self._client = client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The broker accepted."""
        self._client.broker_connected(cast("asyncio.Transport", transport))

    def data_received(self, data: bytes) -> None:
        """The broker sent something."""
        self._client.broker_data_received(data)

    def pause_writing(self) -> None:
        """The broker takes no more for now."""
        self._client.pause("broker")

    def resume_writing(self) -> None:
        """The broker takes more."""
        self._client.resume("broker")
        self._client.account()

    def connection_lost(self, _: Exception | None) -> None:
        """The broker is gone."""
        self._client.broker_disconnected()


class ClientConnection(asyncio.Protocol):
    """The client's side, and the owner of both."""

    def __init__(
        self, gateway: ServerContext, node: int | None, on_closed: Callable[[], None]
    ) -> None:
        """Make one for an accepted connection.

        Args:
            gateway: Who accepted it.
            node: The broker it is meant for; None for the bootstrap address.
            on_closed: Called when the client's connection is closed.
        """
        self._on_closed = on_closed
        self._gateway = gateway
        self._node = node
        self._upstream: asyncio.Transport | None = None
        self._session: Session | None = None
        self._early = b""
        self.held_bytes = 0
        self._pauses: set[str] = set()
        self._phase = Phase.CONNECTING
        self._open_connections = 0
        self._half_closed: asyncio.TimerHandle | None = None
        self.since = self.last_active = gateway.loop.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected: connect to its broker, then read it."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)
        self._open_connections += 1
        self._gateway.connections.add(self)
        self.pause("connecting")
        self._connecting = self._gateway.loop.create_task(self._connect())

    @property
    def is_established(self) -> bool:
        """Whether it has sent a whole request, and authenticated where it has to."""
        return self._session is not None and self._session.is_established

    @property
    def missing_bytes(self) -> int:
        """How much of the request that is being read has not come."""
        return self._session.missing_bytes if self._session is not None else 0

    def _become(self, phase: Phase) -> None:
        assert phase in TRANSITIONS[self._phase], f"{self._phase.name} to {phase.name}"
        self._phase = phase

    async def _connect(self) -> None:
        transport = await self._gateway.connect_upstream(self._node, BrokerConnection(self))
        if transport is None:
            self.close()
            return
        if self._phase is Phase.CLOSED:
            transport.close()
            return
        self._session = Session(
            self._gateway,
            route,
            client=_Writer(self._transport),
            upstream=_Writer(transport),
            request_max_bytes=self._gateway.request_max_bytes,
            on_done=self.close,
            on_progress=self._progress,
            certificate_principal=peer_principal(self._transport),
        )
        if self._early:
            early, self._early = self._early, b""
            self.data_received(early)
        if self._phase is Phase.ENDING:
            self._session.end()
        elif self._phase is Phase.CONNECTING:
            self._become(Phase.OPEN)
        self.resume("connecting")

    def data_received(self, data: bytes) -> None:
        """The client sent something."""
        self.last_active = self._gateway.loop.time()
        session = self._session
        if session is None:
            # uvloop begins to read after connection_made, whatever was paused there.
            self._early += data
            self._transport.pause_reading()
            return
        try:
            session.client_data(data)
        except WireError as error:
            self._protocol_error("client", error)
            return
        except Exception:
            log.exception("closing a connection after an error of the gateway")
            self.close()
            return
        if session.is_suspended:
            self.pause("suspended")
        else:
            self.resume("suspended")
        held = session.held_bytes
        if held > SMALL_BYTES or self.held_bytes:
            if session.waiting_bytes > WAITING_MAX_BYTES:
                self.pause("waiting")
            self.account()

    def account(self) -> None:
        """Tell the budget how much is held for this client."""
        if self._session is None or self._phase is Phase.CLOSED:
            return
        held = self._session.held_bytes + self._transport.get_write_buffer_size()
        if self._upstream is not None:
            held += self._upstream.get_write_buffer_size()
        self._gateway.budget.holds(self, held)

    def broker_data_received(self, data: bytes) -> None:
        """The broker sent something."""
        self.last_active = self._gateway.loop.time()
        if self._session is None or self._phase is Phase.CLOSED:
            return
        try:
            self._session.upstream_data(data)
        except WireError as error:
            self._protocol_error("broker", error)
        except Exception:
            log.exception("closing a connection after an error of the gateway")
            self.close()
        if self.held_bytes:
            self.account()

    def _progress(self) -> None:
        if "suspended" in self._pauses and self._session and not self._session.is_suspended:
            self._gateway.loop.call_soon(self.data_received, b"")  # what was put aside
        if self._session is not None and self._session.waiting_bytes <= WAITING_MAX_BYTES:
            self.resume("waiting")
        if self.held_bytes:
            self.account()

    def _protocol_error(self, side: str, error: WireError) -> None:
        log.warning("closing a connection", side=side, peer=self._peer(), reason=str(error))
        self.close()

    def _peer(self) -> str:
        peer = self._transport.get_extra_info("peername")
        return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else ""

    def pause(self, reason: str) -> None:
        """Stop reading the client."""
        if not self._pauses and not self._transport.is_closing():
            self._transport.pause_reading()
        self._pauses.add(reason)

    def resume(self, reason: str) -> None:
        """Read the client again, if nothing else is against it."""
        if reason in self._pauses:
            self._pauses.discard(reason)
            if not self._pauses and not self._transport.is_closing():
                self._transport.resume_reading()

    def pause_writing(self) -> None:
        """The client takes no more answers for now: it is not read either."""
        self.pause("unread")
        self.account()
        if self._upstream is not None and not self._upstream.is_closing():
            self._upstream.pause_reading()

    def resume_writing(self) -> None:
        """The client takes more."""
        self.resume("unread")
        self.account()
        if self._upstream is not None and not self._upstream.is_closing():
            self._upstream.resume_reading()

    def eof_received(self) -> bool:
        """Nothing more comes from the client, but it may still read answers."""
        self._client_disconnected()
        self._start_half_closed_timer()
        return self._transport.get_extra_info("sslcontext") is None  # TLS has no half-closing

    def _start_half_closed_timer(self) -> None:
        later = self._gateway.loop.call_later
        self._half_closed = later(HALF_CLOSED_S, self._close_half_closed)

    def _close_half_closed(self) -> None:
        """Wait no longer for answers that are of no use but to the client, which may be gone."""
        if self._phase is Phase.CLOSED or self._session is None:
            return
        if self._session.serves_client_only:
            self.close()
        else:
            self._start_half_closed_timer()

    def connection_lost(self, _: Exception | None) -> None:
        """The client is gone."""
        if self._phase is Phase.CLOSED:
            self._gateway.budget.left(self)
        self._on_closed()
        self.resume_writing()
        self._client_disconnected()
        if self._session is not None and self._session.serves_client_only:
            self.close()
        if self._upstream is None or self._upstream.is_closing():
            self._gateway.connections.discard(self)
        self._side_closed()

    def check(self) -> None:
        """Count what is held; find out whether a client is gone that is not read.

        Who is not read cannot be heard to go.
        """
        self.account()
        if not self._pauses or self._session is None or self._phase is Phase.CLOSED:
            return
        state = tcp_state(self._transport)
        if state == _TCP_CLOSE:
            self.abort()
        elif state == _TCP_CLOSE_WAIT:
            self._session.cancel_waiting()
            is_tls = self._transport.get_extra_info("sslcontext") is not None
            on_its_way = readable_bytes(self._transport) + is_tls * _TLS_BYTES
            if self._session.missing_bytes > on_its_way:
                self._client_disconnected()  # the rest of its request will never come
            self.account()

    def _client_disconnected(self) -> None:
        if self._phase is Phase.CLOSED:
            return
        if self._session is None:
            self.close()
        else:
            self._session.client_disconnected()

    def broker_connected(self, transport: asyncio.Transport) -> None:
        """The connection to the broker is open."""
        self._open_connections += 1
        self._upstream = transport
        self._upstream.set_write_buffer_limits(WRITE_BUFFER_BYTES)

    def broker_disconnected(self) -> None:
        """The broker closed the connection: so do we, after sending what it had answered."""
        self.close()
        self._gateway.connections.discard(self)
        self._side_closed()

    def _side_closed(self) -> None:
        """Let go of the session when both are closed: the garbage collector may be long."""
        self._open_connections -= 1
        if not self._open_connections:
            self._session = None
            if self._half_closed is not None:
                self._half_closed.cancel()

    def end(self) -> None:
        """Answer what is in flight, then close."""
        if self._phase is not Phase.CLOSED:
            self._become(Phase.ENDING)
        if self._session is not None:
            self._session.end()

    def close(self) -> None:
        """Close both connections after flushing what was written to them."""
        if self._phase is Phase.CLOSED:
            return
        self._become(Phase.CLOSED)
        self._gateway.budget.left(self)
        if self._session is not None:
            self._session.closed()
        self._transport.close()
        if unread := self._transport.get_write_buffer_size():
            self._gateway.budget.holds(self, unread)
            self._gateway.loop.call_later(FLUSH_TIMEOUT_S, self._transport.abort)
        if self._upstream is not None:
            self._upstream.close()
        else:
            self._gateway.connections.discard(self)

    def abort(self) -> None:
        """Close both connections at once."""
        self._become(Phase.CLOSED)
        self._gateway.budget.left(self)
        if self._session is not None:
            self._session.closed()
        self._transport.abort()
        if self._upstream is not None:
            self._upstream.abort()
        self._gateway.connections.discard(self)


def tcp_state(transport: asyncio.Transport) -> int:
    """Return the state of a connection as Linux numbers them; 0 where that is not told."""
    given = transport.get_extra_info("socket")
    if given is None or not hasattr(socket, "TCP_INFO"):
        return 0
    try:
        told = given.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    except OSError:
        return 0
    return int(told[0])


def readable_bytes(transport: asyncio.Transport) -> int:
    """Return how much has come over a connection and is not read, as far as the kernel knows."""
    told = fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.FIONREAD, bytes(4))
    return int.from_bytes(told, sys.byteorder)


class _Writer:
    """Writes to a transport as long as it is open."""

    __slots__ = ("_transport",)

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def write(self, data: bytes | memoryview) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def writelines(self, data: Iterable[bytes | memoryview]) -> None:
        if not self._transport.is_closing():
            self._transport.writelines(list(data))

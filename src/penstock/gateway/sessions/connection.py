"""The sockets of a session: a client's connection, and the gateway's connection to the broker.

Back-pressure: while one side cannot be written to, the other side is not read. A client is also
not read while too many of its bytes wait for a verdict, or all clients hold too much memory. In
that case the broker is not read either while its response is collected: a client can make it send a
thousand times as much as it has sent itself. Nor is it read during work on its last request.

While nothing on a connection needs Python, native threads have its sockets (`lane`): the transports
are paused. Any other work on the connection takes it back first.

A client whose broker, or gateway, is lost before its first response gets a reset (`resets`).

The broker is connected to when the client's first bytes are there: whoever only connects costs the
brokers nothing. A client that does not send its request, or stops within it, is closed
(`request_rate`).
"""

from __future__ import annotations

import sys
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import structlog

from penstock.gateway.listening.shared_buffer import SharedBufferProtocol
from penstock.gateway.listening.tls import peer_principal
from penstock.gateway.listening.tls_connection import TlsConnection
from penstock.gateway.observing.metrics.measured_gateway import ConnectionState
from penstock.gateway.produce.gateway import KnownTopics
from penstock.gateway.sessions.connection_age import ConnectionAge
from penstock.gateway.sessions.gateway import RequestGateway
from penstock.gateway.sessions.memory import FEW_BYTES, READ_BYTES
from penstock.gateway.sessions.request_rate import RequestRate
from penstock.gateway.sessions.resets import reset_on_close
from penstock.gateway.sessions.routes import route
from penstock.gateway.sessions.session import UNANSWERED_BYTES, Session
from penstock.gateway.sessions.transports import (
    ClientWriter,
    TransportWriter,
    is_plain,
    readable_bytes,
    socket_number,
    tcp_state,
)
from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.frames import LENGTH_BYTES, REQUEST_HEAD_BYTES

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from penstock.configuration import Address
    from penstock.engine.workers.gathered_writes import GatheredWrites
    from penstock.gateway.sessions.between import Figures, GivenBack
    from penstock.gateway.sessions.memory import Budget

log = structlog.get_logger()

WAITING_MAX_BYTES: Final = 4 * 2**20
"""A client is not read while more of its bytes wait for a verdict (one request may be larger)."""
SMALL_BYTES: Final = 16 * 1024
"""Less than this is not counted at once, but with the next check of all connections."""
WRITE_BUFFER_BYTES: Final = 256 * 1024
HALF_CLOSED_S: Final = 10.0
"""How long responses are awaited for a client that has closed its side; a broker does not wait."""
FLUSH_TIMEOUT_S: Final = 30.0
"""How long a client may take to read its last responses, and a broker its last requests."""
LINGER_S: Final = 5.0
"""How long a client may take to close its side after the end of a connection that is old."""
_FIRST_TRY: Final = 4
"""A connection is passed to the lane after so many reads. If it is not taken, or comes back soon,
it waits longer."""
_LAST_TRY: Final = 1024
_WORTH_IT: Final = 8
"""So many requests have to be forwarded natively, so that giving a connection away pays."""
_TCP_CLOSE: Final = 7
_TCP_CLOSE_WAIT: Final = 8
_TLS_BYTES: Final = 2**20
"""The most bytes that may be buffered between the kernel and the session."""


class ConnectionPhase(Enum):
    """The phase of a client's connection."""

    CONNECTING = auto()
    """The connection to the broker is not open yet."""
    OPEN = auto()
    ENDING = auto()
    """Requests in flight get their responses; no further requests are accepted."""
    CLOSED = auto()
    """Both connections are closed, or closing after the written bytes have been flushed."""


TRANSITIONS: Final[dict[ConnectionPhase, frozenset[ConnectionPhase]]] = {
    ConnectionPhase.CONNECTING: frozenset(
        {ConnectionPhase.OPEN, ConnectionPhase.ENDING, ConnectionPhase.CLOSED}
    ),
    ConnectionPhase.OPEN: frozenset({ConnectionPhase.ENDING, ConnectionPhase.CLOSED}),
    ConnectionPhase.ENDING: frozenset({ConnectionPhase.ENDING, ConnectionPhase.CLOSED}),
    ConnectionPhase.CLOSED: frozenset({ConnectionPhase.CLOSED}),
}


class NativeThreads(KnownTopics, Protocol):
    """Forward connections while nothing on them needs Python; see `lane`."""

    def adopt(
        self,
        owner: ClientConnection,
        session: Session,
        client: int,
        broker: int,
        from_client: bytes,
        from_broker: bytes,
        client_tls: Any | None = None,
        broker_tls: Any | None = None,
    ) -> int | None:
        """Take a connection over; return its number there, or None if it has to stay.

        Args:
            client: The client's socket.
            broker: The broker's socket.
            from_client: Bytes that were just received from the client.
            from_broker: Bytes that were just received from the broker.
            client_tls: The native end of the TLS on the client's socket.
            broker_tls: The same of the broker's socket.
        """

    def take(self, number: int) -> GivenBack:
        """Give a connection back."""

    def figures(self, number: int) -> Figures:
        """Return the state of a connection that they have."""

    def make_room(self) -> None:
        """Give a connection back if a new connection needs its descriptors."""


class ServerContext(RequestGateway, Protocol):
    """The part of the gateway that connections use, in addition to what requests use."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop."""

    @property
    def lane(self) -> NativeThreads | None:
        """Forwards connections natively; None without the native lane."""

    @property
    def connections(self) -> set[ClientConnection]:
        """The open connections of clients."""

    @property
    def writes(self) -> GatheredWrites:
        """Gathers writes of the event loop."""

    @property
    def budget(self) -> Budget:
        """The memory budget of all clients."""

    @property
    def read_buffer(self) -> memoryview:
        """The memory into which a connection is read; it is copied from there at once."""

    @property
    def request_max_bytes(self) -> int:
        """The largest request that is accepted (`socket.request.max.bytes`)."""

    @property
    def connection_max_age_s(self) -> float:
        """The age at which a connection is closed (`connections.max.age.ms`); infinite if never."""

    @property
    def request_min_bytes_per_second(self) -> int:
        """The least rate of a request (`socket.request.min.bytes.per.second`)."""

    def connect_upstream(
        self, node: int | None, protocol: SharedBufferProtocol
    ) -> Coroutine[Any, Any, asyncio.Transport | None]:
        """Connect to a broker, or to any of them if `node` is None; return None if it fails."""


_STATES: Final = {
    ConnectionPhase.CONNECTING: ConnectionState.CONNECTING,
    ConnectionPhase.OPEN: ConnectionState.OPEN,
    ConnectionPhase.ENDING: ConnectionState.ENDING,
    ConnectionPhase.CLOSED: ConnectionState.CLOSING,
}


def _may_be_native(transport: asyncio.BaseTransport) -> bool:
    """Return whether native threads can have a connection."""
    return isinstance(transport, TlsConnection) or is_plain(transport)


def _tls_library(transport: asyncio.BaseTransport) -> str:
    if isinstance(transport, TlsConnection):
        return "rustls"
    return "" if is_plain(transport) else "openssl"


class UpstreamConnection(SharedBufferProtocol):
    """The gateway's connection to a broker."""

    def __init__(self, client: ClientConnection, read_buffer: memoryview) -> None:
        self._client = client
        self.read_buffer = read_buffer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handle the open connection."""
        self._client.broker_connected(cast("asyncio.Transport", transport))

    def data_received(self, data: bytes) -> None:
        """Handle bytes from the broker."""
        self._client.broker_data_received(data)

    def pause_writing(self) -> None:
        """Stop reading the client: the write buffer to the broker is full."""
        self._client.pause("broker")

    def resume_writing(self) -> None:
        """Read the client again."""
        self._client.resume("broker")
        self._client.account()

    def connection_lost(self, _: Exception | None) -> None:
        """Handle the end of the connection."""
        self._client.broker_disconnected()


class ClientConnection(SharedBufferProtocol):
    """A client's connection, and the owner of the connection to the broker.

    Attributes:
        held_bytes: The bytes that the budget counts for the client.
        since: When the client connected, by the clock of the event loop.
    """

    def __init__(
        self,
        gateway: ServerContext,
        node_of: Callable[[asyncio.BaseTransport], int | None],
        peer: Address,
        on_closed: Callable[[], None],
    ) -> None:
        """Make the protocol of an accepted connection.

        Args:
            node_of: Returns the node id of the broker; None for the bootstrap address.
            peer: The client's address, which is not that of a load balancer in between.
            on_closed: Called when both connections are closed. A client that has gone counts until
                the broker has the received requests without a response (acks=0).
        """
        self._on_closed = on_closed
        self._gateway = gateway
        self.read_buffer = gateway.read_buffer
        self._node_of = node_of
        self._peer = peer
        self._upstream: asyncio.Transport | None = None
        self._session: Session | None = None
        self._early = b""
        self._connecting: asyncio.Task[None] | None = None
        self.held_bytes = 0
        self._pauses: set[str] = set()
        self._broker_pauses: set[str] = set()
        self._phase = ConnectionPhase.CONNECTING
        self._open_connections = 0
        self._is_lost = False
        self._half_closed: asyncio.TimerHandle | None = None
        self._broker_tls: TlsConnection | None = None
        self._lane: NativeThreads | None = None
        self._lane_number: int | None = None
        self._reads = 0
        self._reads_until_try = _FIRST_TRY
        self._was_blocked = False
        self.since = self._last_active = self._unread_since = gateway.loop.time()
        self._unread_s = 0.0
        self._received = 0
        self._age = ConnectionAge(gateway.connection_max_age_s, self.since)
        self._lingers = False
        self._rate = RequestRate(gateway.request_min_bytes_per_second, self.since)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the client's first bytes."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)
        self._tls = transport if isinstance(transport, TlsConnection) else None
        self._client = ClientWriter(self._transport, self._gateway.writes)
        self._open_connections += 1
        self._gateway.connections.add(self)
        if self._gateway.lane is not None:
            self._gateway.lane.make_room()

    @property
    def is_established(self) -> bool:
        """Whether the client has sent a complete request, and authenticated if required."""
        return self._session is not None and self._session.is_established

    @property
    def state(self) -> ConnectionState:
        """The state, in the words of metrics."""
        if self._phase is ConnectionPhase.OPEN and (self._pauses or self._is_blocked_natively):
            return ConnectionState.PAUSED
        return _STATES[self._phase]

    @property
    def tls_library(self) -> str:
        """The library that has the TLS of the connection; empty without TLS."""
        return _tls_library(self._transport)

    @property
    def broker_tls_library(self) -> str:
        """The same of the connection to the broker, if there is one."""
        return _tls_library(self._upstream) if self._upstream is not None else ""

    @property
    def _native_tls(self) -> list[TlsConnection]:
        """The TLS of both connections that native threads may have."""
        return [tls for tls in (self._tls, self._broker_tls) if tls is not None]

    @property
    def _is_blocked_natively(self) -> bool:
        lane, number = self._lane, self._lane_number
        return lane is not None and number is not None and lane.figures(number).is_blocked

    @property
    def missing_bytes(self) -> int:
        """The bytes of its request or response that are held, but have not been received yet."""
        if self._session is None:
            return 0
        if self._lane is not None and self._lane_number is not None:
            return self._lane.figures(self._lane_number).missing_bytes
        return self._session.missing_bytes + self._session.missing_answer_bytes

    @property
    def remembered_bytes(self) -> int:
        """What the names of topics take that are known on the connection."""
        return self._session.topics.held_bytes if self._session is not None else 0

    @property
    def has_stalled(self) -> bool:
        """Whether its request is read, and comes much slower than before."""
        self._look()
        return self._rate.has_stalled and not self._is_unread

    @property
    def has_unread(self) -> bool:
        """Whether there are responses that the client has not read."""
        return self._transport.get_write_buffer_size() > 0

    @property
    def _is_unread(self) -> bool:
        """Whether there are bytes of the client that the gateway has not read."""
        return not self._transport.is_closing() and readable_bytes(self._transport) > 0

    def _look(self) -> None:
        """Note how much of the client's request has been received."""
        if self._session is None:
            return
        now = self._gateway.loop.time()
        unread_s, received, remaining_bytes = (
            self._unread_s,
            self._received,
            self._session.left_bytes,
        )
        if self._pauses:
            unread_s += now - self._unread_since
        if self._lane is not None and self._lane_number is not None:
            figures = self._lane.figures(self._lane_number)
            unread_s += figures.unread_s
            received += figures.received
            remaining_bytes = figures.request_left
        elif remaining_bytes is None and self._tls is not None and self._tls.tls.has_part:
            remaining_bytes = REQUEST_HEAD_BYTES
        end = received + remaining_bytes if remaining_bytes is not None else None
        self._rate.look(now, now - self.since - unread_s, received, end)

    @property
    def last_active(self) -> float:
        """When bytes were received last, from either side."""
        if self._lane is not None and self._lane_number is not None:
            return max(self._last_active, self._lane.figures(self._lane_number).last_active)
        return self._last_active

    def _become(self, phase: ConnectionPhase) -> None:
        assert phase in TRANSITIONS[self._phase], f"{self._phase.name} to {phase.name}"
        self._phase = phase

    async def _connect(self) -> None:
        node = self._node_of(self._transport)
        upstream = UpstreamConnection(self, self._gateway.read_buffer)
        transport = await self._gateway.connect_upstream(node, upstream)
        if transport is None:
            self._is_lost = True
            self.close()
            return
        if self._phase is ConnectionPhase.CLOSED:
            transport.close()
            return
        self._session = Session(
            self._gateway,
            route,
            client=self._client,
            upstream=TransportWriter(transport, self._gateway.writes),
            request_max_bytes=self._gateway.request_max_bytes,
            on_done=self.close,
            on_progress=self._progress,
            certificate_principal=peer_principal(self._transport),
            address=self._peer.host,
            node=node,
        )
        if all(map(_may_be_native, (self._transport, transport))):
            self._lane = self._gateway.lane
        early, self._early = self._early, b""
        self._received -= len(early)
        self.data_received(early)
        if self._phase is ConnectionPhase.ENDING:
            self._session.end()
        elif self._phase is ConnectionPhase.CONNECTING:
            self._become(ConnectionPhase.OPEN)
        self.resume("connecting")

    def get_buffer(self, _: int) -> memoryview:
        """Return the memory to read into: as much of it as may be held of the client."""
        budget, session = self._gateway.budget, self._session
        if session is None:
            return self.read_buffer[:FEW_BYTES]
        if not budget.is_short:
            return self.read_buffer
        most = max(budget.readable_bytes(self), session.forwarded_bytes)
        return self.read_buffer[: min(most, READ_BYTES)]

    def data_received(self, data: bytes) -> None:
        """Handle bytes from the client."""
        self._last_active = self._gateway.loop.time()
        self._received += len(data)
        session = self._session
        if session is None:
            self._early += data
            self.pause("connecting")
            if self._connecting is None and self._phase is ConnectionPhase.CONNECTING:
                self._connecting = self._gateway.loop.create_task(self._connect())
            return
        self._reads += 1
        if self._reads >= self._reads_until_try and self._move_to_lane(data, b""):
            return
        try:
            if _has_several(data):
                self._gateway.writes.during(partial(session.client_data, data))
            else:
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
        held_bytes = session.held_bytes
        if (
            held_bytes > SMALL_BYTES
            or self.held_bytes
            or (held_bytes and self._gateway.budget.is_short)
        ):
            if session.waiting_bytes > WAITING_MAX_BYTES:
                self.pause("waiting")
            self.account()

    # Native threads

    def _move_to_lane(self, from_client: bytes, from_broker: bytes) -> bool:
        """Give the connection and the received bytes to the lane; return whether it has it."""
        session, upstream, lane = self._session, self._upstream, self._lane
        if lane is None or session is None or upstream is None:
            self._reads, self._reads_until_try = 0, sys.maxsize
            return False
        if session.holds_a_part:
            return False  # of a large request, which is read in many parts: the next one is tried
        self._reads = 0
        if (
            self._phase is not ConnectionPhase.OPEN
            or self._pauses
            or self._broker_pauses
            or self._half_closed is not None
            or not self._client.has_written
            or self._transport.is_closing()
            or any(tls.has_unread for tls in self._native_tls)
            or upstream.is_closing()
            or self._transport.get_write_buffer_size()
            or upstream.get_write_buffer_size()
            or not session.can_leave
        ):
            return False
        number = lane.adopt(
            self,
            session,
            socket_number(self._transport),
            socket_number(upstream),
            from_client,
            from_broker,
            self._tls.tls if self._tls is not None else None,
            self._broker_tls.tls if self._broker_tls is not None else None,
        )
        if number is None:
            self._set_next_try(0)
            return False
        self._transport.pause_reading()
        upstream.pause_reading()
        self._lane_number = number
        self._was_blocked = False
        self.account()
        return True

    def take_back(self) -> None:
        """Take the connection back from the lane, if it has it, and continue."""
        number, lane = self._lane_number, self._lane
        session, upstream = self._session, self._upstream
        if number is None or lane is None or session is None or upstream is None:
            return
        self._lane_number = None
        lane_state = lane.take(number)
        self._set_next_try(lane_state.forwarded)
        self._received += lane_state.received - len(lane_state.from_client)
        self._unread_s += lane_state.unread_s
        session.enter(lane_state.between)
        if lane_state.early:
            session.put_early_outcomes(lane_state.early_outcomes())
        for tls in self._native_tls:
            tls.returned()
        for transport, pauses in ((self._transport, self._pauses), (upstream, self._broker_pauses)):
            if not pauses and not transport.is_closing():
                transport.resume_reading()
        self._process(lane_state, upstream)
        self.account()

    def _process(self, lane_state: GivenBack, upstream: asyncio.Transport) -> None:
        """Process the bytes that the lane has left."""
        if lane_state.to_client:
            self._client.write(lane_state.to_client)
        if lane_state.to_broker and not upstream.is_closing():
            upstream.write(lane_state.to_broker)
        if lane_state.from_broker:
            if self._session is not None:
                self._session.has_received_more = bool(lane_state.from_client)
            self.broker_data_received(lane_state.from_broker)
            if self._session is not None:
                self._session.has_received_more = False
        if lane_state.from_client:
            self.data_received(lane_state.from_client)
        if lane_state.client_failed:
            self._transport.abort()
        if lane_state.broker_failed:
            upstream.abort()

    def _set_next_try(self, forwarded: int) -> None:
        tries = _FIRST_TRY if forwarded >= _WORTH_IT else 2 * self._reads_until_try
        self._reads_until_try = min(tries, _LAST_TRY)

    def _account_lane(self, lane: NativeThreads, number: int, session: Session) -> None:
        figures = lane.figures(number)
        held_bytes = (
            figures.held_bytes + figures.unanswered * UNANSWERED_BYTES + session.topics.held_bytes
        )
        self._gateway.budget.set_held_bytes(self, held_bytes)

    def account(self) -> None:
        """Report to the budget how many bytes are held for this client."""
        if self._session is None or self._phase is ConnectionPhase.CLOSED:
            return
        if self._lane is not None and self._lane_number is not None:
            self._account_lane(self._lane, self._lane_number, self._session)
            return
        held_bytes = self._session.held_bytes + self._transport.get_write_buffer_size()
        held_bytes += sum(tls.held_bytes for tls in self._native_tls)
        if self._upstream is not None:
            held_bytes += self._upstream.get_write_buffer_size()
        self._gateway.budget.set_held_bytes(self, held_bytes)
        if "memory" in self._pauses:
            self._pause_answer()

    def broker_data_received(self, data: bytes) -> None:
        """Handle bytes from the broker."""
        self._last_active = self._gateway.loop.time()
        session = self._session
        if session is None or self._phase is ConnectionPhase.CLOSED:
            return
        if self._reads >= self._reads_until_try and self._move_to_lane(b"", data):
            return
        try:
            if _has_several(data):
                self._gateway.writes.during(partial(session.upstream_data, data))
            else:
                session.upstream_data(data)
        except WireError as error:
            self._protocol_error("broker", error)
        except Exception:
            log.exception("closing a connection after an error of the gateway")
            self.close()
        if session.is_answering:
            self.pause_broker("work")
        if self.held_bytes or session.answer_bytes > SMALL_BYTES:
            self.account()

    def _progress(self) -> None:
        if "work" in self._broker_pauses and self._session and not self._session.is_answering:
            self.resume_broker("work")
            self._gateway.loop.call_soon(self.broker_data_received, b"")  # the buffered bytes
        if "memory" in self._pauses and self._session is not None:
            self._session.forget_topics()
        if "suspended" in self._pauses and self._session and not self._session.is_suspended:
            self._gateway.loop.call_soon(self.data_received, b"")  # process the buffered bytes
        if self._session is not None and self._session.waiting_bytes <= WAITING_MAX_BYTES:
            self.resume("waiting")
        if self.held_bytes:
            self.account()

    def _protocol_error(self, side: str, error: WireError) -> None:
        log.warning("closing a connection", side=side, peer=str(self._peer), reason=str(error))
        self.close()

    def pause(self, reason: str) -> None:
        """Stop reading the client, and the broker where memory is short and it fills it."""
        is_read = not self._pauses
        if is_read:
            self._unread_since = self._gateway.loop.time()
        self._pauses.add(reason)
        self.take_back()  # it may hold less in Python, so that the budget resumes it at once
        if reason not in self._pauses:
            return
        if is_read and not self._transport.is_closing():
            self._transport.pause_reading()
        if reason == "memory":
            self._pause_answer()
            if self._session is not None and self._session.topics.held_bytes:
                self._session.forget_topics()
                self.account()

    def _pause_answer(self) -> None:
        """Stop reading the broker while its response is collected: memory is short.

        Other responses are not held, and they free the memory of requests without a response.
        """
        if self._session is not None and self._session.answer_bytes > SMALL_BYTES:
            self.pause_broker("memory")
        else:
            self.resume_broker("memory")

    def resume(self, reason: str) -> None:
        """Read the client again, unless reading is paused for another reason."""
        if reason in self._pauses:
            self._pauses.discard(reason)
            if not self._pauses:
                self._unread_s += self._gateway.loop.time() - self._unread_since
                if not self._transport.is_closing():
                    self._transport.resume_reading()
            if reason == "memory":
                self.resume_broker("memory")

    def pause_broker(self, reason: str) -> None:
        """Stop reading the broker."""
        self.take_back()
        if self._upstream is not None:
            if not self._broker_pauses and not self._upstream.is_closing():
                self._upstream.pause_reading()
            self._broker_pauses.add(reason)

    def resume_broker(self, reason: str) -> None:
        """Read the broker again, unless reading is paused for another reason."""
        if reason in self._broker_pauses and self._upstream is not None:
            self._broker_pauses.discard(reason)
            if not self._broker_pauses and not self._upstream.is_closing():
                self._upstream.resume_reading()

    def pause_writing(self) -> None:
        """Stop reading both sides: the write buffer to the client is full."""
        self.pause("unread")
        self.account()
        self.pause_broker("unread")

    def resume_writing(self) -> None:
        """Read both sides again."""
        self.resume("unread")
        self.account()
        self.resume_broker("unread")

    def eof_received(self) -> bool:
        """Handle a half-closed connection: the client may still read responses."""
        if self._lingers and self._phase is ConnectionPhase.CLOSED:
            return False
        self._client_disconnected()
        self._start_half_closed_timer()
        return self._transport.get_extra_info("sslcontext") is None  # TLS has no half-closing

    def _start_half_closed_timer(self) -> None:
        later = self._gateway.loop.call_later
        self._half_closed = later(HALF_CLOSED_S, self._close_half_closed)

    def _close_half_closed(self) -> None:
        """Close, unless the expected responses are needed even if the client is gone."""
        if self._phase is ConnectionPhase.CLOSED or self._session is None:
            return
        if self._session.serves_client_only:
            self.close()
        else:
            self._start_half_closed_timer()

    def connection_lost(self, _: Exception | None) -> None:
        """Handle the end of the client's connection."""
        self.take_back()
        if self._phase is ConnectionPhase.CLOSED:
            self._gateway.budget.remove(self)
        self.resume_writing()
        self._client_disconnected()
        if self._session is not None and self._session.serves_client_only:
            self.close()
        if self._upstream is None or self._upstream.is_closing():
            self._gateway.connections.discard(self)
        self._side_closed()

    def check(self) -> None:
        """Account for held memory, and detect the disconnection of a client that is not read.

        While reading is paused, the event loop does not report that the client has disconnected.
        """
        if self._gateway.budget.is_exceeded and self._session is not None:
            self._session.forget_topics()
        if self._phase is ConnectionPhase.OPEN:
            self._end_in_time()
        self._look()
        if self._rate.is_too_slow and not self._is_unread:
            least = self._gateway.request_min_bytes_per_second
            reason = f"a request at less than {least} bytes a second"
            log.info("closing a connection", side="client", peer=str(self._peer), reason=reason)
            self.abort()
            return
        if self._lane is not None and self._lane_number is not None:
            # A connection that stays blocked may have lost its client unnoticed: see below.
            is_blocked = self._lane.figures(self._lane_number).is_blocked
            if is_blocked and self._was_blocked:
                self.take_back()
            self._was_blocked = is_blocked
        self.account()
        if not self._pauses or self._session is None or self._phase is ConnectionPhase.CLOSED:
            return
        state = tcp_state(self._transport)
        if state == _TCP_CLOSE:
            self.abort()
        elif state == _TCP_CLOSE_WAIT:
            self._session.cancel_waiting()
            is_tls = self._transport.get_extra_info("sslcontext") is not None
            buffered = readable_bytes(self._transport) + is_tls * _TLS_BYTES
            if self._session.missing_bytes > buffered:
                self._client_disconnected()  # the current request will never be complete
            self.account()

    def _end_in_time(self) -> None:
        self._end_if_worn()
        if self._phase is ConnectionPhase.OPEN:
            self._end_if_old()

    def _end_if_worn(self) -> None:
        """Close both connections in time if one cannot encrypt much more."""
        for side, tls in (("client", self._tls), ("broker", self._broker_tls)):
            if tls is not None and tls.tls.is_worn:
                reason = "the keys of TLS 1.2 are used up"
                log.info("closing a connection", side=side, peer=str(self._peer), reason=reason)
                self.end()
                return

    def _end_if_old(self) -> None:
        """Close both connections at their age, so that the client may come to another gateway."""
        now = self._gateway.loop.time()
        if self.is_established and self._age.has_come(now, lambda: self._is_between_requests):
            self._lingers = True
            self.end()

    @property
    def _is_between_requests(self) -> bool:
        """Whether nothing is received, awaited or sent, as far as it is known here."""
        session, upstream = self._session, self._upstream
        if (
            session is None
            or upstream is None
            or self._is_unread
            or self._transport.get_write_buffer_size()
            or upstream.get_write_buffer_size()
            or any(tls.has_unread or tls.tls.has_part for tls in self._native_tls)
        ):
            return False
        if self._lane is None or self._lane_number is None:
            return session.is_between_requests
        figures = self._lane.figures(self._lane_number)
        return not figures.unanswered and not figures.is_blocked and figures.request_left is None

    def _client_disconnected(self) -> None:
        if self._phase is ConnectionPhase.CLOSED:
            return
        if self._session is None:
            self.close()
        else:
            self._session.client_disconnected()

    def broker_connected(self, transport: asyncio.Transport) -> None:
        """Handle the open connection to the broker."""
        self._open_connections += 1
        self._upstream = transport
        self._broker_tls = transport if isinstance(transport, TlsConnection) else None
        self._upstream.set_write_buffer_limits(WRITE_BUFFER_BYTES)

    def broker_disconnected(self) -> None:
        """Close the client's connection after its responses have been flushed."""
        self.take_back()
        self._is_lost = True
        self.close()
        self._gateway.connections.discard(self)
        self._side_closed()

    def _side_closed(self) -> None:
        """Free the session when both connections are closed, without the garbage collector."""
        self._open_connections -= 1
        if not self._open_connections:
            self._on_closed()
            self._session = None
            if self._half_closed is not None:
                self._half_closed.cancel()

    def policies_changed(self) -> None:
        """Close both connections if a request is being forwarded that would now be held."""
        self.take_back()
        if self._session is not None and self._session.policies_changed():
            log.warning("closing a connection: its request was not judged", peer=str(self._peer))
            self.close()

    def end(self) -> None:
        """Close both connections after the responses to the requests in flight."""
        self.take_back()
        if self._phase is not ConnectionPhase.CLOSED:
            self._become(ConnectionPhase.ENDING)
            self._is_lost = True
        if self._session is not None:
            self._session.end(stops_after_request=self._lingers)
        elif self._connecting is None:
            self.close()

    def close(self) -> None:
        """Close both connections after the written bytes have been flushed."""
        self.take_back()
        self._gateway.writes.flush()
        if self._phase is ConnectionPhase.CLOSED:
            return
        self._become(ConnectionPhase.CLOSED)
        self._gateway.budget.remove(self)
        if self._session is not None:
            self._session.closed()
        self._close_client()
        if unread := self._transport.get_write_buffer_size():
            self._gateway.budget.set_held_bytes(self, unread)
            self._gateway.loop.call_later(FLUSH_TIMEOUT_S, self._transport.abort)
        if self._upstream is not None:
            self._upstream.close()
            if self._upstream.get_write_buffer_size():
                self._gateway.loop.call_later(FLUSH_TIMEOUT_S, self._upstream.abort)
        else:
            self._gateway.connections.discard(self)

    def _close_client(self) -> None:
        may_linger = self._half_closed is None and not self._transport.is_closing()
        if self._lingers and may_linger and is_plain(self._transport):
            self._linger()
        elif self._client.has_written:
            self._transport.close()
        elif self._is_lost:
            self._transport.abort()  # TLS would say otherwise that this is the end of the stream
        else:
            reset_on_close(self._transport, False)
            self._transport.close()

    def _linger(self) -> None:
        """Send the client the end, and discard what it sends until it closes, too.

        If that were not read, the system would reset the connection, and the client might not get
        its last responses. A connection with TLS does so itself.
        """
        self._transport.write_eof()
        if self._pauses:
            self._pauses.clear()
            self._transport.resume_reading()
        self._gateway.loop.call_later(LINGER_S, self._transport.abort)

    def abort(self) -> None:
        """Close both connections at once."""
        self.take_back()
        self._become(ConnectionPhase.CLOSED)
        self._gateway.budget.remove(self)
        if self._session is not None:
            self._session.closed()
        self._transport.abort()
        if self._upstream is not None:
            self._upstream.abort()
        self._gateway.connections.discard(self)


def _has_several(data: bytes) -> bool:
    """Return whether bytes hold more than a frame, if one begins with them."""
    return int.from_bytes(data[:LENGTH_BYTES], "big") + LENGTH_BYTES < len(data)

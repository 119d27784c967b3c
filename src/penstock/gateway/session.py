"""One client's connection to one broker, without sockets: bytes in, bytes out.

Theory of operation. Requests are cut into frames. `routes` says which are streamed on as they
come, and which are held until it is decided what becomes of them; what came after a held one
waits behind it, so that requests reach the broker in the client's order. Released requests stand
in `_unanswered` in that order; those that the broker was sent stand in `_expected` too, along with
questions of the gateway's own. A broker answers in order, so its next response belongs to the
first of `_expected`, and that one is always the first of `_unanswered` by then, unless it is a
question.

Rules for the next editor: nothing here blocks; nothing is sent to the broker in the middle
of a streamed request; an exchange is answered exactly once; no API is known by its number.
"""

from __future__ import annotations

import itertools
from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Protocol

from penstock.gateway.authentication import Authentication
from penstock.gateway.exchange import Exchange, Held, State, Streamed
from penstock.gateway.policy_set import without_response
from penstock.gateway.topic_names import TopicNames
from penstock.wire import api_versions, producers
from penstock.wire.errors import WireError
from penstock.wire.frames import REQUEST_HEAD_BYTES, RESPONSE_HEAD_BYTES, FrameReader
from penstock.wire.primitives import INT16, INT32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.gateway.gateway_context import GatewayContext
    from penstock.gateway.policy_set import PolicySet
    from penstock.gateway.routes import OpenExchange, Route

RESPONSE_MAX_BYTES: Final = 2**31 - 1
PENDING_MAX: Final = 64
"""So many requests of one client are looked at ahead of the one that goes to the broker next:
more would only wait in line, before those of other clients."""
UNANSWERED_MAX: Final = 256
"""A client is not read while it has so many requests without a response."""
_UNANSWERED_BYTES: Final = 500
"""What one of them takes, about, besides what it holds."""
_OWN_CORRELATION_ID: Final = 0x50454E53
_numbers = itertools.count(1)
_FLOWING: Final = frozenset({State.SENT, State.COMPLETED})
"""A broker may answer before it has read all of a request."""
_BARRIER: Final = api_versions.request(_OWN_CORRELATION_ID)


class Phase(Enum):
    """How far a connection has come."""

    OPEN = auto()
    ENDING = auto()
    """What is in flight is answered, nothing new is taken."""
    CLOSED = auto()


class Transport(Protocol):
    """What a session writes to."""

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes."""

    def writelines(self, data: Iterable[bytes | memoryview]) -> None:
        """Send several buffers, in order."""


class OwnRequest:
    """A request of the gateway's own."""

    __slots__ = ("correlation_id", "on_response")

    is_needed_after_disconnect = True

    def __init__(self, on_response: Callable[[bytes], None]) -> None:
        self.correlation_id = _OWN_CORRELATION_ID
        self.on_response = on_response


class Session:
    """The state of one connection; for the requests on it, an `exchange.ConnectionContext`."""

    def __init__(
        self,
        gateway: GatewayContext,
        route: Callable[[int], Route],
        *,
        client: Transport,
        upstream: Transport,
        request_max_bytes: int,
        on_done: Callable[[], None],
        on_progress: Callable[[], None],
        certificate_principal: str | None = None,
    ) -> None:
        """Begin.

        Args:
            gateway: The gateway.
            route: Returns what is done with the requests of an API.
            client: Where responses go.
            upstream: Where requests go.
            request_max_bytes: `socket.request.max.bytes`.
            on_done: Called when both connections are to be closed: what was written may
                still be flushed, nothing more will come.
            on_progress: Called when what waited for a verdict has moved on.
            certificate_principal: Who the client is by its certificate.
        """
        self.gateway = gateway
        self._route = route
        self._client = client
        self._upstream = upstream
        self._on_done = on_done
        self._on_progress = on_progress
        self.topics = TopicNames()
        self.number = next(_numbers)
        self.authentication = Authentication(
            is_required=gateway.requires_sasl,
            certificate_principal=certificate_principal,
            clock=gateway.clock,
        )
        self._request_max_bytes = request_max_bytes
        self._requests = FrameReader(
            head_bytes=REQUEST_HEAD_BYTES,
            max_bytes=gateway.sasl_max_bytes if gateway.requires_sasl else request_max_bytes,
            on_head=self._request_head,
            on_frame=self._request_frame,
            on_piece=self._request_piece,
        )
        self._responses = FrameReader(
            head_bytes=RESPONSE_HEAD_BYTES,
            max_bytes=RESPONSE_MAX_BYTES,
            on_head=self._response_head,
            on_frame=self._response_frame,
            on_piece=self._response_piece,
        )
        self._phase = Phase.OPEN
        self._arriving: Streamed | None = None
        self._read_acks: Callable[[bytes], int | None] | None = None
        self._open: OpenExchange | None = None
        self._pending: deque[Exchange] = deque()
        self._unanswered: deque[Exchange] = deque()
        self._expected: deque[Exchange | OwnRequest] = deque()
        self._not_started: deque[Held] = deque()
        self._undecided: deque[Held] = deque()
        self._supports_describe_producers: bool | None = None
        self._waiting_bytes = 0
        self._unanswered_size = 0
        self._unconfirmed = False
        self._has_received_request = False

    # What the connection's owner calls

    def client_data(self, data: bytes) -> None:
        """Take bytes from the client.

        Raises:
            WireError: They are not Kafka's protocol; the connection cannot go on.
        """
        self._requests.feed(data)
        if self._phase is Phase.ENDING and self._requests.between_frames:
            self._requests.stop()

    def upstream_data(self, data: bytes) -> None:
        """Take bytes from the broker.

        Raises:
            WireError: They are not Kafka's protocol; the connection cannot go on.
        """
        self._responses.feed(data)

    def client_disconnected(self) -> None:
        """Note that nothing more comes from the client; what it sent is stored, if judged."""
        self.cancel_waiting()
        self._requests.stop()
        arriving, self._arriving = self._arriving, None
        if arriving is not None:
            if arriving.state in _FLOWING:
                self._finish()  # the broker has half of a request, and will never have the rest
                return
            if self._pending and self._pending[-1] is arriving:
                self._pending.pop()
        self.end()

    def cancel_waiting(self) -> None:
        """Judge no more for a client that is gone than what is begun: it takes no responses.

        What it expects no response to is judged: nobody would send that again.
        """
        for policies in self._policies_in_use():
            policies.cancel(self.number)

    def end(self) -> None:
        """Answer what is in flight, take nothing new, and be done."""
        if self._phase is Phase.OPEN:
            self._phase = Phase.ENDING
        if self._requests.between_frames:
            self._requests.stop()
        self._end_when_idle()

    def closed(self) -> None:
        """Note that nothing more can be sent to either side."""
        self._phase = Phase.CLOSED
        self._cancel_pending()
        self._requests.stop()
        self._responses.stop()
        # Large, and in circles of references that are found late.
        self._arriving = None
        for one in self._unanswered:
            one.transform = None
        self._expected.clear()
        self._unanswered.clear()

    @property
    def missing_bytes(self) -> int:
        """How much of the client's present request has not come yet."""
        return self._requests.missing_bytes

    @property
    def serves_client_only(self) -> bool:
        """Whether the broker's responses to come are of use to the client only."""
        return (
            not self._pending
            and not self._unconfirmed
            and not any(one.is_needed_after_disconnect for one in self._expected)
        )

    @property
    def is_established(self) -> bool:
        """Whether a whole request has come, and the client has authenticated if it has to."""
        return self._has_received_request and self.authentication.is_done

    @property
    def is_suspended(self) -> bool:
        """Whether no further request of the client is looked at for now."""
        return self._requests.is_suspended

    @property
    def held_bytes(self) -> int:
        """How many bytes of the client are held.

        Of requests that are half there, that wait, and that were looked at and have no response.
        """
        return (
            self._waiting_bytes
            + self._unanswered_size
            + self._requests.held_bytes
            + self._responses.held_bytes
        )

    @property
    def waiting_bytes(self) -> int:
        """How many bytes wait behind a verdict, or are held for one."""
        return self._waiting_bytes

    # Requests, as they arrive

    def _request_head(self, head: bytes) -> bool:
        api_key = INT16.unpack_from(head, 4)[0]
        version = INT16.unpack_from(head, 6)[0]
        row = self._route(api_key)
        arriving = Streamed(api_key, version, INT32.unpack_from(head, 8)[0])
        first, last = row.versions
        opens: OpenExchange | None
        if not first <= version <= last:
            if row.unsupported_version is None or version < first:
                raise WireError(f"API key {api_key} version {version}")
            opens = row.unsupported_version
        else:
            if not row.before_login:
                self.authentication.check(api_key)
            opens = row.hold(self.gateway, version)
            arriving.transform = row.respond(self, version)
        self._arriving, self._open, self._read_acks = arriving, opens, row.read_acks
        if opens is None and row.read_acks is None:
            self._enqueue(arriving)
        return opens is not None

    def _request_frame(self, frame: bytes) -> None:
        self._has_received_request = True
        arriving, self._arriving = self._arriving, None
        assert arriving is not None
        assert self._open is not None
        exchange = self._open(self, arriving, frame)
        if self.authentication.awaits_response:
            self._requests.suspend()
        self._waiting_bytes += exchange.waiting_bytes
        if isinstance(exchange, Held):
            self._enqueue_held(exchange)
        else:
            self._enqueue(exchange)

    def _request_piece(self, piece: bytes | memoryview, last: bool) -> None:
        exchange = self._arriving
        assert exchange is not None
        self._has_received_request = self._has_received_request or last
        if last:
            self._arriving = None
        if exchange.state in _FLOWING:
            self._upstream.write(piece)
        else:
            exchange.pieces.append(bytes(piece))
            self._waiting_bytes += len(piece)
            if exchange.state is State.RECEIVING:
                self._find_acks(exchange, is_whole=last)
        if last and self._phase is Phase.ENDING:
            self._end_when_idle()

    def _find_acks(self, exchange: Streamed, *, is_whole: bool) -> None:
        """Stream a request on as soon as it is known whether a response will come."""
        pieces = exchange.pieces
        assert self._read_acks is not None
        acks = self._read_acks(bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces))
        if acks is not None:
            exchange.expects_response = acks != 0
            self._enqueue(exchange)
        elif is_whole:
            raise WireError("a Produce request that ends too early")

    # Requests, on their way to the broker

    def _enqueue(self, exchange: Exchange) -> None:
        """Send a request on at once, or behind those that wait."""
        exchange.transition_to(State.READY)
        if self._pending:
            self._pending.append(exchange)
            self._suspend_if_many()
        else:
            self._release(exchange)

    def _enqueue_held(self, exchange: Held) -> None:
        behind_exclusive = bool(self._pending) and (
            bool(self._not_started) or any(one.is_exclusive for one in self._pending)
        )
        self._pending.append(exchange)
        if exchange.is_judged:
            self._undecided.append(exchange)
        self._suspend_if_many()
        if behind_exclusive and exchange.is_judged:
            # What stands before it may be about what judges it.
            self._not_started.append(exchange)
        else:
            exchange.start(self)

    def advance(self) -> None:
        """Send on what has been decided, in order."""
        while self._phase is not Phase.CLOSED:
            if self._pending and self._pending[0].state is State.READY:
                self._release(self._pending.popleft())
            elif not self._decide_next():
                break
        first = self._pending[0] if self._pending else None
        if isinstance(first, Held) and first.is_exclusive:
            first.run_handler()
        elif self._not_started and self._phase is not Phase.CLOSED:
            self._start_next()
        self._resume_if_possible()
        self._on_progress()
        if self._phase is Phase.ENDING:
            self._end_when_idle()

    def _suspend_if_many(self) -> None:
        if len(self._pending) >= PENDING_MAX or len(self._unanswered) >= UNANSWERED_MAX:
            self._requests.suspend()

    def _resume_if_possible(self) -> None:
        """Look at requests again that were put aside, if nothing is against it any more."""
        if (
            self._requests.is_suspended
            and len(self._pending) <= PENDING_MAX // 2
            and len(self._unanswered) <= UNANSWERED_MAX // 2
            and not self.authentication.awaits_response
        ):
            self._requests.resume()
            self._on_progress()

    def _decide_next(self) -> bool:
        """Decide what becomes of the next judged request, if all before it are decided."""
        if not self._undecided:
            return False
        exchange = self._undecided[0]
        if not exchange.decide(is_next=self._pending[0] is exchange):
            return False
        self._undecided.popleft()
        return True

    def _start_next(self) -> None:
        """Begin the requests that stood behind an exclusive one, up to the next such."""
        for exchange in list(self._pending):
            if exchange.is_exclusive:
                return
            if self._not_started and exchange is self._not_started[0]:
                self._not_started.popleft().start(self)

    def _release(self, exchange: Exchange) -> None:
        self._waiting_bytes -= exchange.waiting_bytes
        outgoing = exchange.outgoing()
        if outgoing:
            self._upstream.writelines(outgoing)
        if not exchange.expects_response:
            if outgoing is None:
                exchange.transition_to(State.COMPLETED)
            else:
                exchange.transition_to(State.SENT)
                self._unconfirmed = True
            if exchange.closes_connection:
                self._disconnect_after_error()
            return
        self._unanswered.append(exchange)
        self._unanswered_size += _UNANSWERED_BYTES + exchange.size
        self._suspend_if_many()
        if outgoing is None:
            exchange.transition_to(State.LOCAL_RESPONSE)
            self._flush()
        else:
            exchange.transition_to(State.SENT)
            self._expected.append(exchange)

    def _disconnect_after_error(self) -> None:
        """End as a broker does after an error that acks=0 leaves it no way to tell."""
        self._requests.stop()
        self._cancel_pending()
        self._unconfirmed = True
        self.end()

    def _cancel_pending(self) -> None:
        in_use = self._policies_in_use()
        for exchange in self._pending:
            exchange.cancel()
        self._pending.clear()
        self._not_started.clear()
        self._undecided.clear()
        for policies in in_use:
            policies.cancel(self.number)
            policies.cancel(without_response(self.number))

    def _policies_in_use(self) -> Sequence[PolicySet]:
        """Return the policies that judge what waits; after SIGHUP there may be two sets."""
        used = (one.policies for one in self._pending)
        return list({id(one): one for one in used if one is not None}.values())

    # Responses

    def _response_head(self, head: bytes) -> bool:
        if not self._expected:
            raise WireError("a response to no request")
        expected = self._expected[0]
        if INT32.unpack_from(head, 4)[0] != expected.correlation_id:
            raise WireError("a response to another request than the next one")
        return isinstance(expected, OwnRequest) or expected.transform is not None

    def _response_frame(self, frame: bytes) -> None:
        expected = self._expected.popleft()
        if isinstance(expected, OwnRequest):
            expected.on_response(frame)
        else:
            transform, expected.transform = expected.transform, None
            assert transform is not None
            expected.response = transform(frame)
            if self.authentication.is_done:
                self._requests.max_bytes = self._request_max_bytes
            self._flush()
            self._resume_if_possible()
        if self._phase is Phase.ENDING:
            self._end_when_idle()

    def _response_piece(self, piece: bytes | memoryview, last: bool) -> None:
        self._client.write(piece)
        if last:
            self._expected.popleft()
            self._complete(self._unanswered.popleft())
            self._flush()
            self._resume_if_possible()
            if self._phase is Phase.ENDING:
                self._end_when_idle()

    def _flush(self) -> None:
        """Send the responses that are next in turn.

        What the broker was not asked is answered only now: success may be told only when all
        that came before is answered.
        """
        while self._unanswered:
            first = self._unanswered[0]
            response = first.response
            if first.state is State.LOCAL_RESPONSE:
                response = first.local_response()
            if response is None:
                break
            self._complete(self._unanswered.popleft())
            self._client.writelines(response)

    def _complete(self, exchange: Exchange) -> None:
        exchange.transition_to(State.COMPLETED)
        self._unanswered_size -= _UNANSWERED_BYTES + exchange.size

    # Questions of the gateway's own

    def send_request(
        self, request: Callable[[int], bytes], on_response: Callable[[bytes], None]
    ) -> None:
        """Send the broker a request of the gateway's own, over the client's connection.

        Args:
            request: Makes the frame from a correlation id.
            on_response: Called with the response's frame.
        """
        self._expected.append(OwnRequest(on_response))
        self._upstream.write(request(_OWN_CORRELATION_ID))

    @property
    def may_support_describe_producers(self) -> bool:
        """Whether the broker may serve DescribeProducers: it has not said that it does not."""
        return self._supports_describe_producers is not False

    def check_describe_producers_support(self, on_known: Callable[[bool], None]) -> None:
        """Find out whether the broker serves DescribeProducers (KIP-664)."""
        known = self._supports_describe_producers
        if known is not None:
            on_known(known)
            return

        def answered(frame: bytes) -> None:
            known = self._supports_describe_producers = producers.is_served(frame)
            on_known(known)

        self.send_request(producers.served_request, answered)

    # The end

    def fail(self) -> None:
        """Give up: what the broker answered cannot be dealt with."""
        self._finish()

    def _end_when_idle(self) -> None:
        if self._phase is Phase.CLOSED or self._arriving is not None:
            return
        if self._pending or self._expected or self._unanswered:
            return
        if self._unconfirmed:
            # What was sent with acks=0 is confirmed by nothing, and closing may reset the
            # connection before the broker has read it: ask something, and wait for that.
            self._unconfirmed = False
            self._expected.append(OwnRequest(lambda _: None))
            self._upstream.write(_BARRIER)
            return
        self._finish()

    def _finish(self) -> None:
        if self._phase is not Phase.CLOSED:
            self.closed()
            self._on_done()

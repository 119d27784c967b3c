"""The protocol of a client's connection to a broker, without sockets: bytes in, bytes out.

Requests are split into frames. The routing table (`routes`) decides which are streamed, and which
are held until a decision about the request for the broker. Requests that follow a held request wait
in `_pending`, so that the broker receives requests in the client's order. Released requests are in
`_unanswered`, in that order, until their response has been sent. Those that were sent to the broker
are also in `_expected`, together with requests of the gateway's own. A broker responds in order:
its next response belongs to the first exchange in `_expected`. That exchange is also the first in
`_unanswered` then, unless it is a request of the gateway's own.

Responses that are read or changed are collected. The collected bytes, and the work on them,
counts in `held_bytes` as it is received (`answer_bytes`), so that the owner of the connections
can stop reading the broker. Work on a long response is done in slices (`turns`); the responses
behind it are put aside until then (`is_answering`).

Rules for changes: nothing here blocks; nothing is sent to the broker in the middle of a streamed
request; each exchange gets exactly one response; no API key is mentioned.
"""

from __future__ import annotations

import itertools
from collections import deque
from enum import Enum, auto
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol, TypeGuard

import structlog

from penstock.gateway.context.exchange import Exchange, ExchangeState, Held, Streamed
from penstock.gateway.context.topic_names import TopicNames
from penstock.gateway.produce.policy_set import without_response
from penstock.gateway.produce.retried_batches import NONE_RETRIED, merged
from penstock.gateway.sessions.authentication import ConnectionAuthentication
from penstock.gateway.sessions.between import (
    Between,
    Transferred,
    is_forwarded,
    sent_exchange,
    transferred,
)
from penstock.gateway.sessions.own_request import OWN_CORRELATION_ID, OwnRequest
from penstock.gateway.sessions.pending_requests import PendingRequests
from penstock.gateway.sessions.sliced_work import SlicedWork
from penstock.kafka.wire import api_versions
from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.frames import (
    LENGTH_BYTES,
    REQUEST_HEAD_BYTES,
    RESPONSE_HEAD_BYTES,
    FrameReader,
)
from penstock.kafka.wire.primitives import INT32
from penstock.kafka.wire.requests import leaders, producers
from penstock.kafka.wire.requests.produce import RequestReader

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator, Iterable

    from penstock.engine.workers.batch_to_judge import EarlyOutcomes
    from penstock.gateway.context.exchange import (
        Buffers,
        JudgingPolicies,
        RetriedBatches,
        Transform,
    )
    from penstock.gateway.sessions.gateway import RequestGateway
    from penstock.gateway.sessions.routes import OpenExchange, ReadRetried, Route
    from penstock.kafka.wire.requests.share_fetch import Rewriter
    from penstock.kafka.wire.slices import Slices
else:  # to compare with the abstract class takes longer
    from types import GeneratorType as Generator

log = structlog.get_logger()

RESPONSE_MAX_BYTES: Final = 2**31 - 1
COLLECTED_MAX_BYTES: Final = 100 * 2**20
"""The largest response that is collected, as large as the largest request is by default."""
PENDING_MAX: Final = 64
"""The most requests of one connection that are processed ahead of the next request to be sent. More
would only queue up before those of other clients."""
UNANSWERED_MAX: Final = 256
"""The most requests of one connection without a response; then reading is paused."""
UNANSWERED_BYTES: Final = 500
"""The estimated memory of one of these, without its content."""
_numbers = itertools.count(1)
_HEAD: Final = Struct(">hhi")  # API key, version, correlation id
_FLOWING: Final = frozenset({ExchangeState.SENT, ExchangeState.COMPLETED})
"""States in which further bytes of a request are forwarded. A broker may respond before it has
read all of a request."""
_SIZE_OF_WORK: Final = 2
"""The memory of work on a response, as a multiple of its size: the response, and its result."""
_BARRIER: Final = api_versions.request(OWN_CORRELATION_ID)


class SessionPhase(Enum):
    """The phase of a connection."""

    OPEN = auto()
    ENDING = auto()
    """Requests in flight get their responses; no further requests are accepted."""
    CLOSED = auto()


class Transport(Protocol):
    """A connection that a session writes to."""

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes."""

    def writelines(self, data: Iterable[bytes | memoryview]) -> None:
        """Send several buffers, in order."""


class Session:
    """The state of a connection; for the requests on it, a `gateway.RequestConnection`."""

    def __init__(
        self,
        gateway: RequestGateway,
        route: Callable[[int], Route],
        *,
        client: Transport,
        upstream: Transport,
        request_max_bytes: int,
        on_done: Callable[[], None],
        on_progress: Callable[[], None],
        certificate_principal: str | None = None,
        address: str | None = None,
        node: int | None = None,
    ) -> None:
        """Make the session of a new connection.

        Args:
            route: Returns the route of an API key.
            client: The client's connection, for responses.
            upstream: The broker's connection, for requests.
            request_max_bytes: `socket.request.max.bytes`.
            on_done: Called when both connections are to be closed, after the written bytes have
                been flushed.
            on_progress: Called when requests that were waiting have been processed.
            certificate_principal: The principal of the client's TLS certificate.
            address: The client's address.
            node: The node id of the broker that it connected to; None for any broker.
        """
        self.gateway = gateway
        self.address = address
        self.node = node
        self._route = route
        self._client = client
        self._upstream = upstream
        self._on_done = on_done
        self._on_progress = on_progress
        self._counts = gateway.counts
        self._answered = gateway.counts.answered if gateway.counts is not None else None
        self._clock = gateway.clock
        self.topics = TopicNames()
        self.produce_requests = RequestReader()
        self.submitting: asyncio.Future[None] | None = None
        self._early_outcomes: EarlyOutcomes = {}
        self.number = next(_numbers)
        self.authentication = ConnectionAuthentication(
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
        self._phase = SessionPhase.OPEN
        self._answering = SlicedWork("broker")
        self._rewriter: Rewriter | None = None
        self._receiving: Streamed | None = None
        self._read_acks: Callable[[bytes], int | None] | None = None
        self._start_bytes = 0
        self._acks_read_from = 0
        """So many bytes of a request there have to be before its acks are looked for again."""
        self._open_exchange: OpenExchange | None = None
        self._retried: RetriedBatches = NONE_RETRIED
        self._is_reading_retried = self._is_due_again = False
        self.has_received_more = False
        self._opening = SlicedWork("client")
        self._pending = PendingRequests()
        self._unanswered: deque[Exchange] = deque()
        self._expected: deque[Exchange | OwnRequest] = deque()
        self._supports_describe_producers: bool | None = None
        self._supports_leader_epochs = True
        self._left: list[JudgingPolicies] = []
        self._waiting_bytes = 0
        self._unanswered_size = 0
        self._unconfirmed = False
        self._has_received_request = False

    # While the lane has the connection (`lane`)

    @property
    def holds_a_part(self) -> bool:
        """Whether a part of a request or response is held until the rest has been received."""
        return not (self._requests.is_streaming and self._responses.is_streaming)

    @property
    def can_leave(self) -> bool:
        """Whether the lane can continue: no request is held, changed or awaited."""
        receiving = self._receiving
        return not (
            self._pending.exchanges
            or self._phase is not SessionPhase.OPEN
            or self._opening.is_running
            or self._answering.is_running
            or self._retried
            or not self.is_established
            or self.authentication.awaits_response
            or self.holds_a_part
            or (receiving is not None and receiving.state not in _FLOWING)
            or len(self._expected) != len(self._unanswered)
            or not all(map(is_forwarded, self._expected, self._unanswered))
        )

    def leave(self) -> tuple[Between, bytes, bytes] | None:
        """Return the session's state, to pass it to the lane.

        Returns:
            The state between the bytes, and the received bytes of the client's next request and of
            the broker's next response; None if it cannot be given away now.
        """
        if not self.can_leave:
            return None
        receiving = self._receiving
        exchanges = list(self._expected)
        client_head, request_left = self._requests.leave()
        broker_head, response_left = self._responses.leave()
        is_last = receiving is not None and bool(exchanges) and exchanges[-1] is receiving
        between = Between(
            request_left,
            is_last,
            transferred(receiving) if receiving is not None and not is_last else None,
            response_left,
            [transferred(exchange) for exchange in exchanges],
            self._unconfirmed,
        )
        self._expected.clear()
        self._unanswered.clear()
        self._unanswered_size = 0
        self._receiving, self._unconfirmed = None, False
        if self._counts is not None:  # the code that processes them counts them
            self._counts.client_bytes -= len(client_head)
            self._counts.broker_bytes -= len(broker_head)
        return between, client_head, broker_head

    def enter(self, between: Between) -> None:
        """Go on from a state between the bytes. The bytes received after it are to be fed next."""
        exchanges = [self._exchange(exchange) for exchange in between.expected]
        self._expected.extend(exchanges)
        self._unanswered.extend(exchanges)
        self._unanswered_size += UNANSWERED_BYTES * len(exchanges)
        if between.is_last:
            self._receiving = exchanges[-1]
        elif between.receiving is not None:
            self._receiving = self._exchange(between.receiving)
        self._rewriter = None
        self._unconfirmed = self._unconfirmed or between.unconfirmed
        self._requests.enter(between.request_left)
        self._responses.enter(between.response_left)
        self._suspend_if_many()

    def put_early_outcomes(self, outcomes: EarlyOutcomes) -> None:
        """Keep the early outcomes of the next request, a Produce request."""
        self._early_outcomes = outcomes

    def take_early_outcomes(self) -> EarlyOutcomes:
        """Return the early outcomes of the Produce request that is read, once."""
        outcomes, self._early_outcomes = self._early_outcomes, {}
        return outcomes

    def put_back(self, client_head: bytes, broker_head: bytes) -> None:
        """Undo `leave`, after `enter`: have the first bytes of the next frames again."""
        self._requests.put_back(client_head)
        self._responses.put_back(broker_head)
        if self._counts is not None:
            self._counts.client_bytes += len(client_head)
            self._counts.broker_bytes += len(broker_head)

    def _exchange(self, exchange_fields: Transferred) -> Streamed:
        """Return an exchange that was sent to the broker."""
        exchange = sent_exchange(exchange_fields)
        exchange.transform = self._route(exchange.api_key).respond(self, exchange.version)
        return exchange

    @property
    def valid_until(self) -> float:
        """When the client's authentication expires, by the gateway's clock."""
        return self.authentication.valid_until

    # Called by the owner of the connections

    def client_data(self, data: bytes) -> None:
        """Process bytes from the client.

        Raises:
            WireError: They violate the protocol; the connection has to be closed.
        """
        if self._counts is not None:
            self._counts.client_bytes += len(data)
        self._requests.feed(data)
        if self._phase is SessionPhase.ENDING and self._requests.between_frames:
            self._requests.stop()

    def upstream_data(self, data: bytes) -> None:
        """Process bytes from the broker.

        Raises:
            WireError: They violate the protocol; the connection has to be closed.
        """
        if self._counts is not None:
            self._counts.broker_bytes += len(data)
        self._responses.feed(data)

    def client_disconnected(self) -> None:
        """End the session, because the client has closed. Complete requests are still sent.

        Requests that expect a response are only sent if workers have begun to judge them.
        """
        self.cancel_waiting()
        self._requests.stop()
        receiving, self._receiving = self._receiving, None
        if receiving is not None:
            if receiving.state in _FLOWING:
                self._finish()  # the broker will never receive the rest of this request
                return
            self._pending.discard_last(receiving)
        self.end()

    def cancel_waiting(self) -> None:
        """Cancel the jobs that wait for a worker: the client reads no responses any more.

        Requests that expect no response (acks=0) are still judged, since no client retries them: in
        the turn of all clients that have disconnected.
        """
        for policies in self._pending.policies():
            policies.cancel(self.number)
            policies.leave(without_response(self.number))
            if not any(policy_set is policies for policy_set in self._left):
                self._left.append(policies)

    def end(self, *, stops_after_request: bool = False) -> None:
        """End the session after the responses to the requests in flight.

        Args:
            stops_after_request: Whether nothing behind the current request is processed. Otherwise
                a client that always has the next request on its way might never get to the end.
        """
        if self._phase is SessionPhase.OPEN:
            self._phase = SessionPhase.ENDING
        if stops_after_request:
            self._requests.stop_after_frame()
        if self._requests.between_frames:
            self._requests.stop()
        self._end_when_idle()

    def closed(self) -> None:
        """Cancel everything: both connections are closed."""
        self._phase = SessionPhase.CLOSED
        self._answering.stop()
        self._cancel_pending()
        for policies in self._left:
            policies.cancel(without_response(self.number))
        self._left.clear()
        self._requests.stop()
        self._responses.stop()
        # Free large objects now: they are in reference cycles.
        self._receiving = None
        for exchange in self._unanswered:
            exchange.transform = None
        self._expected.clear()
        self._unanswered.clear()

    @property
    def missing_bytes(self) -> int:
        """The bytes of the current request that have not been received yet."""
        return self._requests.missing_bytes

    @property
    def left_bytes(self) -> int | None:
        """The bytes of the current request, or of its head, that are missing; None between them."""
        return self._requests.left_bytes

    @property
    def forwarded_bytes(self) -> int:
        """The missing bytes of the current request that will be forwarded as they are received."""
        receiving = self._receiving
        if receiving is None or receiving.state not in _FLOWING:
            return 0
        return self._requests.missing_streamed_bytes

    @property
    def missing_answer_bytes(self) -> int:
        """The bytes of a response that is being collected that have not been received yet."""
        return self._responses.missing_held_bytes

    @property
    def is_between_requests(self) -> bool:
        """Whether no request or response is received, processed or awaited."""
        return self._requests.between_frames and self._responses.between_frames and self._is_idle

    @property
    def answer_bytes(self) -> int:
        """The bytes of responses that are collected, or worked on, or put aside behind these."""
        return self._responses.held_bytes + self._answering.size

    @property
    def is_answering(self) -> bool:
        """Whether work on a response continues; no further responses are processed until then."""
        return self._answering.is_running

    @property
    def serves_client_only(self) -> bool:
        """Whether the expected responses of the broker are only needed by the client."""
        return (
            not self._pending.exchanges
            and not self._opening.is_running
            and not self._unconfirmed
            and not any(exchange.is_needed_after_disconnect for exchange in self._expected)
        )

    @property
    def is_established(self) -> bool:
        """Whether a complete request was received, and the client has authenticated if required."""
        return self._has_received_request and self.authentication.is_done

    @property
    def is_suspended(self) -> bool:
        """Whether the session processes no further requests for now."""
        return self._requests.is_suspended

    @property
    def held_bytes(self) -> int:
        """The bytes that are held for the client.

        These are incomplete requests, waiting requests, requests without a response, collected
        responses, and the names of topics.
        """
        return (
            self._waiting_bytes
            + self._unanswered_size
            + self._requests.held_bytes
            + self._opening.size
            + self.answer_bytes
            + self.topics.held_bytes
        )

    def forget_topics(self) -> None:
        """Forget the names of topics: memory is short. They are requested again when needed."""
        if not self._pending.exchanges:
            self.topics.forget()

    def policies_changed(self) -> bool:
        """Return whether a request is being forwarded, or is about to be, that is now to be held.

        It has to be sent again, to be judged.
        """
        exchanges = (self._receiving, *self._pending.exchanges)
        return any(_is_streamed(exchange) and self._is_held(exchange) for exchange in exchanges)

    def _is_held(self, exchange: Exchange) -> bool:
        try:
            return self._route(exchange.api_key).hold(self.gateway, exchange.version) is not None
        except WireError:
            return True

    @property
    def waiting_bytes(self) -> int:
        """The bytes of requests that wait for a verdict, or for a request before them."""
        return self._waiting_bytes

    # Requests, as they are received

    def _request_head(self, head: bytes) -> bool:
        api_key, version, correlation_id = _HEAD.unpack_from(head, LENGTH_BYTES)
        row = self._route(api_key)
        receiving = Streamed(api_key, version, correlation_id)
        if self._counts is not None:
            receiving.received_at = self._clock()
        first, last = row.versions
        open_exchange: OpenExchange | None
        if not first <= version <= last:
            if row.unsupported_version is None or version < first:
                raise WireError(f"API key {api_key} version {version}")
            open_exchange = row.unsupported_version
        else:
            if not row.before_login:
                self.authentication.check(api_key)
            open_exchange = row.hold(self.gateway, version)
            receiving.transform = row.respond(self, version)
            if row.rewrite is not None:
                receiving.rewriter = row.rewrite(version)
        receiving.is_streamed = open_exchange is None
        self._receiving, self._open_exchange, self._read_acks = (
            receiving,
            open_exchange,
            row.read_acks,
        )
        self._start_bytes = self._acks_read_from = 0
        if open_exchange is None:  # nobody has it judged now, if it is a Produce request
            self._early_outcomes, self._retried = {}, NONE_RETRIED
            if row.read_acks is None:
                self._enqueue(receiving)
        return open_exchange is not None

    def _request_frame(self, frame: bytes) -> None:
        self._has_received_request = True
        receiving, self._receiving = self._receiving, None
        assert receiving is not None
        assert self._open_exchange is not None
        exchange = self._open_exchange(self, receiving, frame)
        if isinstance(exchange, Generator):
            # A long request is read in slices; the next request waits until then.
            turns = self.gateway.turns
            if self._opening.begin(turns, exchange, self._opened, self.fail, len(frame)):
                self._requests.suspend()
        else:
            self._opened(exchange, has_waited=False)

    def _opened(self, exchange: Exchange, has_waited: bool) -> None:
        """Process a request that has been read."""
        if self.authentication.awaits_response:
            self._requests.suspend()
        self._waiting_bytes += exchange.waiting_bytes
        if self._retried:
            exchange.follow(self._retried)
            self._retried = NONE_RETRIED
        if isinstance(exchange, Held):
            self._enqueue_held(exchange)
        else:
            self._enqueue(exchange)
        if has_waited:
            self._resume_if_possible()
            self._on_progress()
        if self._phase is SessionPhase.ENDING:
            self._end_when_idle()

    def _request_piece(self, piece: bytes | memoryview, last: bool) -> None:
        exchange = self._receiving
        assert exchange is not None
        self._has_received_request = self._has_received_request or last
        if last:
            self._receiving = None
        if exchange.state in _FLOWING:
            self._upstream.write(piece)
        else:
            exchange.pieces.append(bytes(piece))
            self._waiting_bytes += len(piece)
            if exchange.state is ExchangeState.RECEIVING:
                self._find_acks(exchange, is_whole=last)
        if last and self._phase is SessionPhase.ENDING:
            self._end_when_idle()

    def _find_acks(self, exchange: Streamed, *, is_whole: bool) -> None:
        """Start to forward a request as soon as it is known whether there will be a response."""
        pieces = exchange.pieces
        assert self._read_acks is not None
        self._start_bytes += len(pieces[-1])
        if self._start_bytes < self._acks_read_from and not is_whole:
            return
        start = bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)
        acks = self._read_acks(start)
        if acks is not None:
            exchange.expects_response = acks != 0
            self._enqueue(exchange)
        elif is_whole:
            raise WireError("a Produce request that ends too early")
        else:
            # A client may send single bytes: all of it is read again when there is twice as much.
            self._acks_read_from = 2 * len(start)
            exchange.pieces = [start]

    # Requests, until they are sent to the broker

    def _enqueue(self, exchange: Exchange) -> None:
        """Send a request at once, or after those that wait."""
        exchange.transition_to(ExchangeState.READY)
        if self._pending.exchanges:
            self._pending.add(exchange)
            self._suspend_if_many()
        else:
            self._release(exchange)

    @property
    def may_change_policies(self) -> bool:
        """Whether a request that has not been sent yet may change the policies of topics."""
        return self._pending.may_change_policies

    @property
    def has_undecided(self) -> bool:
        """Whether the decision about a Produce request is missing."""
        return self._pending.has_undecided

    @property
    def has_waiting(self) -> bool:
        """Whether a request waits: for a decision, or for a request before it."""
        return bool(self._pending.exchanges)

    @property
    def follows_retried(self) -> bool:
        """Whether the broker had batches retried after the request that is read was received."""
        return bool(self._retried) or self._is_reading_retried

    def _enqueue_held(self, exchange: Held) -> None:
        may_start = self._pending.add_held(exchange)
        self._suspend_if_many()
        if may_start:
            exchange.start()

    def advance(self) -> None:
        """Send the requests that are ready, in order."""
        if self._is_reading_retried:
            self._is_due_again = True
            return
        pending = self._pending
        while pending.exchanges and self._phase is not SessionPhase.CLOSED:
            ready = pending.take_ready()
            if ready is not None:
                self._release(ready)
            elif not pending.decide_next():
                break
        if pending.exchanges:
            exclusive = pending.first_if_exclusive()
            if exclusive is not None:
                exclusive.run_handler()
            elif self._phase is not SessionPhase.CLOSED:
                pending.start_next()
        self._resume_if_possible()
        self._on_progress()
        if self._phase is SessionPhase.ENDING:
            self._end_when_idle()

    def _suspend_if_many(self) -> None:
        if len(self._pending.exchanges) >= PENDING_MAX or len(self._unanswered) >= UNANSWERED_MAX:
            self._requests.suspend()

    def _resume_if_possible(self) -> None:
        """Process further requests again if no limit is reached any more."""
        if (
            self._requests.is_suspended
            and len(self._pending.exchanges) <= PENDING_MAX // 2
            and len(self._unanswered) <= UNANSWERED_MAX // 2
            and not self.authentication.awaits_response
            and not self._opening.is_running
        ):
            self._requests.resume()
            self._on_progress()

    def _release(self, exchange: Exchange) -> None:
        self._waiting_bytes -= exchange.waiting_bytes
        outgoing = exchange.outgoing()
        if outgoing:
            self._upstream.writelines(outgoing)
        if not exchange.expects_response:
            if self._answered is not None:
                self._answered(exchange)
            if outgoing is None:
                exchange.transition_to(ExchangeState.COMPLETED)
            else:
                exchange.transition_to(ExchangeState.SENT)
                self._unconfirmed = True
            if exchange.closes_connection:
                self._disconnect_after_error()
            return
        self._unanswered.append(exchange)
        self._unanswered_size += UNANSWERED_BYTES + exchange.size
        self._suspend_if_many()
        if outgoing is None:
            exchange.transition_to(ExchangeState.LOCAL_RESPONSE)
            self._flush()
        else:
            exchange.transition_to(ExchangeState.SENT)
            self._expected.append(exchange)
            if exchange.was_held and self._counts is not None:
                exchange.sent_at = self._clock()

    def _disconnect_after_error(self) -> None:
        """Disconnect, as a broker does to report an error of a request with acks=0."""
        self._requests.stop()
        self._receiving = None  # the rest of it will not be received
        self._cancel_pending()
        self._unconfirmed = True
        self.end()

    def _cancel_pending(self) -> None:
        self._opening.stop()
        for policies in self._pending.cancel():
            policies.cancel(self.number)
            policies.cancel(without_response(self.number))

    # Responses

    def _response_head(self, head: bytes) -> bool:
        if not self._expected:
            raise WireError("a response to no request")
        expected = self._expected[0]
        if INT32.unpack_from(head, 4)[0] != expected.correlation_id:
            raise WireError("a response to another request than the next one")
        if isinstance(expected, OwnRequest):
            self._rewriter, is_collected = None, True
        else:
            self._rewriter = expected.rewriter
            is_collected = (
                expected.transform is not None or self._reader_of_retried(expected) is not None
            )
        if is_collected and (size := INT32.unpack_from(head)[0]) > COLLECTED_MAX_BYTES:
            raise WireError(f"a response of {size} bytes; the most is {COLLECTED_MAX_BYTES}")
        return is_collected

    def _response_frame(self, frame: bytes) -> None:
        expected = self._expected.popleft()
        if isinstance(expected, OwnRequest):
            expected.on_response(frame)
            if self._phase is SessionPhase.ENDING:
                self._end_when_idle()
            return
        transform, expected.transform = expected.transform, None
        response: Buffers | Slices[Buffers]
        read_retried = self._reader_of_retried(expected)
        if read_retried is not None:
            response = self._read_response(expected, read_retried, transform, frame)
        else:
            response = transform(frame) if transform is not None else [frame]
        if isinstance(response, Generator):
            self._work_on(response, partial(self._respond, expected), _SIZE_OF_WORK * len(frame))
        else:
            self._respond(expected, response)

    def _reader_of_retried(self, exchange: Exchange) -> ReadRetried | None:
        """Return what reads in a response whose batches are retried; None if no request waits."""
        if self._pending.exchanges or self._opening.is_running or self.has_received_more:
            return self._route(exchange.api_key).read_retried
        return None

    def _read_response(
        self,
        exchange: Exchange,
        read_retried: ReadRetried,
        transform: Transform | None,
        frame: bytes,
    ) -> Slices[Buffers]:
        """Let the waiting requests know whose batches the client retries; return the response.

        Until they know, none of them is sent.
        """
        self._is_reading_retried = True
        try:
            partitions = yield from read_retried(frame, exchange.version)
            if partitions:
                self._follow((yield from exchange.retried(partitions)))
        finally:
            self._is_reading_retried = False
        if self._is_due_again:
            self._is_due_again = False
            self.advance()
        response = transform(frame) if transform is not None else [frame]
        return (yield from response) if isinstance(response, Generator) else response

    def _follow(self, retried: RetriedBatches) -> None:
        for exchange in self._pending.exchanges:
            exchange.follow(retried)
        if self._opening.is_running or self.has_received_more:
            self._retried = merged(self._retried, retried)

    def _respond(self, exchange: Exchange, response: Buffers) -> None:
        """Send a response that has been collected."""
        exchange.response = response
        if self.authentication.is_done:
            self._requests.max_bytes = self._request_max_bytes
        self._flush()
        self._resume_if_possible()
        if self._phase is SessionPhase.ENDING:
            self._end_when_idle()

    def _response_piece(self, piece: bytes | memoryview, last: bool) -> None:
        if self._rewriter is not None:
            self._rewrite(self._rewriter, bytes(piece), last)
            return
        self._client.write(piece)
        if last:
            self._response_streamed()

    def _response_streamed(self) -> None:
        self._expected.popleft()
        self._complete(self._unanswered.popleft())
        self._flush()
        self._resume_if_possible()
        if self._phase is SessionPhase.ENDING:
            self._end_when_idle()

    def _rewrite(self, rewriter: Rewriter, piece: bytes, last: bool) -> None:
        """Stream a part of a response with a few changed bytes."""

        def on_done(buffers: Buffers) -> None:
            self._client.writelines(buffers)
            if last:
                self._response_streamed()

        self._work_on(rewriter.rewrite(piece), on_done, len(piece))

    # Work on responses, in slices

    def _work_on(
        self, slices: Slices[Buffers], on_done: Callable[[Buffers], None], size: int
    ) -> None:
        """Work on a response; bytes that the broker sends meanwhile are kept."""

        def on_result(buffers: Buffers, has_waited: bool) -> None:
            if has_waited:
                self._responses.resume()
            on_done(buffers)
            if has_waited:
                self._on_progress()

        if self._answering.begin(self.gateway.turns, slices, on_result, self.fail, size):
            self._responses.interrupt()

    def _flush(self) -> None:
        """Send the responses that are next in order.

        Local responses are made only now: clients take a success as that of all batches before.
        """
        while self._unanswered and not self._answering.is_running:
            first = self._unanswered[0]
            response = first.response
            if first.state is ExchangeState.LOCAL_RESPONSE and response is None:
                local_response = first.local_response()
                if isinstance(local_response, Generator):
                    self._work_on(local_response, partial(self._respond, first), first.size)
                    return
                response = local_response
            if response is None:
                break
            self._complete(self._unanswered.popleft())
            self._client.writelines(response)

    def _complete(self, exchange: Exchange) -> None:
        exchange.transition_to(ExchangeState.COMPLETED)
        self._unanswered_size -= UNANSWERED_BYTES + exchange.size
        if self._answered is not None:
            self._answered(exchange)

    # Requests of the gateway's own

    def send_request(
        self,
        request: Callable[[int], bytes],
        on_response: Callable[[bytes], None],
        *,
        correlation_id: int = OWN_CORRELATION_ID,
    ) -> None:
        """Send a request of the gateway's own to the broker, over the client's connection.

        Args:
            request: Returns the frame for a correlation id.
            on_response: Called with the frame of the response.
        """
        self._expected.append(OwnRequest(on_response, correlation_id))
        self._upstream.write(request(correlation_id))

    def hold(self, exchange: Held, size: int) -> None:
        """Count memory that a waiting request uses from now on; less, if `size` is negative."""
        exchange.size += size
        self._waiting_bytes += size

    @property
    def may_support_describe_producers(self) -> bool:
        """Whether the broker may support DescribeProducers: True until it is known."""
        return self._supports_describe_producers is not False

    @property
    def supports_leader_epochs(self) -> bool:
        """Whether the broker, if it supports DescribeProducers, returns the ends of epochs."""
        return self._supports_leader_epochs

    def check_describe_producers_support(self, on_known: Callable[[bool], None]) -> None:
        """Call `on_known` with whether the broker supports DescribeProducers (KIP-664)."""
        is_supported = self._supports_describe_producers
        if is_supported is not None:
            on_known(is_supported)
            return

        def on_response(frame: bytes) -> None:
            is_supported = self._supports_describe_producers = producers.is_supported(frame)
            self._supports_leader_epochs = leaders.are_epochs_supported(frame)
            on_known(is_supported)

        self.send_request(producers.api_versions_request, on_response)

    # The end

    def fail(self) -> None:
        """Close both connections after an error."""
        self._finish()

    def _end_when_idle(self) -> None:
        if self._phase is SessionPhase.CLOSED or not self._is_idle:
            return
        if self._unconfirmed:
            # Requests with acks=0 have no response, and closing may reset the connection before
            # the broker has read them. The response to another request shows that it has.
            self._unconfirmed = False
            self._expected.append(OwnRequest(lambda _: None))
            self._upstream.write(_BARRIER)
            return
        self._finish()

    @property
    def _is_idle(self) -> bool:
        """Whether no request is received, processed or awaited."""
        return not (
            self._receiving is not None
            or self._opening.is_running
            or self._pending.exchanges
            or self._expected
            or self._unanswered
        )

    def _finish(self) -> None:
        if self._phase is not SessionPhase.CLOSED:
            self.closed()
            self._on_done()


def _is_streamed(exchange: Exchange | None) -> TypeGuard[Streamed]:
    """Return whether a request is forwarded without being read."""
    return isinstance(exchange, Streamed) and exchange.is_streamed

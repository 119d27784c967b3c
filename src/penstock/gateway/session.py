"""One client's conversation with one broker, without sockets: bytes in, bytes out.

Theory of operation. Requests are cut into frames. Most are streamed on as they come. A
Produce request is held, judged, and released; what came after it waits behind it, so that
requests reach the broker in the client's order. Released requests stand in `_replies` in
that order; those that the broker was sent stand in `_expected` too, along with questions of
our own. A broker answers in order, so its next response belongs to the first of `_expected`,
and that one is always the first of `_replies` by then, unless it is our own question.

Rules for the next editor: nothing here blocks; nothing is sent to the broker in the middle
of a streamed request; an exchange is answered exactly once.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from typing import TYPE_CHECKING, Protocol

from penstock.gateway.handlers.conversation import ConversationExchange
from penstock.gateway.handlers.end_txn import end_txn
from penstock.gateway.handlers.produce import KnownTopics, ProduceExchange, without_answer
from penstock.gateway.routing import (
    API_VERSIONS,
    BEFORE_LOGIN,
    END_TXN,
    METADATA,
    PRODUCE,
    RANGES,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    in_range,
    may_hold_addresses,
)
from penstock.wire import api_versions, produce, producers, sasl, transactions
from penstock.wire.addresses import replace_addresses
from penstock.wire.errors import WireError
from penstock.wire.frames import REQUEST_HEAD_BYTES, RESPONSE_HEAD_BYTES, FrameReader
from penstock.wire.primitives import INT16, INT32

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from penstock.gateway.addresses import Addresses
    from penstock.gateway.cluster_view import ClusterView
    from penstock.gateway.handlers.conversation import Handler
    from penstock.gateway.handlers.produce import Policies
    from penstock.gateway.message_sizes import MessageSizes
    from penstock.gateway.producer_state.cluster import ClusterStore
    from penstock.gateway.producer_state.producers import Producers
    from penstock.gateway.refusals import Refused
    from penstock.gateway.topic_settings import TopicSettings
    from penstock.gateway.transactions import EmptyTransactions

    Buffers = Sequence[bytes | memoryview]

RESPONSE_MOST_BYTES = 2**31 - 1
PENDING_MOST = 64
"""So many requests of one client are looked at ahead of the one that goes to the broker next:
more would only wait in line, before those of other clients."""
_OWN_CORRELATION_ID = 0x50454E53
_numbers = itertools.count(1)
_SASL = frozenset({SASL_HANDSHAKE, SASL_AUTHENTICATE})
_BARRIER = INT32.pack(10) + INT16.pack(API_VERSIONS) + INT16.pack(0)
_BARRIER += INT32.pack(_OWN_CORRELATION_ID) + INT16.pack(-1)
REPLIES_MOST = 256
"""A client is not read while it has so many requests without an answer."""
_REPLY_BYTES = 500
"""What one of them takes, about, besides what it holds."""


class Transport(Protocol):
    """What a session writes to."""

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes."""

    def writelines(self, data: Iterable[bytes | memoryview]) -> None:
        """Send several buffers, in order."""


class Host(Protocol):
    """What a session needs of the gateway."""

    @property
    def policies(self) -> Policies:
        """The policies in force now."""

    @property
    def addresses(self) -> Addresses:
        """Where brokers are."""

    @property
    def producers(self) -> Producers:
        """The state of producers whose records were dropped."""

    @property
    def shared_producers(self) -> ClusterStore | None:
        """What other gateways keep of producers; None where there is only this one."""

    @property
    def transactions(self) -> EmptyTransactions:
        """The transactions of which every record was dropped."""

    @property
    def sizes(self) -> MessageSizes:
        """How large batches may be."""

    def refused(self, refused: Refused) -> None:
        """Records were refused."""

    @property
    def settings(self) -> TopicSettings | None:
        """The topic level keys set through admin tools; None where there are none."""

    @property
    def view(self) -> ClusterView:
        """The cluster as the gateway's own principal sees it."""

    def topic_deleted(self, name: str) -> None:
        """A topic is gone."""

    @property
    def requires_sasl(self) -> bool:
        """Whether clients have to authenticate to the cluster before anything else."""

    @property
    def sasl_most_bytes(self) -> int:
        """The largest request of a client that has not (`sasl.server.max.receive.size`)."""

    def clock(self) -> float:
        """Give the time in seconds; it never goes back."""

    def conversation(self, api_key: int) -> Handler | None:
        """Give who answers the requests of an API, where that takes more than to pass them on."""

    def run(self, coroutine: Coroutine[object, object, object]) -> asyncio.Task[object]:
        """Run a coroutine beside the sessions."""


class Exchange:
    """A request on its way, and the response to it."""

    __slots__ = ("answer", "answered", "api_key", "complete", "correlation_id", "flowing",
                 "handler", "pieces", "started", "transform", "version")  # fmt: skip

    def __init__(self, api_key: int, version: int, correlation_id: int) -> None:
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.pieces: list[bytes | memoryview] = []
        self.complete = False
        self.started = True
        self.flowing = False
        self.answered = True
        self.transform: Callable[[bytes], Buffers] | None = None
        self.answer: Buffers | None = None
        self.handler: Handler | None = None

    @property
    def ready(self) -> bool:
        """Whether it may go to the broker."""
        return True


Held = ProduceExchange | ConversationExchange
"""Requests that are held until it is decided what becomes of them."""


class Question:
    """A request of our own."""

    __slots__ = ("correlation_id", "on_response")

    def __init__(self, on_response: Callable[[bytes], None]) -> None:
        self.correlation_id = _OWN_CORRELATION_ID
        self.on_response = on_response


class Session:
    """The state of one conversation."""

    def __init__(
        self,
        host: Host,
        *,
        client: Transport,
        upstream: Transport,
        request_most_bytes: int,
        on_done: Callable[[], None],
        on_progress: Callable[[], None],
        peer: str | None = None,
    ) -> None:
        """Begin.

        Args:
            host: The gateway.
            client: Where responses go.
            upstream: Where requests go.
            request_most_bytes: `socket.request.max.bytes`.
            on_done: Called when both connections are to be closed: what was written may
                still be flushed, nothing more will come.
            on_progress: Called when what waited for a verdict has moved on.
            peer: Who the client is by its certificate.
        """
        self.host = host
        self._client = client
        self._upstream = upstream
        self._on_done = on_done
        self._on_progress = on_progress
        self.topics = KnownTopics()
        self.number = next(_numbers)
        self._peer = peer
        self._authentication = sasl.Authentication()
        self._uses_sasl = False
        self._authenticated_until = math.inf
        self._request_most_bytes = request_most_bytes
        self._requests = FrameReader(
            head_bytes=REQUEST_HEAD_BYTES,
            most_bytes=host.sasl_most_bytes if host.requires_sasl else request_most_bytes,
            on_head=self._request_head,
            on_frame=self._request_frame,
            on_piece=self._request_piece,
        )
        self._responses = FrameReader(
            head_bytes=RESPONSE_HEAD_BYTES,
            most_bytes=RESPONSE_MOST_BYTES,
            on_head=self._response_head,
            on_frame=self._response_frame,
            on_piece=self._response_piece,
        )
        self._arriving: Exchange | None = None
        self._pending: deque[Exchange | Held] = deque()
        self._replies: deque[Exchange | Held] = deque()
        self._expected: deque[Exchange | Held | Question] = deque()
        self._unbegun: deque[ProduceExchange] = deque()
        self._undecided: deque[ProduceExchange] = deque()
        self._describes_producers: bool | None = None
        self._waiting_bytes = 0
        self._unanswered_bytes = 0
        self._unconfirmed = False
        self._has_asked = False
        self._ending = False
        self._done = False

    # What the shell tells

    def client_data(self, data: bytes) -> None:
        """Take bytes from the client.

        Raises:
            WireError: They are not Kafka's protocol; the connection cannot go on.
        """
        self._requests.feed(data)
        if self._ending and self._requests.between_frames:
            self._requests.stop()

    def upstream_data(self, data: bytes) -> None:
        """Take bytes from the broker.

        Raises:
            WireError: They are not Kafka's protocol; the connection cannot go on.
        """
        self._responses.feed(data)

    def client_gone(self) -> None:
        """Nothing more comes from the client: what it sent is still stored, if it is judged."""
        self.withdraw_waiting()
        self._requests.stop()
        if self._arriving is not None and not self._arriving.complete:
            if self._arriving.flowing:
                self._finish()  # the broker has half of a request, and will never have the rest
                return
            if self._pending and self._pending[-1] is self._arriving:
                self._pending.pop()
            self._arriving = None
        self.end()

    @property
    def missing_bytes(self) -> int:
        """How much of the client's present request has not come yet."""
        return self._requests.missing_bytes

    @property
    def awaits_nothing_of_use(self) -> bool:
        """Whether the broker's answers would be for the client only."""
        return (
            not self._pending
            and not self._unconfirmed
            and all(isinstance(one, Exchange) for one in self._expected)
        )

    def withdraw_waiting(self) -> None:
        """Judge no more for a client that is gone than what is begun: it takes no answers.

        What it asked no answer for is judged: nobody would send that again.
        """
        for policies in self._policies_asked():
            policies.withdraw(self)

    def end(self) -> None:
        """Answer what is in flight, take nothing new, and be done."""
        self._ending = True
        if self._requests.between_frames:
            self._requests.stop()
        self._end_when_idle()

    def closed(self) -> None:
        """Nothing more can be sent to either side."""
        self._done = True
        self._abandon_pending()
        self._requests.stop()
        self._responses.stop()
        # Large, and in circles of references that are found late.
        self._arriving = None
        self._expected.clear()
        self._replies.clear()

    @property
    def principal(self) -> str | None:
        """Who the client is: as it authenticated to the broker, or by its certificate.

        A certificate does not speak for a client that authenticates by SASL.
        """
        return self._authentication.principal if self._uses_sasl else self._peer

    @property
    def has_begun(self) -> bool:
        """Whether a whole request has come, and the client has authenticated if it has to."""
        return self._has_asked and (not self.host.requires_sasl or self._authentication.is_complete)

    @property
    def is_suspended(self) -> bool:
        """Whether no further request of the client is looked at for now."""
        return self._requests.is_suspended

    @property
    def held_bytes(self) -> int:
        """How many bytes of the client are held.

        Of requests that are half there, that wait, and that were looked at and have no answer.
        """
        return (
            self._waiting_bytes
            + self._unanswered_bytes
            + self._requests.held_bytes
            + self._responses.held_bytes
        )

    @property
    def waiting_bytes(self) -> int:
        """How many bytes wait behind a verdict, or are held for one."""
        return self._waiting_bytes

    # Requests

    def _request_head(self, head: bytes) -> bool:
        api_key = INT16.unpack_from(head, 4)[0]
        version = INT16.unpack_from(head, 6)[0]
        exchange = Exchange(api_key, version, INT32.unpack_from(head, 8)[0])
        if api_key == API_VERSIONS and version > api_versions.LAST_VERSION:
            self._arriving = exchange
            return True
        if not in_range(api_key, version):
            raise WireError(f"API key {api_key} version {version}")
        if self.host.requires_sasl and api_key not in BEFORE_LOGIN:
            self._check_login(api_key)
        self._arriving = exchange
        if api_key == PRODUCE:
            return self._produce_head(exchange)
        if api_key == API_VERSIONS:
            exchange.transform = lambda frame: api_versions.narrow(frame, version, RANGES)
        elif may_hold_addresses(api_key, version):
            replace = self.host.addresses.for_clients
            if api_key == METADATA:
                replace = self.host.addresses.learn_for_clients
            exchange.transform = lambda frame: replace_addresses(frame, api_key, version, replace)
        elif api_key == SASL_AUTHENTICATE:
            exchange.transform = lambda frame: self._authenticated(frame, version)
        exchange.handler = self.host.conversation(api_key)
        if api_key == END_TXN and version == transactions.VERSION and self.host.transactions:
            exchange.handler = end_txn
        if exchange.handler is not None or api_key in _SASL:
            return True
        self._enqueue(exchange)
        return False

    def _check_login(self, api_key: int) -> None:
        """See that a client has authenticated, as brokers do: they close the connection, too.

        What is refused here is answered without the broker, so it cannot be left to it.
        """
        if not self._authentication.is_complete:
            raise WireError(f"API key {api_key} before it has authenticated")
        if self.host.clock() > self._authenticated_until:
            raise WireError(f"API key {api_key} after its authentication has expired")

    def _authenticated(self, frame: bytes, version: int) -> Buffers:
        accepted = sasl.authenticated(frame, version)
        has_authenticated = self._authentication.answered(accepted)
        self._uses_sasl = self._uses_sasl or accepted is not None
        if has_authenticated:
            lifetime_ms = sasl.session_lifetime_ms(frame, version)
            self._authenticated_until = (
                self.host.clock() + lifetime_ms / 1000 if lifetime_ms else math.inf
            )
        if self._authentication.is_complete:
            self._requests.most_bytes = self._request_most_bytes
        return [frame]

    def _produce_head(self, exchange: Exchange) -> bool:
        host = self.host
        judged = (
            not host.policies.plan.is_empty or host.settings is not None or bool(host.producers)
        )
        if exchange.version < produce.FIRST_VERSION:
            if judged:
                # Kafka 4 serves none of them; an older broker would store them unjudged.
                raise WireError(f"Produce version {exchange.version}")
            self._enqueue(exchange)
            return False
        if may_hold_addresses(PRODUCE, exchange.version):
            version = exchange.version
            exchange.transform = lambda frame: replace_addresses(
                frame, PRODUCE, version, host.addresses.learn_for_clients
            )
        # Streamed if nothing judges it, but whether an answer will come stands behind the head.
        exchange.started = False
        return judged

    def _request_frame(self, frame: bytes) -> None:
        self._has_asked = True
        arriving, self._arriving = self._arriving, None
        assert arriving is not None
        arriving.complete = True
        if arriving.api_key == API_VERSIONS:
            arriving.answer = [api_versions.unsupported(arriving.correlation_id)]
            self._enqueue(arriving)
            return
        if arriving.api_key in _SASL:
            if arriving.api_key == SASL_HANDSHAKE:
                self._authentication.handshake(sasl.read_handshake(frame))
            else:
                self._authentication.sent(sasl.read_authenticate(frame))
                if self.host.requires_sasl:
                    self._requests.suspend()  # what it may send next, the answer will tell
            self._hold(arriving, frame)
            self._enqueue(arriving)
            return
        exchange: Held
        if arriving.handler is not None:
            exchange = ConversationExchange(frame, arriving, arriving.handler)
        else:
            exchange = ProduceExchange(produce.read_request(frame), self.host, arriving)
        self._waiting_bytes += exchange.size
        after_conversation = bool(self._pending) and (
            bool(self._unbegun)
            or any(isinstance(one, ConversationExchange) for one in self._pending)
        )
        self._pending.append(exchange)
        if isinstance(exchange, ProduceExchange):
            self._undecided.append(exchange)
        self._look_at_length()
        if after_conversation and isinstance(exchange, ProduceExchange):
            # What the conversation is about may be what judges the records.
            self._unbegun.append(exchange)
        else:
            exchange.begin(self)

    def _request_piece(self, piece: bytes | memoryview, last: bool) -> None:
        exchange = self._arriving
        assert exchange is not None
        exchange.complete = last
        self._has_asked = self._has_asked or last
        if exchange.flowing:
            self._upstream.write(piece)
        elif not exchange.started:
            self._start_produce(exchange, piece)
        else:
            self._hold(exchange, piece)
        if last:
            self._arriving = None
            if self._ending:
                self._end_when_idle()

    def _start_produce(self, exchange: Exchange, piece: bytes | memoryview) -> None:
        """Stream a Produce request on as soon as it is known whether an answer will come."""
        self._hold(exchange, piece)
        pieces = exchange.pieces
        acks = produce.read_acks(bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces))
        if acks is not None:
            exchange.started = True
            exchange.answered = acks != 0
            self._enqueue(exchange)
        elif exchange.complete:
            raise WireError("a Produce request that ends too early")

    def _hold(self, exchange: Exchange, piece: bytes | memoryview) -> None:
        exchange.pieces.append(bytes(piece))
        self._waiting_bytes += len(piece)

    def _enqueue(self, exchange: Exchange) -> None:
        """Send a request on at once, or behind those that wait."""
        if self._pending:
            self._pending.append(exchange)
            self._look_at_length()
        else:
            self._release(exchange)

    def advance(self) -> None:
        """Send on what has been decided, in order."""
        while not self._done:
            if self._pending and self._pending[0].ready:
                self._release(self._pending.popleft())
            elif not self._decide_next():
                break
        if self._pending and isinstance(self._pending[0], ConversationExchange):
            self._pending[0].proceed()
        elif self._unbegun and not self._done:
            self._begin_next()
        self._go_on()
        self._on_progress()
        if self._ending:
            self._end_when_idle()

    def _look_at_length(self) -> None:
        if len(self._pending) >= PENDING_MOST or len(self._replies) >= REPLIES_MOST:
            self._requests.suspend()

    def _go_on(self) -> None:
        """Look at requests again that were put aside, if nothing is against it any more."""
        if (
            self._requests.is_suspended
            and len(self._pending) <= PENDING_MOST // 2
            and len(self._replies) <= REPLIES_MOST // 2
            and not (self.host.requires_sasl and self._authentication.undecided)
        ):
            self._requests.resume()
            self._on_progress()

    def _decide_next(self) -> bool:
        """Decide what becomes of the next produce request, if all before it are decided."""
        if not self._undecided:
            return False
        exchange = self._undecided[0]
        if not exchange.decide(is_next=self._pending[0] is exchange):
            return False
        self._undecided.popleft()
        return True

    def _begin_next(self) -> None:
        """Begin the produce requests that stood behind a conversation, up to the next one."""
        for exchange in list(self._pending):
            if isinstance(exchange, ConversationExchange):
                return
            if self._unbegun and exchange is self._unbegun[0]:
                self._unbegun.popleft().begin(self)

    def _release(self, exchange: Exchange | Held) -> None:
        if not isinstance(exchange, Exchange):
            self._release_held(exchange)
            return
        if exchange.answer is not None:
            self._await_answer(exchange)
            self._flush()
            return
        exchange.flowing = True
        if exchange.answered:
            self._await_answer(exchange)
            self._expected.append(exchange)
        else:
            self._unconfirmed = True
        if exchange.pieces:
            self._waiting_bytes -= sum(map(len, exchange.pieces))
            self._upstream.writelines(exchange.pieces)
            exchange.pieces = []

    def _release_held(self, exchange: Held) -> None:
        self._waiting_bytes -= exchange.size
        outgoing = exchange.outgoing()
        if outgoing:
            self._upstream.writelines(outgoing)
        if exchange.unanswered:
            self._unconfirmed = self._unconfirmed or bool(outgoing)
            if exchange.breaks_off:
                self._break_off()
            return
        self._await_answer(exchange)
        if outgoing:
            self._expected.append(exchange)
        else:
            exchange.is_local = True
            self._flush()

    def _await_answer(self, exchange: Exchange | Held) -> None:
        self._replies.append(exchange)
        self._unanswered_bytes += _REPLY_BYTES
        if not isinstance(exchange, Exchange):
            self._unanswered_bytes += exchange.size
        self._look_at_length()

    def _break_off(self) -> None:
        """End as a broker does after an error that acks=0 leaves it no way to tell."""
        self._requests.stop()
        self._abandon_pending()
        self._unconfirmed = True
        self.end()

    def _abandon_pending(self) -> None:
        asked = self._policies_asked()
        for exchange in self._pending:
            if not isinstance(exchange, Exchange):
                exchange.abandon()
        self._pending.clear()
        self._unbegun.clear()
        self._undecided.clear()
        for policies in asked:
            policies.withdraw(self)
            policies.withdraw(without_answer(self))

    def _policies_asked(self) -> Sequence[Policies]:
        """Give the policies that judge what waits; after SIGHUP there may be two."""
        produced = (one for one in self._pending if isinstance(one, ProduceExchange))
        return list({id(one.policies): one.policies for one in produced}.values())

    # Responses

    def _response_head(self, head: bytes) -> bool:
        if not self._expected:
            raise WireError("a response to no request")
        expected = self._expected[0]
        if INT32.unpack_from(head, 4)[0] != expected.correlation_id:
            raise WireError("a response to another request than the next one")
        return isinstance(expected, Question) or expected.transform is not None

    def _response_frame(self, frame: bytes) -> None:
        expected = self._expected.popleft()
        if isinstance(expected, Question):
            expected.on_response(frame)
        else:
            transform, expected.transform = expected.transform, None
            assert transform is not None
            expected.answer = transform(frame)
            self._flush()
            self._go_on()
        if self._ending:
            self._end_when_idle()

    def _response_piece(self, piece: bytes | memoryview, last: bool) -> None:
        self._client.write(piece)
        if last:
            self._expected.popleft()
            self._answered(self._replies.popleft())
            self._flush()
            self._go_on()
            if self._ending:
                self._end_when_idle()

    def _flush(self) -> None:
        """Send the answers that are next in turn.

        What the broker was not asked is answered only now: success may be told only when all
        that came before is answered.
        """
        while self._replies:
            first = self._replies[0]
            if first.answer is None and not isinstance(first, Exchange) and first.is_local:
                first.answer = first.local_answer()
            if first.answer is None:
                break
            self._answered(first)
            self._client.writelines(self._replies.popleft().answer or ())

    def _answered(self, exchange: Exchange | Held) -> None:
        self._unanswered_bytes -= _REPLY_BYTES
        if not isinstance(exchange, Exchange):
            self._unanswered_bytes -= exchange.size

    # Questions of our own

    def ask(self, request: Callable[[int], bytes], on_response: Callable[[bytes], None]) -> None:
        """Ask the broker something over the client's connection.

        Args:
            request: Makes the frame from a correlation id.
            on_response: Called with the response's frame.
        """
        self._expected.append(Question(on_response))
        self._upstream.write(request(_OWN_CORRELATION_ID))

    @property
    def can_ask_of_producers(self) -> bool:
        """Whether the broker may tell how far producers have come: it has not said that not."""
        return self._describes_producers is not False

    def ask_whether_served(self, on_known: Callable[[bool], None]) -> None:
        """Find out whether this broker tells how far producers have come (KIP-664)."""
        known = self._describes_producers
        if known is not None:
            on_known(known)
            return

        def told(frame: bytes) -> None:
            known = self._describes_producers = producers.is_served(frame)
            on_known(known)

        self.ask(producers.served_request, told)

    def fail(self) -> None:
        """Give up: what the broker answered cannot be dealt with."""
        self._finish()

    def _end_when_idle(self) -> None:
        if self._done or self._pending or self._expected or self._replies:
            return
        if self._arriving is not None and not self._arriving.complete:
            return
        if self._unconfirmed:
            # What was sent with acks=0 is confirmed by nothing, and closing may reset the
            # connection before the broker has read it: ask something, and wait for that.
            self._unconfirmed = False
            self._expected.append(Question(lambda _: None))
            self._upstream.write(_BARRIER)
            return
        self._finish()

    def _finish(self) -> None:
        if not self._done:
            self.closed()
            self._on_done()

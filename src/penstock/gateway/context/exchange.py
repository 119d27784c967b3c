"""Exchanges: a request and its response, with a state.

Most requests are streamed: their bytes are forwarded as they are received, and so are those of
their responses. Others are held until a decision about the request for the broker (`Held`).
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from penstock.kafka.records.header import BatchProducer
    from penstock.kafka.wire.requests.share_fetch import Rewriter
    from penstock.kafka.wire.slices import Slices

    Buffers = Sequence[bytes | memoryview]
    Transform = Callable[[bytes], Buffers | Slices[Buffers]]
    """Turns the broker's response into the client's, at once or in slices."""
    RetriedBatches = Mapping[tuple[bytes, int], BatchProducer | None]
    """Batches to which the broker has responded with a retriable error, by topic, as in the
    request, and partition: their place in the sequence of their producer; None if not known."""


class ExchangeState(Enum):
    """The state of an exchange."""

    RECEIVING = auto()
    """The header of the request has been received."""
    PROCESSING = auto()
    """The request is held: policies, or requests of the gateway's own, have yet to finish."""
    READY = auto()
    """The request can be sent when all requests before it have been sent."""
    SENT = auto()
    """The request, or a part of it, has been or is being sent to the broker."""
    LOCAL_RESPONSE = auto()
    """Nothing is sent to the broker; the gateway responds when it is this request's turn."""
    COMPLETED = auto()
    """The response has been sent, or the client expects none."""
    CANCELLED = auto()
    """The connection is closed."""

    __hash__ = object.__hash__  # that of Enum is written in Python, and called for each step


TRANSITIONS: Final[dict[ExchangeState, frozenset[ExchangeState]]] = {
    ExchangeState.RECEIVING: frozenset(
        {ExchangeState.PROCESSING, ExchangeState.READY, ExchangeState.CANCELLED}
    ),
    ExchangeState.PROCESSING: frozenset({ExchangeState.READY, ExchangeState.CANCELLED}),
    ExchangeState.READY: frozenset(
        {
            ExchangeState.SENT,
            ExchangeState.LOCAL_RESPONSE,
            ExchangeState.COMPLETED,
            ExchangeState.CANCELLED,
        }
    ),
    ExchangeState.SENT: frozenset({ExchangeState.COMPLETED, ExchangeState.CANCELLED}),
    ExchangeState.LOCAL_RESPONSE: frozenset({ExchangeState.COMPLETED, ExchangeState.CANCELLED}),
    ExchangeState.COMPLETED: frozenset(),
    ExchangeState.CANCELLED: frozenset({ExchangeState.CANCELLED}),
}


class JudgingPolicies(Protocol):
    """The policies that judge a request, as far as the end of its connection concerns them."""

    @property
    def cancel(self) -> Callable[[Hashable], None]:
        """Cancels the waiting jobs of a client."""

    @property
    def leave(self) -> Callable[[Hashable], None]:
        """Has all clients that are gone share a turn."""


class Exchange:
    """A request and its response.

    Attributes:
        api_key: The API key of the request.
        version: The version of the request.
        correlation_id: The client's correlation id.
        expects_response: Whether there is a response; there is none to a Produce request with
            acks=0.
        transform: Turns the broker's response into the client's; None to stream it.
        rewriter: Changes a response that is streamed; None to leave it unchanged.
        response: The response for the client, once it is known.
        size: The memory that is used until the response is sent, in bytes.
        was_held: Whether it is sent only when it is complete, because of its policies.
        received_at: When its first bytes were received, by the gateway's clock, if that is counted.
        sent_at: When it was sent to the broker, if it was held, and that is counted.
    """

    __slots__ = ("api_key", "correlation_id", "expects_response", "received_at", "response",
                 "rewriter", "sent_at", "size", "state", "transform", "version",
                 "was_held")  # fmt: skip

    is_exclusive: ClassVar[bool] = False
    """Whether it is processed alone: after all requests before it, before all that follow."""
    is_judged: ClassVar[bool] = False
    """Whether it is processed concurrently with others, and decided in order (`Held.decide`)."""

    def __init__(
        self, api_key: int, version: int, correlation_id: int, state: ExchangeState
    ) -> None:
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.state = state
        self.expects_response = True
        self.transform: Transform | None = None
        self.rewriter: Rewriter | None = None
        self.response: Buffers | None = None
        self.size = 0
        self.was_held = False
        self.received_at = self.sent_at = 0.0

    def transition_to(self, state: ExchangeState) -> None:
        """Change the state."""
        assert state in TRANSITIONS[self.state], f"{self.state.name} to {state.name}"
        self.state = state

    @property
    def policies(self) -> JudgingPolicies | None:
        """The policies that judge the request, or None."""
        return None

    @property
    def waiting_bytes(self) -> int:
        """The bytes that are held until the request is sent to the broker."""
        return self.size

    @property
    def is_needed_after_disconnect(self) -> bool:
        """Whether the broker's response is still needed when the client has disconnected."""
        return False

    @property
    def error_code(self) -> int:
        """The first error that the gateway itself answers with; 0 without one, or if not known."""
        return 0

    @property
    def closes_connection(self) -> bool:
        """Whether the connection is closed afterwards: with acks=0 that reports an error."""
        return False

    def retried(self, partitions: Sequence[tuple[bytes, int]]) -> Slices[RetriedBatches]:
        """Return the batches of the request for partitions for which the client retries them.

        Args:
            partitions: The topics, as in the request, and partitions.

        Yields:
            After each slice.
        """
        yield from ()
        return dict.fromkeys(partitions)

    def follow(self, retried: RetriedBatches) -> None:
        """Note that the client has to retry batches of an earlier request."""

    def outgoing(self) -> Buffers | None:
        """Return the bytes for the broker; None for none."""
        raise NotImplementedError

    def local_response(self) -> Buffers | Slices[Buffers]:
        """Return the response if nothing was sent to the broker. Called once, in its turn."""
        raise NotImplementedError

    def cancel(self) -> None:
        """Stop processing: the connection is closed."""
        if self.state is not ExchangeState.COMPLETED:
            self.transition_to(ExchangeState.CANCELLED)


class Streamed(Exchange):
    """A request that is forwarded unchanged, most of them as they are received.

    Attributes:
        pieces: The bytes that have been received and not forwarded.
        is_streamed: Whether it is forwarded without being read.
    """

    __slots__ = ("is_streamed", "pieces")

    def __init__(self, api_key: int, version: int, correlation_id: int) -> None:
        super().__init__(api_key, version, correlation_id, ExchangeState.RECEIVING)
        self.pieces: list[bytes | memoryview] = []
        self.is_streamed = False

    @property
    def is_needed_after_disconnect(self) -> bool:
        """Whether the broker has to read it, which only its response shows."""
        return self.was_held

    @property
    def waiting_bytes(self) -> int:
        """The bytes that have been received and not forwarded."""
        return sum(map(len, self.pieces))

    def outgoing(self) -> Buffers | None:
        """Return the bytes received so far; None if the gateway responds itself."""
        if self.response is not None:
            return None
        pieces, self.pieces = self.pieces, []
        return pieces

    def local_response(self) -> Buffers:
        """Return the response of the gateway."""
        assert self.response is not None
        return self.response


class Held(Exchange):
    """A request that is held until a decision about the request for the broker."""

    __slots__ = ()

    def __init__(self, received: Exchange, size: int) -> None:
        """Replace the exchange that was made for the request's header.

        Args:
            size: See `Exchange`.
        """
        super().__init__(
            received.api_key, received.version, received.correlation_id, ExchangeState.PROCESSING
        )
        self.transform = received.transform
        self.size = size
        self.was_held = True
        self.received_at = received.received_at

    @property
    def is_needed_after_disconnect(self) -> bool:
        """Return True: the state of producers depends on the response."""
        return True

    def start(self) -> None:
        """Start processing. `ConnectionContext.advance` is called after each state change."""
        raise NotImplementedError

    def run_handler(self) -> None:
        """Run the handler: all requests before this request have been sent (if `is_exclusive`)."""
        raise NotImplementedError

    def decide(self, *, is_next: bool) -> bool:
        """Decide about the request for the broker, in the order of the requests (if `is_judged`).

        Args:
            is_next: Whether all requests before this request have been sent to the broker.

        Returns:
            Whether it is decided; if not, the method is called again later.
        """
        raise NotImplementedError


class Authentication(Protocol):
    """The authentication of a client."""

    @property
    def principal(self) -> str | None:
        """The principal of the client; None if it is not known."""


class ConnectionContext(Protocol):
    """The connection of a held request."""

    @property
    def authentication(self) -> Authentication:
        """Who the client is."""

    @property
    def address(self) -> str | None:
        """The client's address; None if it is not known."""

    def send_request(
        self,
        request: Callable[[int], bytes],
        on_response: Callable[[bytes], None],
        *,
        correlation_id: int = ...,
    ) -> None:
        """Send a request of the gateway's own to the broker.

        Args:
            request: Returns the frame for a correlation id.
            on_response: Called with the frame of the response.
        """

    def hold(self, exchange: Held, size: int) -> None:
        """Count memory that a waiting request uses from now on; less, if `size` is negative."""

    def advance(self) -> None:
        """Continue with the requests: the state of a held request has changed."""

    def fail(self) -> None:
        """Close the connection."""

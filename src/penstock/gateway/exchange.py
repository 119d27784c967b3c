"""A request on its way to the broker, and its response on the way back.

Most requests are streamed: their bytes go on as they come, and so do the responses'. Others are
held until it is decided what becomes of them (`Held`). Where each stands is its `State`.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.gateway.authentication import Authentication
    from penstock.gateway.host import Host
    from penstock.gateway.policy_set import PolicySet
    from penstock.gateway.topic_names import TopicNames

    Buffers = Sequence[bytes | memoryview]
    Transform = Callable[[bytes], Buffers]
    """Makes the client's response of the broker's."""


class State(Enum):
    """Where a request stands."""

    RECEIVING = auto()
    """Its head has come; what becomes of it shows when more has come, or all."""
    UNDECIDED = auto()
    """It is held until policies, or questions to the broker, are answered."""
    READY = auto()
    """It goes on when those before it have gone on."""
    SENT = auto()
    """It, or what is left of it, goes to the broker."""
    LOCAL = auto()
    """Nothing of it goes to the broker: it is answered here, when its turn comes."""
    ANSWERED = auto()
    """The client has its response, or waits for none."""
    ABANDONED = auto()
    """The connection is closed."""

    __hash__ = object.__hash__  # that of Enum is written in Python, and called for each step


TRANSITIONS: Final[dict[State, frozenset[State]]] = {
    State.RECEIVING: frozenset({State.UNDECIDED, State.READY, State.ABANDONED}),
    State.UNDECIDED: frozenset({State.READY, State.ABANDONED}),
    State.READY: frozenset({State.SENT, State.LOCAL, State.ANSWERED, State.ABANDONED}),
    State.SENT: frozenset({State.ANSWERED, State.ABANDONED}),
    State.LOCAL: frozenset({State.ANSWERED, State.ABANDONED}),
    State.ANSWERED: frozenset(),
    State.ABANDONED: frozenset({State.ABANDONED}),
}


class Exchange:
    """A request and its response.

    Attributes:
        api_key: Which API.
        version: The version of the request.
        correlation_id: As the client chose it.
        expects_response: Whether the client does; it does not after a Produce request with acks=0.
        transform: What to do with the broker's response; None to pass it on as it comes.
        response: The response for the client, as soon as it is known.
        size: How much memory it takes until it is answered, in bytes.
    """

    __slots__ = ("api_key", "correlation_id", "expects_response", "response", "size", "state",
                 "transform", "version")  # fmt: skip

    is_exclusive: ClassVar[bool] = False
    """Whether it is processed only when all before it have gone on, and nothing after it."""
    is_judged: ClassVar[bool] = False
    """Whether it is processed beside others, and decided in their order; see `Held.decide`."""
    matters_to_others: ClassVar[bool] = False
    """Whether its response is of use when the client is gone."""

    def __init__(self, api_key: int, version: int, correlation_id: int, state: State) -> None:
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.state = state
        self.expects_response = True
        self.transform: Transform | None = None
        self.response: Buffers | None = None
        self.size = 0

    def become(self, state: State) -> None:
        """Take the next state."""
        assert state in TRANSITIONS[self.state], f"{self.state.name} to {state.name}"
        self.state = state

    @property
    def policies(self) -> PolicySet | None:
        """The policies that judge it, if any do."""
        return None

    @property
    def waiting_bytes(self) -> int:
        """How many bytes are held before it goes to the broker."""
        return self.size

    @property
    def closes_connection(self) -> bool:
        """Whether the connection is to be closed after it: acks=0 leaves no other way to tell."""
        return False

    def outgoing(self) -> Buffers | None:
        """Return what goes to the broker; None if nothing does."""
        raise NotImplementedError

    def local_response(self) -> Buffers:
        """Return the response when nothing went to the broker. Called once, when it is due."""
        raise NotImplementedError

    def abandon(self) -> None:
        """Stop whatever is done for it: the connection is closed."""
        if self.state is not State.ANSWERED:
            self.become(State.ABANDONED)


class Streamed(Exchange):
    """A request that is passed on as it comes."""

    __slots__ = ("pieces",)

    def __init__(self, api_key: int, version: int, correlation_id: int) -> None:
        super().__init__(api_key, version, correlation_id, State.RECEIVING)
        self.pieces: list[bytes | memoryview] = []

    @property
    def waiting_bytes(self) -> int:
        """How many bytes have come and are not sent on."""
        return sum(map(len, self.pieces))

    def outgoing(self) -> Buffers | None:
        """Return what has come so far; None where the response is known without the broker."""
        if self.response is not None:
            return None
        pieces, self.pieces = self.pieces, []
        return pieces

    def local_response(self) -> Buffers:
        """Return the response that was known at once."""
        assert self.response is not None
        return self.response


class Held(Exchange):
    """A request that is held until it is decided what becomes of it."""

    __slots__ = ()

    matters_to_others = True

    def __init__(self, arrived: Exchange, size: int) -> None:
        """Take the place of what has arrived.

        Args:
            arrived: What is known from the request's head.
            size: See `Exchange`.
        """
        super().__init__(arrived.api_key, arrived.version, arrived.correlation_id, State.UNDECIDED)
        self.transform = arrived.transform
        self.size = size

    def begin(self, connection: Connection) -> None:
        """Begin to decide; `Connection.advance` is called when there is news."""
        raise NotImplementedError

    def proceed(self) -> None:
        """Go on: all requests before this one have gone to the broker (if `is_exclusive`)."""
        raise NotImplementedError

    def decide(self, *, is_next: bool) -> bool:
        """Decide what becomes of it, in the order of the requests (if `is_judged`).

        Args:
            is_next: Whether all requests before it have gone to the broker.

        Returns:
            Whether it is decided; if not, this is to be called again.
        """
        raise NotImplementedError


class Connection(Protocol):
    """What a held request needs of the connection on which it came."""

    @property
    def host(self) -> Host:
        """The gateway."""

    @property
    def number(self) -> int:
        """Its number, for the time that the gateway runs."""

    @property
    def authentication(self) -> Authentication:
        """How far the client has authenticated, and as whom."""

    @property
    def topics(self) -> TopicNames:
        """The names and ids of topics that the broker told over this connection."""

    @property
    def may_describe_producers(self) -> bool:
        """Whether the broker may serve DescribeProducers: it has not said that it does not."""

    def ask(self, request: Callable[[int], bytes], on_response: Callable[[bytes], None]) -> None:
        """Send the broker a request of the gateway's own.

        Args:
            request: Makes the frame from a correlation id.
            on_response: Called with the response's frame.
        """

    def find_whether_producers_are_described(self, on_known: Callable[[bool], None]) -> None:
        """Find out whether the broker serves DescribeProducers (KIP-664)."""

    def advance(self) -> None:
        """Go on: a held request has news."""

    def fail(self) -> None:
        """Close the connection."""

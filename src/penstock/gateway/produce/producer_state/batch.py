"""One batch of a producer: what was decided about it, and how far it has come."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.gateway.produce.producer_state.numbers import Range, add, distance

if TYPE_CHECKING:
    from collections.abc import Sequence

    Buffer = bytes | memoryview


class State(IntEnum):
    """Where a batch stands."""

    DECIDED = 0
    """It is known what goes to the broker, if anything; it has not gone, or is not kept yet."""
    SENT = 1
    """It is on its way; there is no answer yet, or the connection broke."""
    AWAITED = 2
    """It is not stored as far as is known, and the client sends it again."""
    PRESUMED = 3
    """The broker has it: it took a later one, or the batch is known from an earlier process.
    If it comes again all the same, it goes to the broker again."""
    STORED = 4
    """The broker said that it has it."""
    REFUSED = 5
    """The client was told a final error."""
    DROPPED = 6
    """Every record was dropped, and that is kept: there is nothing to send."""
    ACKNOWLEDGED = 7
    """Every record was dropped, and the client was told success: it does not come again."""


class Event(IntEnum):
    """What happens to a batch."""

    SEND = 0
    """It goes to the broker, for the first time or again."""
    DROP = 1
    """Every record was dropped, and that is kept."""
    STORE = 2
    """The broker says that it has stored it."""
    PRESUME = 3
    """The broker has taken a later batch."""
    RETRY = 4
    """The client is told an error after which it sends the batch again."""
    REFUSE = 5
    """The client is told a final error."""
    ACKNOWLEDGE = 6
    """The client is told success, and there was nothing to store."""


TRANSITIONS: Final[dict[State, dict[Event, State]]] = {
    State.DECIDED: {
        Event.SEND: State.SENT,
        Event.DROP: State.DROPPED,
        Event.RETRY: State.AWAITED,
        Event.REFUSE: State.REFUSED,
    },
    State.SENT: {
        Event.SEND: State.SENT,
        Event.STORE: State.STORED,
        Event.PRESUME: State.PRESUMED,
        Event.RETRY: State.AWAITED,
        Event.REFUSE: State.REFUSED,
    },
    State.AWAITED: {
        Event.SEND: State.SENT,
        Event.DROP: State.DROPPED,
        Event.STORE: State.STORED,
        Event.PRESUME: State.PRESUMED,
        Event.RETRY: State.AWAITED,
        Event.REFUSE: State.REFUSED,
    },
    State.PRESUMED: {
        Event.SEND: State.SENT,
        Event.STORE: State.STORED,
        Event.PRESUME: State.PRESUMED,
        Event.RETRY: State.AWAITED,
        Event.REFUSE: State.REFUSED,
    },
    # Answers to attempts that were overtaken change nothing about what is stored.
    State.STORED: dict.fromkeys(Event, State.STORED),
    # A broker's error may be wrong about what is stored (-1): what it says later counts.
    State.REFUSED: {
        Event.STORE: State.STORED,
        Event.PRESUME: State.PRESUMED,
        Event.RETRY: State.REFUSED,
        Event.REFUSE: State.REFUSED,
        # A record of it may have been on its way, or be taken for settled with what is behind it.
        Event.DROP: State.REFUSED,
    },
    State.DROPPED: {
        Event.DROP: State.DROPPED,
        Event.RETRY: State.AWAITED,
        Event.ACKNOWLEDGE: State.ACKNOWLEDGED,
    },
    State.ACKNOWLEDGED: {
        Event.DROP: State.ACKNOWLEDGED,
        Event.RETRY: State.ACKNOWLEDGED,
        Event.ACKNOWLEDGE: State.ACKNOWLEDGED,
    },
}
"""The legal transitions. Every other one is an error of the gateway."""


class Stored(NamedTuple):
    """Where a broker said it put a batch; -1 where nothing is known."""

    base_offset: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1


NOT_STORED: Final = Stored()


@dataclass(slots=True, eq=False)
class Batch:
    """What was made of one of the client's batches.

    Attributes:
        first: The client's first sequence number.
        count: How many records the client sent.
        broker_first: The first sequence number that the broker is given.
        dropped: Positions of the records that the broker is not given; empty again once it
            is certain that they are not asked for.
        dropped_count: How many those are.
        state: See `State`.
        data: What goes to the broker but for its sequence numbers, as long as it may go there
            again; None after a restart, or where memory was short.
        connection: The connection on which it goes or went to the broker.
        unsettled_before: How many batches before it were not settled when it was sent last.
        stored: Where it is.
        checksum: As the client sent it; 0 where that is not known.
    """

    first: int
    count: int
    broker_first: int
    dropped: Sequence[int]
    dropped_count: int
    state: State
    data: Buffer | None = None
    connection: int = 0
    unsettled_before: int = 0
    stored: Stored = NOT_STORED
    checksum: int = 0

    @property
    def numbers(self) -> Range:
        """The client's sequence numbers."""
        return Range(self.first, self.count, self.checksum)

    def is_other(self, checksum: int) -> bool:
        """Whether a batch of the same numbers has other records, and takes its place.

        Not where the broker is known to have this one, or its client was told success.
        """
        return (
            checksum != self.checksum
            and bool(checksum)
            and bool(self.checksum)
            and self.state in _REPLACEABLE
        )

    @property
    def is_settled(self) -> bool:
        """Whether nothing more has to come for this batch: stored, or nothing left to store."""
        return self.state in _SETTLED

    @property
    def is_at_broker(self) -> bool:
        """Whether the broker has it, or is taken to have it."""
        return self.state is State.STORED or self.state is State.PRESUMED

    @property
    def is_done(self) -> bool:
        """Whether nothing goes to the broker any more: the client is told success when due.

        One that another gateway knows to be stored goes there again, to learn where it is.
        """
        return self.loses_all or (self.state is State.STORED and self.stored is not NOT_STORED)

    @property
    def may_be_stored(self) -> bool:
        """Whether it has been at the broker, and it is not known what became of it."""
        return self.state in _OPEN

    @property
    def next(self) -> int:
        """The client's sequence number after it."""
        return add(self.first, self.count)

    @property
    def removed_with(self) -> int:
        """How many records were dropped up to its end."""
        return add(self.removed, self.dropped_count)

    @property
    def removed(self) -> int:
        """How many records were dropped before it."""
        return distance(self.broker_first, self.first)

    @property
    def loses_all(self) -> bool:
        """Whether every record was dropped: there is nothing to send."""
        return self.dropped_count == self.count

    def follows_stored(self, last_sequence: int) -> bool:
        """Whether it ends after the last sequence number that the broker has.

        One of which every record was dropped ends before that number only if the broker has
        something behind it.
        """
        last = add(self.broker_first, max(self.count - self.dropped_count, 1) - 1)
        return distance(last, last_sequence) < 0

    def presume(self) -> None:
        """Take it for settled: the broker has a later one."""
        if self.may_be_stored:
            self.apply(Event.DROP if self.loses_all else Event.PRESUME)

    def apply(self, event: Event) -> None:
        """Move to the next state; an illegal transition is an error of the gateway."""
        after = TRANSITIONS[self.state].get(event)
        if after is None:
            raise AssertionError(f"{event.name} in {self.state.name}")
        self.state = after


_OPEN: Final = frozenset({State.SENT, State.AWAITED, State.REFUSED})
_REPLACEABLE: Final = frozenset({State.DECIDED, State.SENT, State.AWAITED, State.DROPPED})
_SETTLED: Final = frozenset({State.PRESUMED, State.STORED, State.DROPPED, State.ACKNOWLEDGED})

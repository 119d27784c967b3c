"""A batch of a producer: the decision about it, and its state."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.gateway.produce.producer_state.producer.numbers import Range, add, distance

if TYPE_CHECKING:
    from collections.abc import Sequence

    Buffer = bytes | memoryview


class State(IntEnum):
    """The state of a batch."""

    DECIDED = 0
    """The decision is made, and neither sent nor written yet."""
    SENT = 1
    """It was sent; there is no response yet, or the connection was lost."""
    AWAITED = 2
    """As far as is known it is not stored; a retry of the client is expected."""
    PRESUMED = 3
    """It is presumably stored: the broker has stored a later batch, or the batch is known from an
    earlier process. A retry is sent to the broker again."""
    STORED = 4
    """The broker responded that it is stored."""
    REFUSED = 5
    """The client got a final error."""
    DROPPED = 6
    """Every record was dropped, and that has been written: there is nothing to send."""
    ACKNOWLEDGED = 7
    """Every record was dropped, and the client got a success: there will be no retry."""


class Event(IntEnum):
    """An event in the life of a batch."""

    SEND = 0
    """It is sent to the broker, for the first time or again."""
    DROP = 1
    """Every record was dropped, and that has been written."""
    STORE = 2
    """The broker responds that it is stored."""
    PRESUME = 3
    """The broker has stored a later batch."""
    RETRY = 4
    """The client gets a retriable error."""
    REFUSE = 5
    """The client gets a final error."""
    ACKNOWLEDGE = 6
    """The client gets a success, and there was nothing to store."""


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
    # Responses to earlier attempts do not change that it is stored.
    State.STORED: dict.fromkeys(Event, State.STORED),
    # A batch may be stored in spite of an error (-1): a later response of the broker counts.
    State.REFUSED: {
        Event.STORE: State.STORED,
        Event.PRESUME: State.PRESUMED,
        Event.RETRY: State.REFUSED,
        Event.REFUSE: State.REFUSED,
        # Its record may have been being written, or a later batch may be stored.
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
"""The legal transitions. Every other transition is an error of the gateway."""


class Stored(NamedTuple):
    """The position of a stored batch, from the broker's response; -1 if unknown."""

    base_offset: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1


NOT_STORED: Final = Stored()


class WrittenPositions(NamedTuple):
    """Positions of a batch, and how they are written.

    Attributes:
        dropped: Of `Batch`.
        quarantined: Of `Batch`.
        texts: The encoded form of both; None if both are empty.
    """

    dropped: Sequence[int]
    quarantined: Sequence[int]
    texts: tuple[str | None, str | None]


@dataclass(slots=True, eq=False)
class Batch:
    """A batch of a client, and its replacement for the broker.

    Attributes:
        first: The client's first sequence number.
        count: The number of records that the client sent.
        broker_first: The first sequence number for the broker.
        dropped: The positions of the dropped records; empty once they are not needed any more.
        dropped_count: The number of dropped records.
        data: The bytes for the broker, except for the sequence numbers, while a retry is possible;
            None after a restart, or for lack of memory.
        connection: The number of the connection on which it is or was sent.
        unsettled_before: The number of unsettled batches before it when it was sent last.
        stored: Its position in the log.
        checksum: The CRC of the client's batch; 0 if it is not known.
        is_confirmed: Whether the leader has said, since it was received last, that all of it is
            stored: then it is sent once as the client sends it, without regard to interceptors.
        is_changed: Whether interceptors changed it: then it never goes as the client sends it.
        quarantined: The positions of those dropped records that become dead letters.
        letters: These, until they are stored; None after a restart, or for lack of memory.
        is_lettered: Whether they are stored.
        written: How its positions were written last; None if they were not.
        received: When it was received last, or when the record was written that it was read from;
            in seconds since the epoch.
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
    is_confirmed: bool = False
    is_changed: bool = False
    quarantined: Sequence[int] = ()
    letters: bytes | None = None
    is_lettered: bool = False
    written: WrittenPositions | None = None
    received: float = 0.0

    @property
    def owes_letters(self) -> bool:
        """Whether it has dead letters that are not known to be stored."""
        if not self.quarantined or self.is_lettered:
            return False
        # The rest of it is sent once they are stored.
        return self.state is not State.STORED or self.loses_all

    @property
    def is_decided(self) -> bool:
        """Whether a retry need not be judged: all that is to be stored is known."""
        if self.owes_letters and self.letters is None:
            return False
        return self.is_done or self.data is not None

    @property
    def dropped_again(self) -> Sequence[int]:
        """The positions of the records that are dropped if it has to be judged again."""
        if self.loses_all and self.quarantined:
            return range(self.count)
        return self.dropped

    @property
    def numbers(self) -> Range:
        """The client's sequence numbers."""
        return Range(self.first, self.count, self.checksum)

    def is_other(self, checksum: int) -> bool:
        """Whether a batch of the same sequence numbers has other records, and replaces this batch.

        A batch that is stored, or whose client got a success, is never replaced.
        """
        return (
            checksum != self.checksum
            and bool(checksum)
            and bool(self.checksum)
            and self.state in _REPLACEABLE
        )

    def is_decided_otherwise(self, dropped: Sequence[int]) -> bool:
        """Whether it was decided that it loses other records, and its bytes are not held any more.

        Interceptors decide otherwise now, or a client sends other records with its checksum, which
        anyone can compute.

        Args:
            dropped: The positions of the records that interceptors drop now.
        """
        if self.data is not None or self.is_done:
            return False
        if self.dropped:
            return list(self.dropped) != list(dropped)
        return len(dropped) != self.dropped_count

    @property
    def was_accepted(self) -> bool:
        """Whether it was decided that it goes as the client sends it."""
        return not (self.dropped_count or self.is_changed)

    @property
    def is_settled(self) -> bool:
        """Whether the batch is stored, or has nothing to store."""
        return self.state in _SETTLED

    @property
    def is_at_broker(self) -> bool:
        """Whether the batch is stored, or presumably stored."""
        return self.state is State.STORED or self.state is State.PRESUMED

    @property
    def is_done(self) -> bool:
        """Whether nothing is sent to the broker, and the client gets a success in its turn.

        A batch that was stored through another gateway is sent again, to find out its position.
        """
        return self.loses_all or (self.state is State.STORED and self.stored is not NOT_STORED)

    @property
    def may_be_retried(self) -> bool:
        """Whether the client has no final answer yet, so that a retry of it may be received."""
        return self.state in _UNANSWERED

    @property
    def may_be_stored(self) -> bool:
        """Whether it was sent, and it is not known whether it is stored."""
        return self.state in _OPEN

    @property
    def next(self) -> int:
        """The client's sequence number after the batch."""
        return add(self.first, self.count)

    @property
    def removed_with(self) -> int:
        """The number of records that were dropped up to its end."""
        return add(self.removed, self.dropped_count)

    @property
    def removed(self) -> int:
        """The number of records that were dropped before it."""
        return distance(self.broker_first, self.first)

    @property
    def broker_last(self) -> int:
        """The last sequence number for the broker; if nothing is left, that of the next batch."""
        return add(self.broker_first, max(self.count - self.dropped_count, 1) - 1)

    @property
    def loses_all(self) -> bool:
        """Whether every record was dropped: there is nothing to send."""
        return self.dropped_count == self.count

    def follows_stored(self, last_sequence: int) -> bool:
        """Whether it ends after the last sequence number that the broker has stored.

        A batch whose records were all dropped ends before that number only if the broker has
        stored a later batch.
        """
        return distance(self.broker_last, last_sequence) < 0

    def presume(self) -> None:
        """Presume that it is settled: the broker has stored a later batch."""
        if self.may_be_stored:
            self.apply(Event.DROP if self.loses_all else Event.PRESUME)

    def apply(self, event: Event) -> None:
        """Change the state.

        Raises:
            AssertionError: The transition is illegal: an error of the gateway.
        """
        new_state = TRANSITIONS[self.state].get(event)
        if new_state is None:
            raise AssertionError(f"{event.name} in {self.state.name}")
        self.state = new_state


_UNANSWERED: Final = frozenset({State.DECIDED, State.SENT, State.AWAITED})
_OPEN: Final = frozenset({State.SENT, State.AWAITED, State.REFUSED})
_REPLACEABLE: Final = frozenset({State.DECIDED, State.SENT, State.AWAITED, State.DROPPED})
_SETTLED: Final = frozenset({State.PRESUMED, State.STORED, State.DROPPED, State.ACKNOWLEDGED})

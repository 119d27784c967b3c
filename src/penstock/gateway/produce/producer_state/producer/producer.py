"""A producer at one partition: the sequence numbers of its batches, and the client's error codes.

No I/O, no clock. Rules for changes: `decide` is called in the order in which batches are sent to
the broker; its result is final until the batch is removed. Every change of a batch's state goes
through `Batch.apply`.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.gateway.produce.producer_state.producer.batch import Batch, Event, State, Stored
from penstock.gateway.produce.producer_state.producer.batches import (
    BATCHES_MAX,
    Batches,
    is_refused,
)
from penstock.gateway.produce.producer_state.producer.numbers import Range, add, distance
from penstock.gateway.produce.producer_state.records.fences import Fences
from penstock.wire.errors import (
    DUPLICATE_SEQUENCE_NUMBER,
    NONE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    REQUEST_TIMED_OUT,
    RETRIABLE,
    UNKNOWN_PRODUCER_ID,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from uuid import UUID

    Buffer = bytes | memoryview

REPLICATED_AFTER_S: Final = 30.0
"""By then a leader has given up replicas that lag (`replica.lag.time.max.ms`)."""
UNSETTLED_MAX: Final = 32
"""The most unsettled batches of a producer; clients have at most five in flight (KIP-98)."""


class History(Enum):
    """The knowledge about the batches before the first remembered batch."""

    UNKNOWN = "unknown"
    """Nothing: records may have been dropped elsewhere, or stored without this gateway."""
    UNRECORDED = "unrecorded"
    """No gateway has dropped a record; some may have been stored without any gateway."""
    RESTORED = "restored"
    """An earlier process has written it: records may have been dropped since."""
    FOLLOWED = "followed"
    """The broker accepts the batches from here, perhaps because it has already stored them, and
    more, without this gateway."""
    COMPLETE = "complete"
    """Everything, or the broker has confirmed the sequence numbers."""


IN_FLIGHT_MAX: Final = 5
"""The most batches that a client has in flight, and that a broker remembers (KIP-98)."""
RETRIED_WITHIN_S: Final = 60.0
"""A client that has not retried a batch for this long has given it up; its pauses are shorter."""
_MAY_BE_OLD: Final = frozenset({History.UNKNOWN, History.RESTORED})
BEGUN: Final = frozenset({History.UNKNOWN, History.UNRECORDED})
"""The histories of a producer at its first batch here, without a record."""
_UNCONFIRMED: Final = frozenset({History.UNKNOWN, History.UNRECORDED, History.FOLLOWED})


class Beginning(NamedTuple):
    """The sequence number from which on all decisions are known.

    Attributes:
        first: The client's sequence number.
        removed: The number of records that were dropped before it.
    """

    first: int
    removed: int


class Producer:
    """The batches of one producer in one epoch at one partition, by sequence number.

    Attributes:
        epoch: The producer epoch.
        next: The client's sequence number after the last decided batch.
        removed: The number of records that were dropped before it.
        history: The known facts about the batches before the first of `batches`.
        batches: The last batches, oldest first, without gaps.
        beginning: The first sequence number in the record, including refused batches, which are
            not in it.
        undecided: Batches that got a retriable error before they were decided, in this order, with
            the connection of each; 0 if it is not known.
        topic_id: The id of the topic, if it is known.
        continued: The client's sequence number up to which it is certain that no batch without
            dropped records is missing here, and the connection: the broker was queried there, and
            all batches since were decided here. A decision that drops nothing is not written, so
            other gateways do not read it. None if it is not certain.
        fences: Which records of it count.
        agreed_at: The client's sequence number up to which it is certain that no gateway decides
            differently, with any interceptors, with the connection and the generation of
            interceptors here. None if it is not certain.
        begins_late: Whether the broker had nothing of this epoch at a batch that is not the first.
        begins_unknown: Whether its record may have been evicted here: other gateways may
            count its dropped records differently.
        at_leader_only: Batches that got a retriable error here, and that are stored according to
            their leader alone, which also counts records that its replicas do not have yet: first
            sequence number, and since when.
        used: When the producer was last used, in seconds since the epoch.
        written: When its record was written last; 0 if there is none.
        revision: The revision of the last record that was written here; 0 for none.
        position: The position after the last record that is taken into account here.
        merged: The position after the last record of another gateway that is.
        unread: The revisions of records that are being or were written here, and were not read.
    """

    __slots__ = (
        "_release",
        "agreed_at",
        "at_leader_only",
        "batches",
        "beginning",
        "begins_late",
        "begins_unknown",
        "continued",
        "epoch",
        "fences",
        "history",
        "merged",
        "next",
        "position",
        "removed",
        "revision",
        "topic_id",
        "undecided",
        "unread",
        "used",
        "written",
    )  # fmt: skip

    def __init__(
        self,
        epoch: int,
        first: int,
        *,
        release: Callable[[Batch], None],
        removed: int = 0,
        history: History = History.UNKNOWN,
        batches: Sequence[Batch] = (),
        beginning: Beginning | None = None,
        topic_id: UUID | None = None,
        used: float = 0.0,
        written: float = 0.0,
    ) -> None:
        """Make the state of a producer.

        Args:
            epoch: The producer epoch.
            first: The client's sequence number that is decided next.
            release: Called with each batch whose data is not needed any more, or that is removed.
            removed: The number of records that were dropped before it.
            history: The known facts about earlier batches.
            batches: The batches that are remembered.
            beginning: See `Producer`; None for the sequence number of the first batch.
            topic_id: The id of the topic, if it is known.
            used: In seconds since the epoch.
            written: In seconds since the epoch.
        """
        self._release = release
        self.epoch = epoch
        self.next = first
        self.removed = removed
        self.history = history
        self.batches = Batches(batches, release)
        self.beginning = beginning
        self.undecided: dict[Range, int] = {}
        self.at_leader_only: dict[int, float] = {}
        self.continued: tuple[int, int] | None = None
        self.fences = Fences()
        self.agreed_at: tuple[int, int, int] | None = None
        self.begins_late = False
        self.begins_unknown = False
        self.topic_id = topic_id
        self.used = used
        self.written = written
        self.revision = 0
        self.position = 0
        self.merged = 0
        self.unread: tuple[int, ...] = ()

    # What is known

    @property
    def is_confirmed(self) -> bool:
        """Whether it is certain that the broker has stored nothing after the known batches."""
        return self.history not in _UNCONFIRMED

    @property
    def is_beginning_unknown(self) -> bool:
        """Whether the state here does not tell what the broker had stored before the first batch.

        This is so if all batches until now were refused or postponed.
        """
        return (
            self.history in BEGUN
            and (self.batches[0].first if self.batches else self.next) != 0
            and self.batches.were_all_refused
        )

    @property
    def _is_restored(self) -> bool:
        """Whether batches were restored from a record, and more may have been stored since."""
        return self.history is not History.COMPLETE and any(
            batch.is_settled for batch in self.batches
        )

    @property
    def _may_be_ahead(self) -> bool:
        """Whether the broker may have stored batches that are not known here."""
        return self._is_restored or (self.history in _MAY_BE_OLD and not self.batches)

    @property
    def may_be_retried(self) -> bool:
        """Whether there is a batch that has to be retried, or may have to be.

        Also behind a refused batch, which no record contains.
        """
        if self.undecided or (self.batches and self.batches[-1].state is State.REFUSED):
            return True
        return any(batch.may_be_retried for batch in self.batches)

    def is_kept_back(self, batch: Batch) -> bool:
        """Whether an unsettled earlier batch, perhaps on another connection, blocks this batch."""
        return self._awaits_before(batch.first) or any(
            earlier.state is State.AWAITED
            or (earlier.state is State.SENT and earlier.connection != batch.connection)
            for earlier in self.batches.before(batch)
        )

    def is_agreed(
        self, numbers: Range, known: Batch | None, connection: int, generation: int
    ) -> bool:
        """Whether no other gateway can be writing another decision about a batch.

        Not so at the first batch on a connection: before, the client may have been at another
        gateway, which may have decided about the same batch, or about one before it.

        Args:
            numbers: The sequence numbers of the batch.
            known: The batch of the first attempt, if this is a retry.
            connection: The number of the connection.
            generation: The generation of interceptors here.
        """
        if self.agreed_at is None:
            return False
        following, *where = self.agreed_at
        if where != [connection, generation]:
            return False
        return following == numbers.first or (known is not None and known.connection == connection)

    # Received batches

    def decide(
        self,
        numbers: Range,
        dropped: Sequence[int],
        data: Buffer,
        *,
        known: Batch | None,
        connection: int,
        overtakes: bool,
    ) -> Batch | int:
        """Return the decided batch, or the error code for the client.

        Args:
            numbers: The client's sequence numbers.
            known: The batch of the first attempt, if this is a retry.
            dropped: The positions of the records that interceptors dropped now.
            data: The batch without these records.
            connection: The number of the connection on which it will be sent.
            overtakes: Whether a batch with lower sequence numbers was received on another
                connection and is not decided yet.
        """
        if known is not None:
            known.received = self.used
            decision = self._again(known, dropped, data, connection)
        else:
            decision = self._decide(numbers, dropped, data, connection, overtakes=overtakes)
        if isinstance(decision, Batch):
            decision.received = self.used
            if self.undecided:
                self._expect_no_longer(lambda waiting: waiting.first == numbers.first)
        return decision

    def _decide(
        self,
        numbers: Range,
        dropped: Sequence[int],
        data: Buffer,
        connection: int,
        *,
        overtakes: bool,
    ) -> Batch | int:
        behind = self._cut(numbers)
        ahead = distance(self.next, numbers.first)
        if behind is not None:
            return self._insert(behind, numbers, dropped, data, connection)
        before = self.batches.before(None)
        if ahead < 0 or (is_refused(before) and self.batches.are_known_to_broker):
            self.defer(numbers, connection)
            return OUT_OF_ORDER_SEQUENCE_NUMBER  # as from a broker that has not stored it
        if ahead and (overtakes or self._misses(numbers.first)):
            self.defer(numbers, connection)
            return REQUEST_TIMED_OUT
        if len(self.batches) >= BATCHES_MAX:
            self._trim()
        unsettled = sum(not earlier.is_settled for earlier in before) if before else 0
        if unsettled >= UNSETTLED_MAX or len(self.batches) >= BATCHES_MAX:
            self.defer(numbers, connection)
            return REQUEST_TIMED_OUT
        if ahead:  # and the broker, which was queried, misses some batches, too
            if self.history in _MAY_BE_OLD and not unsettled:
                return UNKNOWN_PRODUCER_ID
            self.defer(numbers, connection)
            return OUT_OF_ORDER_SEQUENCE_NUMBER
        return self._append(numbers, dropped, data, connection)

    def _again(
        self, batch: Batch, dropped: Sequence[int], data: Buffer, connection: int
    ) -> Batch | int:
        """Return a batch that is retried, as it was."""
        batch.connection = connection
        if batch.data is None and not batch.is_done and not batch.is_whole:
            if batch.is_decided_otherwise(dropped):
                if batch.state is State.SENT:  # it may be on its way to the broker
                    batch.apply(Event.RETRY)
                    return REQUEST_TIMED_OUT
                if batch.state is State.PRESUMED and batch.first in self.at_leader_only:
                    return REQUEST_TIMED_OUT
                if batch.state is not State.STORED:
                    return UNKNOWN_PRODUCER_ID
                batch.stored = Stored()  # it need not be sent again to find out where it is
                return batch
            batch.dropped, batch.data = dropped, data
        return batch

    def _append(
        self, numbers: Range, dropped: Sequence[int], data: Buffer, connection: int
    ) -> Batch:
        batch = self._new(numbers, self.removed, dropped, data, connection)
        self.removed = add(self.removed, len(dropped))
        is_continued = self.continued == (numbers.first, connection)
        self.next = add(numbers.first, numbers.count)
        self.continued = (self.next, connection) if is_continued else None
        self.batches.append(batch)
        self._trim()
        return batch

    @staticmethod
    def _new(
        numbers: Range, removed: int, dropped: Sequence[int], data: Buffer, connection: int
    ) -> Batch:
        whole = len(dropped) == numbers.count
        return Batch(
            numbers.first,
            numbers.count,
            add(numbers.first, -removed),
            () if whole else dropped,
            len(dropped),
            State.DECIDED,
            None if whole else data,
            connection,
            checksum=numbers.checksum,
        )

    def _misses(self, first: int) -> bool:
        """Whether a retry of an undecided batch before a sequence number is expected."""
        return self.batches.await_any or self._awaits_before(first)

    def _awaits_before(self, first: int) -> bool:
        """Whether a batch before a sequence number got a retriable error while undecided."""
        return any(distance(waiting.first, first) > 0 for waiting in self.undecided)

    def _cut(self, numbers: Range) -> int | None:
        """Remove the batches that an unknown batch replaces.

        A client splits a batch that was too large, or reuses the sequence numbers of a refused
        batch. Then the batches with these sequence numbers are removed, with all after them,
        unless one of them is stored. If a batch was only overtaken, nothing is removed.

        Returns:
            The index of the first batch after it if those stay; otherwise None.
        """
        place = self.batches.place(numbers.first)
        if place is None:
            if distance(numbers.first, self.next) > 0:  # nothing is dropped between batches
                self.next = numbers.first
            return None
        behind = self.batches[place]
        if distance(add(numbers.first, numbers.count), behind.first) >= 0:
            return place
        states = {self.batches[i].state for i in range(place, len(self.batches))}
        if not states & {State.STORED, State.ACKNOWLEDGED}:
            self.cut_at(place)
            if distance(numbers.first, self.next) > 0:
                self.next = numbers.first
        return None

    def _insert(
        self, place: int, numbers: Range, dropped: Sequence[int], data: Buffer, connection: int
    ) -> Batch | int:
        """Decide about a batch that precedes decided batches.

        Its dropped records lower the sequence numbers of the later batches, unless they are
        counted already, or one of these batches is stored.
        """
        behind = [self.batches[i] for i in range(place, len(self.batches))]
        removed = self._removed_before(place, numbers)
        more = len(dropped) - distance(removed, behind[0].removed)
        if more > 0:
            if not any(later.is_at_broker for later in behind):
                for later in behind:
                    later.broker_first = add(later.broker_first, -more)
                self.removed = add(self.removed, more)
            elif len(dropped) < numbers.count:
                return OUT_OF_ORDER_SEQUENCE_NUMBER
        batch = self._new(numbers, removed, dropped, data, connection)
        self.batches.insert(place, batch)
        return batch

    def cut_at(self, place: int) -> None:
        """Remove the batches from an index on; the sequence numbers continue before them."""
        cut = self.batches[place]
        before = self.batches[place - 1] if place else None
        self.next = before.next if before is not None else cut.first
        self.removed = cut.removed
        self.batches.cut_at(place)

    def defer(self, numbers: Range, connection: int = 0) -> None:
        """Record that a batch gets a retriable error before it is decided.

        Args:
            numbers: The client's sequence numbers.
            connection: The number of the connection that the batch came on; 0 if it is not known.
        """
        batch = self.batches.find(numbers)
        if batch is not None:
            batch.received = self.used
            batch.apply(Event.RETRY)
            return
        if self._is_past(numbers):
            return
        self._cut(numbers)
        if numbers not in self.undecided:
            self.undecided[numbers] = connection
            if len(self.undecided) > BATCHES_MAX:
                del self.undecided[next(iter(self.undecided))]

    def _expect_no_longer(self, is_over: Callable[[Range], bool]) -> None:
        """Expect no retry of some of the undecided batches any more."""
        self.undecided = {
            waiting: connection
            for waiting, connection in self.undecided.items()
            if not is_over(waiting)
        }

    def _is_past(self, numbers: Range) -> bool:
        """Whether these sequence numbers belong to an obsolete attempt of the client."""
        return any(
            distance(numbers.first, batch.next) > 0
            for batch in self.batches
            if batch.state in {State.STORED, State.ACKNOWLEDGED}
        )

    def _settle_before(self, batch: Batch) -> None:
        """Expect no retry of batches before a batch that is stored or acknowledged."""
        if self.undecided:
            self._expect_no_longer(lambda waiting: distance(waiting.first, batch.next) > 0)
        if self.at_leader_only:
            self.at_leader_only = {
                first: since
                for first, since in self.at_leader_only.items()
                if distance(first, batch.next) <= 0
            }

    def refuse(self, numbers: Range, *, overtakes: bool) -> None:
        """Record that a batch gets a final error before it is decided; see `decide`."""
        self._expect_no_longer(lambda waiting: waiting.first == numbers.first)
        batch = self.batches.find(numbers)
        if batch is not None:
            if batch.state not in {State.STORED, State.DROPPED, State.ACKNOWLEDGED}:
                batch.apply(Event.REFUSE)
                self._release(batch)
            return
        if self.batches.have_refused(numbers):
            return  # its client does not know of it; later batches may be stored
        place = self._cut(numbers)
        if place is not None:
            self.batches.insert(place, self._refused(numbers, self.batches[place].removed))
        elif not self.batches.are_refused and (
            numbers.first == self.next
            or (
                distance(self.next, numbers.first) > 0
                and (self.batches.are_known_to_broker or self._may_be_ahead)
                and not overtakes
                and not self._misses(numbers.first)
            )
        ):
            self.batches.append(self._refused(numbers, self.removed))
            self.next = add(numbers.first, numbers.count)

    @staticmethod
    def _refused(numbers: Range, removed: int) -> Batch:
        first, count, checksum = numbers
        before = add(first, -removed)
        return Batch(first, count, before, (), 0, State.REFUSED, checksum=checksum)

    # Sent batches

    def send(self, batch: Batch) -> int:
        """Mark a decided batch as sent.

        Returns:
            0 if it may be sent; otherwise the error code for the client.
        """
        if batch not in self.batches:
            self.defer(batch.numbers, batch.connection)
            return REQUEST_TIMED_OUT
        if batch.state is State.REFUSED:
            return REQUEST_TIMED_OUT
        before = self.batches.before(batch)
        code = self._obstacle(batch, before)
        batch.apply(Event.RETRY if code else Event.SEND)
        batch.unsettled_before = sum(not earlier.is_settled for earlier in before) if before else 0
        return code

    def obstacle(self, batch: Batch) -> int:
        """Return the error code if an earlier batch blocks this batch; 0 if none does.

        Batches on the same connection reach the broker in order. A batch on another connection may
        be delayed, which a broker notices only if it knows the producer.
        """
        return self._obstacle(batch, self.batches.before(batch))

    def _obstacle(self, batch: Batch, before: Sequence[Batch]) -> int:
        if self._awaits_before(batch.first):
            return REQUEST_TIMED_OUT
        if not before:
            return NONE
        objects = self.batches.are_known_to_broker and batch.state is not State.PRESUMED
        if objects and is_refused(before):
            return OUT_OF_ORDER_SEQUENCE_NUMBER
        for earlier in before:
            if earlier.state is State.AWAITED:
                return REQUEST_TIMED_OUT
            if earlier.connection == batch.connection:
                continue
            if earlier.state is State.DECIDED or (
                earlier.state is State.SENT and not self.batches.are_known_to_broker
            ):
                return REQUEST_TIMED_OUT
        return NONE

    def acknowledge(self, batch: Batch, now: float) -> int:
        """Return the client's error code for a batch whose records were all dropped; 0 for success.

        To be called when all requests before it on the connection have responses, because clients
        take a success to include all batches before it.

        Args:
            batch: The batch.
            now: The time in seconds.
        """
        is_kept = batch.state in {State.STORED, State.DROPPED, State.ACKNOWLEDGED}
        if batch not in self.batches or not is_kept:
            return REQUEST_TIMED_OUT
        if self._awaits_before(batch.first):
            return REQUEST_TIMED_OUT
        for earlier in self.batches.before(batch):
            if earlier.state is State.REFUSED:
                return OUT_OF_ORDER_SEQUENCE_NUMBER
            if not earlier.is_settled:
                return REQUEST_TIMED_OUT
        if batch.state is not State.STORED:
            if any(
                distance(first, batch.first) > 0 and since > now - REPLICATED_AFTER_S
                for first, since in self.at_leader_only.items()
            ):
                return REQUEST_TIMED_OUT
            batch.apply(Event.ACKNOWLEDGE)
        self._settle_before(batch)
        return NONE

    def on_response(self, batch: Batch, code: int, stored: Stored) -> int:
        """Apply the broker's response to a batch; return the error code for the client.

        Returns:
            The broker's error code; or UNKNOWN_PRODUCER_ID if that shows that the state here is
            outdated, and the producer has to be removed.
        """
        if batch not in self.batches:
            return code
        if code in {NONE, DUPLICATE_SEQUENCE_NUMBER}:
            self._store(batch, stored)
            return code
        may_be_old = self.history in _MAY_BE_OLD and not batch.unsettled_before
        if code == OUT_OF_ORDER_SEQUENCE_NUMBER and may_be_old:
            return UNKNOWN_PRODUCER_ID
        # Not retriable to Kafka, yet idempotent producers retry after it (TransactionManager.java).
        if code in RETRIABLE or code == OUT_OF_ORDER_SEQUENCE_NUMBER:
            batch.apply(Event.RETRY)
            if code == OUT_OF_ORDER_SEQUENCE_NUMBER and self._follows_a_retry(batch):
                return REQUEST_TIMED_OUT
        else:
            batch.apply(Event.REFUSE)
            self._release(batch)
        return code

    def _follows_a_retry(self, batch: Batch) -> bool:
        """Return whether the broker refused a batch only because an earlier one is to be retried.

        After OUT_OF_ORDER_SEQUENCE_NUMBER librdkafka takes a new epoch, and sends again what a
        former leader may have, and may bring back. If the client has given the earlier batch up,
        it has to learn that there is a gap.
        """
        missing = (earlier for earlier in self.batches.before(batch) if not earlier.is_settled)
        oldest = next(missing, None)
        return oldest is not None and self.used - oldest.received < RETRIED_WITHIN_S

    def _store(self, batch: Batch, stored: Stored) -> None:
        # The broker stores a batch only after the one before it; clients rely on that, too.
        for earlier in self.batches.before(batch):
            earlier.presume()
        batch.apply(Event.STORE)
        batch.stored = stored
        self.begins_late = False
        if not batch.quarantined:  # else a retry elsewhere has to lose the same records
            batch.dropped = ()
        self._release(batch)
        self._settle_before(batch)
        if self.history in _UNCONFIRMED:
            # By then there are no retries any more of batches that were in flight at the beginning.
            count = sum(other.state is State.STORED for other in self.batches)
            is_confirmed = count > IN_FLIGHT_MAX
            self.history = History.COMPLETE if is_confirmed else History.FOLLOWED
        else:
            self.history = History.COMPLETE

    def on_last_sequence(
        self,
        numbers: Range,
        last_sequence: int | None,
        *,
        dropped: Sequence[int],
        is_shared: bool,
        is_begun: bool,
        recent_from: float,
        overtakes: bool,
        connection: int,
        now: float,
    ) -> None:
        """Apply the last sequence number that the broker has stored, before a batch is decided.

        Args:
            numbers: The sequence numbers of the batch.
            last_sequence: The last sequence number of this epoch; None if there is none.
            dropped: The positions of the records of the batch that interceptors dropped now.
            is_shared: Whether batches may be sent through other gateways.
            overtakes: See `decide`.
            is_begun: Whether all known batches of the producer were received here.
            recent_from: Batches that were received after that time cannot have been forgotten by
                the broker.
            connection: The number of the connection on which the broker was queried.
            now: The time in seconds.
        """
        known = self.batches.find(numbers)
        if known is None:
            self._cut(numbers)
        self._presume_stored(
            numbers, last_sequence, recent_from=recent_from, connection=connection, now=now
        )
        if known is not None and known.is_decided_otherwise(dropped):
            self._decide_otherwise(known, dropped, now)
        self.continued = numbers.first, connection
        is_followed = self.next == numbers.first and not self.batches.were_all_refused
        self.begins_late = last_sequence is None and bool(numbers.first) and not is_followed
        if last_sequence is None:
            self.at_leader_only = dict.fromkeys(self.at_leader_only, now)
            self._broker_has_none(numbers, is_begun=is_begun, overtakes=overtakes)
            return
        known = self.batches.find(numbers)
        removed = self.removed if known is None else known.removed
        missing = distance(last_sequence, add(numbers.first, -removed)) - 1
        self._settle_undecided(
            numbers, missing, is_shared=is_shared, connection=connection, now=now
        )
        if known is not None:
            return
        if missing == 0:
            self.history = History.COMPLETE
        if missing > 0:
            self._broker_misses(numbers, missing)
            return
        if distance(self.next, numbers.first) > 0 and not overtakes:
            self.next = numbers.first  # no record of the unknown batches was dropped
        if missing < 0:
            self._broker_has_more(numbers, last_sequence, dropped)

    def _settle_undecided(
        self, numbers: Range, missing: int, *, is_shared: bool, connection: int, now: float
    ) -> None:
        """Assume that the undecided batches before a batch are stored, if the broker misses none.

        They may have been stored through other gateways.
        """
        if missing > 0:  # it may have lost records
            self.at_leader_only = dict.fromkeys(self.at_leader_only, now)
        if missing > 0 or not is_shared:
            return
        failed_here = [
            waiting.first
            for waiting, deferred_on in self.undecided.items()
            if distance(numbers.first, waiting.first) < 0 and deferred_on in {0, connection}
        ]
        self._expect_no_longer(lambda waiting: distance(numbers.first, waiting.first) < 0)
        self._believe(failed_here, now)

    def _believe(self, stored: Iterable[int], now: float) -> None:
        """Take batches for stored by the word of their leader alone; see `at_leader_only`.

        Only those that failed on the connection that is used now: on a new connection, clients send
        batches without a response first.
        """
        for first in stored:
            self.at_leader_only.setdefault(first, now)
        # Where there are more than any client has in flight, all count as the first.
        if len(self.at_leader_only) > UNSETTLED_MAX:
            self.at_leader_only = {
                next(iter(self.at_leader_only)): max(self.at_leader_only.values())
            }
        for batch in self.batches:
            if batch.state is State.AWAITED:
                self.at_leader_only.pop(batch.first, None)

    def _decide_otherwise(self, batch: Batch, dropped: Sequence[int], now: float) -> None:
        """Decide again about a batch, because interceptors drop other records than before.

        If the broker has stored it, it is not changed; the client gets a success, but not if only
        the leader says so, as it cannot be sent again.

        Args:
            batch: The batch.
            dropped: The positions of the records that interceptors dropped now.
            now: The time in seconds.
        """
        if batch.state is State.PRESUMED:
            if not (batch.dropped_count or batch.is_changed):
                batch.is_whole = True
            elif self._is_replicated(batch, now):
                batch.apply(Event.STORE)
        elif batch.state is State.AWAITED and not (batch.dropped_count or batch.is_changed):
            # Its leader may not have the records of a former leader, which may lead again.
            batch.is_whole = True
        elif batch.state is State.AWAITED and set(batch.dropped_again) <= set(dropped):
            # Else the decision was not known yet when it was judged: it must be retried.
            place = self.batches.index(batch)
            states = {self.batches[i].state for i in range(place, len(self.batches))}
            if states & {State.STORED, State.PRESUMED, State.ACKNOWLEDGED}:
                return
            behind = [self.batches[i] for i in range(place + 1, len(self.batches))]
            keeps_letters = any(later.quarantined for later in behind)
            if not behind or (State.SENT in states and not keeps_letters):
                self.cut_at(place)
            else:  # the decisions about later batches stay: dead letters may be stored
                if not place:  # those behind it do not say how many were dropped before it
                    self.beginning = Beginning(batch.first, batch.removed)
                self.batches.remove(batch)
                self._release(batch)

    def _is_replicated(self, batch: Batch, now: float) -> bool:
        """Whether a batch that a leader has is certain not to be lost with that leader."""
        self._believe([batch.first], now)
        return self.at_leader_only.get(batch.first, now) <= now - REPLICATED_AFTER_S or any(
            other.state is State.STORED and distance(batch.first, other.first) > 0
            for other in self.batches
        )

    def may_be_elsewhere(
        self, numbers: Range, last_sequence: int | None, dropped: Sequence[int]
    ) -> bool:
        """Whether a batch is decided for the first time, or again, and a broker does not have it.

        Args:
            numbers: The sequence numbers of the batch.
            last_sequence: The last sequence number that the broker has stored, or None.
            dropped: The positions of the records that interceptors dropped now.
        """
        known = self.batches.find(numbers)
        if known is not None:
            return (
                known.is_decided_otherwise(dropped)
                and (known.is_changed or bool(known.dropped_count))
                and (last_sequence is None or known.follows_stored(last_sequence))
            )
        return last_sequence is None or (
            distance(last_sequence, add(numbers.first, -self.removed)) > 0
        )

    def _presume_stored(
        self,
        numbers: Range,
        last_sequence: int | None,
        *,
        recent_from: float,
        connection: int,
        now: float,
    ) -> None:
        """Presume the batches up to the broker's last sequence number to be stored."""
        awaited = [
            batch
            for batch in self.batches
            if batch.state is State.AWAITED and batch.connection in {0, connection}
        ]
        for batch in self.batches:
            if last_sequence is not None and not batch.follows_stored(last_sequence):
                batch.presume()
            elif batch.state is State.PRESUMED and (
                last_sequence is not None
                or batch.received > recent_from
                or distance(numbers.first, batch.first) > 0
            ):
                batch.apply(Event.RETRY)
        self._believe((batch.first for batch in awaited if batch.state is State.PRESUMED), now)

    def _broker_has_none(self, numbers: Range, *, is_begun: bool, overtakes: bool) -> None:
        """Record that the broker has stored nothing of this epoch, or has forgotten it."""
        ahead = distance(self.next, numbers.first)
        has_forgotten = self.batches.are_known_to_broker or self._is_restored
        if is_begun:
            self.history = History.COMPLETE
        if ahead > 0 and has_forgotten and not overtakes and not self._misses(numbers.first):
            self.next = numbers.first  # the broker accepts any first sequence number then

    def _broker_misses(self, numbers: Range, missing: int) -> None:
        """Record that the broker has not stored all batches before one."""
        if self.history is History.FOLLOWED:
            self.history = History.COMPLETE  # the batches before it are in flight
        elif not self.batches and self.history is not History.COMPLETE:
            self.next = add(numbers.first, -missing)
            if self.history is History.UNRECORDED:  # the batches before it are in flight
                self.history = History.COMPLETE

    def _broker_has_more(self, numbers: Range, last_sequence: int, dropped: Sequence[int]) -> None:
        """Record that the broker has stored a batch already, or others in its place."""
        self.continued = None
        if self.history is History.UNKNOWN and self._lost_others(numbers, last_sequence, dropped):
            self.next = add(numbers.first, -1)  # so that the client begins a new epoch
        elif dropped:
            self._add_stored(numbers, last_sequence)

    def _lost_others(self, numbers: Range, last_sequence: int, dropped: Sequence[int]) -> bool:
        """Whether the first batch here lost other records before, which is not known any more.

        Its last stored sequence number is then within the batch, and is not the number that it has
        now. Later batches would get numbers that the broker takes for retries.
        """
        if self.batches or not dropped:
            return False
        stored = distance(add(numbers.first, -self.removed), last_sequence) + 1
        return 0 < stored < numbers.count and stored != numbers.count - len(dropped)

    def _add_stored(self, numbers: Range, last_sequence: int) -> None:
        """Add a batch as stored unchanged, if the broker has it: it was sent without interceptors.

        It is sent again as the client sent it, for the leader may lose it yet.

        Args:
            numbers: The sequence numbers of the batch.
            last_sequence: The last sequence number that the broker has stored.
        """
        place = self.batches.place(numbers.first)
        if place is None:
            removed, follows = self.removed, numbers.first == self.next
        else:
            behind = self.batches[place]
            removed = self._removed_before(place, numbers)
            follows = distance(add(numbers.first, numbers.count), behind.first) >= 0
            follows = follows and behind.removed == removed
        before = add(numbers.first, -removed)
        if not follows or distance(add(before, numbers.count - 1), last_sequence) < 0:
            return
        stored = Batch(
            numbers.first, numbers.count, before, (), 0, State.PRESUMED,
            checksum=numbers.checksum, is_whole=True, received=self.used,
        )  # fmt: skip
        if place is not None:
            self.batches.insert(place, stored)
            return
        self.batches.append(stored)
        # Later batches may have been stored in the same way: the broker is queried for them, too.
        self.next = add(numbers.first, numbers.count)

    def _removed_before(self, place: int, numbers: Range) -> int:
        """Return how many records were dropped before a batch that precedes decided batches."""
        if place:
            return self.batches[place - 1].removed_with
        if self.beginning is not None and distance(self.beginning.first, numbers.first) >= 0:
            return self.beginning.removed
        return self.batches[place].removed

    def skip(self, numbers: Range, *, overtakes: bool) -> None:
        """Continue at a batch although the broker cannot be queried for its last sequence number.

        Batches that are not known here were sent through another gateway, where no record was
        dropped, or it would have written a shared record. If one is missing, the broker refuses.
        """
        ahead = distance(self.next, numbers.first)
        if ahead > 0 and not overtakes and not self._misses(numbers.first):
            self.next = numbers.first

    def learn(
        self, batches: Sequence[Batch], following: int, removed: int, *, is_newer: bool = False
    ) -> bool:
        """Merge the decisions of another gateway about this producer in this epoch.

        Interceptors decide the same in all gateways; only the number of known batches differs.

        Args:
            batches: The batches of the other gateway.
            following: The client's sequence number after the last batch that it has decided.
            removed: The number of records that were dropped before it.
            is_newer: Whether the other gateway knew all that was written here.

        Returns:
            Whether the other gateway has all batches that are known here.
        """
        place = self._first_sent_otherwise(batches, is_newer=is_newer)
        fitting = list(batches)[:place]
        if is_newer:
            self._cut_replaced(fitting)
        if place is None:
            return self._merge(fitting, following, removed)
        self._merge(fitting, batches[place].first, batches[place].removed)
        return False

    def take_over(self, batches: Sequence[Batch], following: int, removed: int) -> None:
        """Replace the state by the decision of another gateway, in a record that fences.

        Batches that are not in it stay if they fit: their records were not dropped.
        """
        same = {_decision(own): own for own in self.batches if own.state is not State.REFUSED}
        known = [same.get(_decision(theirs), theirs) for theirs in batches]
        between = [own for own in self.batches if own.is_settled and _fits(own, known)]
        merged = sorted([*known, *between], key=lambda batch: distance(following, batch.first))
        for own in self.batches:
            if own not in merged:
                self._release(own)
        self.batches = Batches(merged, self._release)
        self.confirm(batches)
        for own in known:
            self._expect_again(own)
        self._expect_no_longer(lambda waiting: distance(following, waiting.first) < 0)
        self.continued = self.agreed_at = None
        self.next, self.removed = following, removed
        self.history = History.COMPLETE
        self.begins_unknown = False
        self._trim()

    def _first_sent_otherwise(self, batches: Sequence[Batch], *, is_newer: bool) -> int | None:
        """Return the index of another gateway's first batch that was sent here with other records.

        Or is to be sent: of one that stays whole here, those behind it have other numbers.

        Its interceptors are not those of this gateway, after a reload for example. It cannot have
        sent the batch: a gateway reads the decisions of others before it decides, and its
        record comes too late if it is not read then. Only decisions that lose records are written.
        """
        sent = {
            own.numbers[:2]: own.dropped_count
            for own in self.batches
            if (own.state in {State.SENT, State.STORED} and not (is_newer and own.dropped_count))
            or (own.state is State.AWAITED and not own.dropped_count and not is_newer)
        }
        for place, batch in enumerate(batches):
            if sent.get(batch.numbers[:2], batch.dropped_count) != batch.dropped_count:
                return place
        return None

    def _merge(self, batches: Sequence[Batch], following: int, removed: int) -> bool:
        behind = next(
            (batch for batch in self.batches if distance(following, batch.first) >= 0), None
        )
        known = self.removed if behind is None else behind.removed
        if distance(known, removed) < 0:
            return False
        if behind is not None and distance(known, removed) > 0:
            place = self.batches.index(behind)
            if all(
                self.batches[i].state is not State.STORED for i in range(place, len(self.batches))
            ):
                self.cut_at(place)  # decided without knowing all records dropped before
        merged = list(self.batches)
        self.confirm(batches)
        for theirs in self._fitting(batches):
            beside = [other for other in merged if _overlap(other, theirs)]
            if any(other.numbers[:2] != theirs.numbers[:2] for other in beside):
                # The client has split it, for example.
                if any(_count_same_behind(other, theirs) for other in beside):
                    continue
                break  # later batches include the dropped records of a batch that is different here
            if not beside:
                merged.append(theirs)
                self._expect_again(theirs)
        merged.sort(key=lambda batch: distance(following, batch.first))
        self.batches = Batches(merged, self._release)
        if not merged:
            return True
        self.next, self.removed = merged[-1].next, merged[-1].removed_with
        self.history = History.COMPLETE
        self._trim()
        return self.next == following

    def _expect_again(self, batch: Batch) -> None:
        """Expect a retry of a batch that another gateway has decided, if it was deferred here."""
        if any(waiting[:2] == batch.numbers[:2] for waiting in self.undecided):
            self._expect_no_longer(lambda waiting: waiting[:2] == batch.numbers[:2])
            # Without records it is settled, with or without a retry.
            if not batch.loses_all or batch.owes_letters:
                batch.apply(Event.RETRY)

    def _fitting(self, batches: Sequence[Batch]) -> Sequence[Batch]:
        """Return the batches of another gateway that fit the stored batches known here.

        The other gateway may have dropped records of a batch that the client has given up since,
        and lowered the sequence numbers of those behind it, before it could write that. Where a
        batch behind it was stored with other numbers, through this gateway, it sent none of them.
        """
        first, last = 0, len(batches)
        for own in self.batches:
            if own.state is not State.STORED:
                continue
            for place, theirs in enumerate(batches):
                if theirs.next == own.first and theirs.removed_with != own.removed:
                    first = max(first, place + 1)
                elif theirs.first == own.next and theirs.removed != own.removed_with:
                    last = min(last, place)
        return list(batches)[first:last]

    def _cut_replaced(self, batches: Sequence[Batch]) -> None:
        """Remove the batches in whose place another gateway has decided others, knowing these.

        The client has split a batch, for example (see `_cut`); or it has given up a batch that was
        never written, and never sent, and whose records do not count at the other gateway.
        """
        for place, own in enumerate(self.batches):
            is_replaced = any(
                _overlap(own, theirs)
                and (theirs.first, theirs.count, theirs.broker_first, theirs.dropped_count)
                != (own.first, own.count, own.broker_first, own.dropped_count)
                for theirs in batches
            )
            if is_replaced:
                states = {self.batches[i].state for i in range(place, len(self.batches))}
                if not states & {State.STORED, State.ACKNOWLEDGED}:
                    self.cut_at(place)
                return

    def confirm(self, batches: Sequence[Batch]) -> None:
        """Record that decisions about batches have been written, or that batches are stored."""
        for batch in batches:
            known = self.batches.find(batch.numbers)
            if known is None:
                continue
            known.received = max(known.received, batch.received)
            if known.loses_all and batch.loses_all:
                known.is_lettered = known.is_lettered or batch.is_lettered
                if not known.owes_letters:  # else they are being stored, or could not be
                    known.apply(Event.DROP)
            elif (
                batch.state is State.STORED
                and known.broker_first == batch.broker_first
                and known.state in {State.PRESUMED, State.SENT, State.AWAITED}
            ):
                known.apply(Event.STORE)

    def learn_of_letters(self, batches: Sequence[Batch]) -> None:
        """Record that dead letters are stored, by a record whose decisions do not count.

        That they are stays true where the same records are set aside.
        """
        for batch in batches:
            known = self.batches.find(batch.numbers)
            if (
                known is not None
                and known.loses_all
                and batch.loses_all
                and batch.is_lettered
                and list(batch.quarantined) == list(known.quarantined)
            ):
                self.confirm([batch])

    # Memory

    def clear(self) -> None:
        """Remove all batches; the sequence numbers continue."""
        self.batches.cut_at(0)

    def _trim(self) -> None:
        if self.batches.trim():
            self.beginning = None


def _decision(batch: Batch) -> tuple[int, ...]:
    return (*batch.numbers, batch.broker_first, batch.dropped_count)


def _fits(batch: Batch, others: Sequence[Batch]) -> bool:
    """Whether a batch lies between others, or before them, and agrees with their numbers."""
    if batch.dropped_count or not others:
        return False
    behind = next((other for other in others if distance(batch.next, other.first) >= 0), None)
    return (
        behind is not None
        and behind.removed == batch.removed
        and not any(_overlap(other, batch) for other in others)
    )


def _overlap(batch: Batch, other: Batch) -> bool:
    """Whether some sequence numbers belong to both."""
    return distance(batch.first, other.next) > 0 and distance(other.first, batch.next) > 0


def _count_same_behind(batch: Batch, other: Batch) -> bool:
    """Whether both end at the same sequence number, with as many dropped records up to there."""
    return batch.next == other.next and batch.removed_with == other.removed_with

"""One producer at one partition: which numbers its batches get, and what its client is told.

Pure: no I/O, no clock. Rules for the next editor: `decide` is called in the order in which
batches are to go to the broker; what it returns is final until the batch is cut off. Every
change of a batch's state goes through `Batch.apply`.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.gateway.produce.producer_state.batch import Batch, Event, State, Stored
from penstock.gateway.produce.producer_state.batches import BATCHES_MAX, Batches, is_refused
from penstock.gateway.produce.producer_state.numbers import Range, add, distance
from penstock.wire.errors import (
    DUPLICATE_SEQUENCE_NUMBER,
    NONE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    REQUEST_TIMED_OUT,
    RETRIABLE,
    UNKNOWN_PRODUCER_ID,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    Buffer = bytes | memoryview

UNSETTLED_MAX: Final = 32
"""So many batches without an answer a producer may have; clients have five (KIP-98)."""


class History(Enum):
    """What is known of a producer's batches before the first that is remembered."""

    UNKNOWN = "unknown"
    """Nothing: records may have been dropped elsewhere, or stored without this gateway."""
    UNRECORDED = "unrecorded"
    """No gateway has dropped a record; some may have been stored without any gateway."""
    RESTORED = "restored"
    """What an earlier process kept: records may have been dropped since."""
    FOLLOWED = "followed"
    """The broker takes the batches that came here. That may be because it has them, and more
    that was stored without this gateway."""
    COMPLETE = "complete"
    """Everything, or the broker has confirmed the numbers."""


IN_FLIGHT_MAX: Final = 5
"""So many batches a client may have in flight, and so many a broker knows again (KIP-98)."""
_MAY_BE_OLD: Final = frozenset({History.UNKNOWN, History.RESTORED})
_UNCONFIRMED: Final = frozenset({History.UNKNOWN, History.UNRECORDED, History.FOLLOWED})


class Beginning(NamedTuple):
    """The sequence number from which on everything is known that was decided.

    Attributes:
        first: The client's.
        removed: How many records had been dropped before that.
    """

    first: int
    removed: int


class Producer:
    """The batches of one producer in one epoch at one partition, in the order of their numbers.

    Attributes:
        epoch: The producer's epoch.
        next: The client's sequence number after the last batch that is decided.
        removed: How many records have been dropped before that.
        history: What is known of what was before the first of `batches`.
        batches: The last ones, oldest first, without a gap between them.
        beginning: Where those begin, as it was kept, with refused ones that were not.
        undecided: Batches that were answered before they were decided, with an error after
            which the client sends them again.
        topic_id: The topic's id, where it is known.
        used: When it was last of use, in seconds since the epoch.
        decided: When a batch of it was decided last, here or elsewhere, as far as is known.
        written: When its record was written last; 0 where there is none.
    """

    __slots__ = ("_release", "batches", "beginning", "decided", "epoch", "history", "next",
                 "removed", "topic_id", "undecided", "used", "written")  # fmt: skip

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
        """Begin.

        Args:
            epoch: The producer's.
            first: The client's sequence number that is decided next.
            release: Called with each batch that needs no data any more, or is forgotten.
            removed: How many records have been dropped before it.
            history: What is known of what was before.
            batches: Those that are remembered.
            beginning: Where those begin; None for the first one's numbers.
            topic_id: The topic's id, where it is known.
            used: Seconds since the epoch.
            written: Seconds since the epoch.
        """
        self._release = release
        self.epoch = epoch
        self.next = first
        self.removed = removed
        self.history = history
        self.batches = Batches(batches, release)
        self.beginning = beginning
        self.undecided: list[Range] = []
        self.topic_id = topic_id
        self.used = used
        self.decided = used
        self.written = written

    # What is known

    @property
    def is_confirmed(self) -> bool:
        """Whether it is certain that the broker has nothing behind what is known here."""
        return self.history not in _UNCONFIRMED

    @property
    def _is_restored(self) -> bool:
        """Whether batches are known that were kept, and more may have been stored since."""
        return self.history is not History.COMPLETE and any(one.is_settled for one in self.batches)

    @property
    def _may_be_ahead(self) -> bool:
        """Whether the broker may have more than is known here."""
        return self._is_restored or (self.history in _MAY_BE_OLD and not self.batches)

    def is_kept_back(self, batch: Batch) -> bool:
        """Whether an earlier batch, which may have gone another way, keeps this one back."""
        return self._awaits_before(batch.first) or any(
            one.state is State.AWAITED
            or (one.state is State.SENT and one.connection != batch.connection)
            for one in self.batches.before(batch)
        )

    # Batches that come

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
        """Return what becomes of a batch, or the error code for the client.

        Args:
            numbers: The client's.
            known: What was made of it when it came before.
            dropped: Positions of the records that interceptors dropped now.
            data: The batch without them.
            connection: The one it is to go to the broker on.
            overtakes: Whether a batch with lower numbers has come on another connection and
                is not decided yet.
        """
        if known is not None:
            decision = self._again(known, dropped, data, connection)
        else:
            decision = self._decide(numbers, dropped, data, connection, overtakes=overtakes)
        if isinstance(decision, Batch) and self.undecided:
            self.undecided = [one for one in self.undecided if one.first != numbers.first]
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
            self.defer(numbers)
            return OUT_OF_ORDER_SEQUENCE_NUMBER  # as a broker says, which has not stored it
        if ahead and (overtakes or self._misses(numbers.first)):
            self.defer(numbers)
            return REQUEST_TIMED_OUT
        if len(self.batches) >= BATCHES_MAX:
            self._trim()
        unsettled = sum(not one.is_settled for one in before) if before else 0
        if unsettled >= UNSETTLED_MAX or len(self.batches) >= BATCHES_MAX:
            self.defer(numbers)
            return REQUEST_TIMED_OUT
        if ahead:  # and the broker, which was asked, misses something, too
            if self.history in _MAY_BE_OLD and not unsettled:
                return UNKNOWN_PRODUCER_ID
            self.defer(numbers)
            return OUT_OF_ORDER_SEQUENCE_NUMBER
        return self._append(numbers, dropped, data, connection)

    def _again(
        self, batch: Batch, dropped: Sequence[int], data: Buffer, connection: int
    ) -> Batch | int:
        """Return a batch that comes again, as what it was."""
        batch.connection = connection
        if batch.data is None and not batch.is_done:
            if len(dropped) != batch.dropped_count or (
                batch.dropped and list(batch.dropped) != list(dropped)
            ):
                if batch.state is not State.STORED:
                    return UNKNOWN_PRODUCER_ID
                batch.stored = Stored()  # it need not go again to learn where it is
                return batch
            batch.dropped, batch.data = dropped, data
        return batch

    def _append(
        self, numbers: Range, dropped: Sequence[int], data: Buffer, connection: int
    ) -> Batch:
        batch = self._new(numbers, self.removed, dropped, data, connection)
        self.removed = add(self.removed, len(dropped))
        self.next = add(numbers.first, numbers.count)
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
        """Whether a batch before a number, which is not decided, comes again."""
        return self.batches.await_any or self._awaits_before(first)

    def _awaits_before(self, first: int) -> bool:
        """Whether a batch before a number was told to come again before it was decided."""
        return any(distance(one.first, first) > 0 for one in self.undecided)

    def _cut(self, numbers: Range) -> int | None:
        """Make room for a batch that is not known before the end of those that are.

        A client divides a batch that was too large, or gives the numbers of a refused one to
        other records: what has these numbers is forgotten then, with all behind it, unless the
        broker has one of them. Or a batch comes after those that it was overtaken by.

        Returns:
            The position of the first batch behind it, where those stay; otherwise None.
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
        """Return what becomes of a batch before some that are decided.

        What it loses lowers their numbers, but for what they count already; not where the
        broker has one of them.
        """
        behind = [self.batches[i] for i in range(place, len(self.batches))]
        removed = counted = behind[0].removed
        if place:
            previous = self.batches[place - 1]
            removed = previous.removed_with
        elif self.beginning is not None and distance(self.beginning.first, numbers.first) >= 0:
            removed = self.beginning.removed
        more = len(dropped) - distance(removed, counted)
        if more > 0:
            if not any(one.is_at_broker for one in behind):
                for one in behind:
                    one.broker_first = add(one.broker_first, -more)
                self.removed = add(self.removed, more)
            elif len(dropped) < numbers.count:
                return OUT_OF_ORDER_SEQUENCE_NUMBER
        batch = self._new(numbers, removed, dropped, data, connection)
        self.batches.insert(place, batch)
        return batch

    def cut_at(self, place: int) -> None:
        """Forget the batches from a position on: the numbers go on as before them."""
        cut = self.batches[place]
        before = self.batches[place - 1] if place else None
        self.next = before.next if before is not None else cut.first
        self.removed = cut.removed
        self.batches.cut_at(place)

    def defer(self, numbers: Range) -> None:
        """Take note that a batch is told to come again before it is decided."""
        batch = self.batches.find(numbers)
        if batch is not None:
            batch.apply(Event.RETRY)
            return
        if self._is_past(numbers):
            return
        self._cut(numbers)
        if numbers not in self.undecided:
            self.undecided = [*self.undecided, numbers][-BATCHES_MAX:]

    def _is_past(self, numbers: Range) -> bool:
        """Whether these numbers are of an attempt that the client has long gone on from."""
        return any(
            distance(numbers.first, one.next) > 0
            for one in self.batches
            if one.state in {State.STORED, State.ACKNOWLEDGED}
        )

    def _settle_before(self, batch: Batch) -> None:
        """Await nothing that begins before the end of a batch that is stored, or acknowledged."""
        if self.undecided:
            self.undecided = [one for one in self.undecided if distance(one.first, batch.next) <= 0]

    def refuse(self, numbers: Range, *, overtakes: bool) -> None:
        """Take note that a batch is refused for good before it is decided; see `decide`."""
        self.undecided = [one for one in self.undecided if one.first != numbers.first]
        batch = self.batches.find(numbers)
        if batch is not None:
            if batch.state not in {State.STORED, State.DROPPED, State.ACKNOWLEDGED}:
                batch.apply(Event.REFUSE)
                self._release(batch)
            return
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

    # Batches that go

    def send(self, batch: Batch) -> int:
        """Let a decided batch go to the broker.

        Returns:
            0 if it may go; otherwise the error code for the client.
        """
        if batch not in self.batches:
            self.defer(batch.numbers)
            return REQUEST_TIMED_OUT
        if batch.state is State.REFUSED:
            return REQUEST_TIMED_OUT
        before = self.batches.before(batch)
        code = self._obstacle(batch, before)
        batch.apply(Event.RETRY if code else Event.SEND)
        batch.unsettled_before = sum(not one.is_settled for one in before) if before else 0
        return code

    def obstacle(self, batch: Batch) -> int:
        """Return the error code that an earlier batch keeps this one back with; 0 if none does.

        What is sent on the same connection is before it at the broker, too. What was sent on
        another may come later, which only a broker notices that knows the producer.
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
        for one in before:
            if one.state is State.AWAITED:
                return REQUEST_TIMED_OUT
            if one.connection == batch.connection:
                continue
            if one.state is State.DECIDED or (
                one.state is State.SENT and not self.batches.are_known_to_broker
            ):
                return REQUEST_TIMED_OUT
        return NONE

    def acknowledge(self, batch: Batch) -> int:
        """Return what the client is told of a batch of which every record was dropped.

        To be asked when the answer is due: after the answers to what came before on its
        connection. Success is one for all batches before it.
        """
        is_kept = batch.state in {State.STORED, State.DROPPED, State.ACKNOWLEDGED}
        if batch not in self.batches or not is_kept:
            return REQUEST_TIMED_OUT
        if self._awaits_before(batch.first):
            return REQUEST_TIMED_OUT
        for one in self.batches.before(batch):
            if one.state is State.REFUSED:
                return OUT_OF_ORDER_SEQUENCE_NUMBER
            if not one.is_settled:
                return REQUEST_TIMED_OUT
        if batch.state is not State.STORED:
            batch.apply(Event.ACKNOWLEDGE)
        self._settle_before(batch)
        return NONE

    def on_response(self, batch: Batch, code: int, stored: Stored) -> int:
        """Take the broker's answer to a batch; return the error code for the client.

        It is the broker's, or UNKNOWN_PRODUCER_ID where the broker's only shows that what is
        known here is older than the truth: then everything is to be forgotten.
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
        else:
            batch.apply(Event.REFUSE)
            self._release(batch)
        return code

    def _store(self, batch: Batch, stored: Stored) -> None:
        # It takes a batch only behind the one before it, and the client concludes the same.
        for one in self.batches.before(batch):
            one.presume()
        batch.apply(Event.STORE)
        batch.stored = stored
        batch.dropped = ()
        self._release(batch)
        self._settle_before(batch)
        if self.history in _UNCONFIRMED:
            # What was in flight before this gateway followed the producer has come again by then.
            count = sum(one.state is State.STORED for one in self.batches)
            is_confirmed = count > IN_FLIGHT_MAX
            self.history = History.COMPLETE if is_confirmed else History.FOLLOWED
        else:
            self.history = History.COMPLETE

    def on_last_sequence(
        self,
        numbers: Range,
        last_sequence: int | None,
        *,
        loses: bool,
        is_shared: bool,
        is_begun: bool,
        is_recent: bool,
        overtakes: bool,
    ) -> None:
        """Learn from the broker how far the producer has come, before a batch is decided.

        Args:
            numbers: The batch's.
            last_sequence: The last one that the broker has of this epoch; None for none.
            loses: Whether interceptors dropped records of it now.
            is_shared: Whether batches may go through other gateways.
            overtakes: See `decide`.
            is_begun: Whether nothing was known of the producer but what came here.
            is_recent: Whether the broker cannot have forgotten what it has stored.
        """
        known = self.batches.find(numbers)
        if known is None:
            self._cut(numbers)
        self._presume_stored(numbers, last_sequence, is_recent=is_recent)
        if last_sequence is None:
            self._broker_has_none(numbers, is_begun=is_begun, overtakes=overtakes)
            return
        known = self.batches.find(numbers)
        removed = self.removed if known is None else known.removed
        missing = distance(last_sequence, add(numbers.first, -removed)) - 1
        if missing <= 0 and is_shared:  # all before it is stored, by way of another gateway
            self.undecided = [
                one for one in self.undecided if distance(numbers.first, one.first) >= 0
            ]
        if known is not None:
            return
        if missing == 0:
            self.history = History.COMPLETE
        if missing > 0:
            self._broker_misses(numbers, missing)
        elif distance(self.next, numbers.first) > 0:
            if not overtakes:  # and nothing of what is not known here was dropped
                self.next = numbers.first
        elif loses and is_begun:
            self._take_for_stored(numbers, -missing)

    def _presume_stored(
        self, numbers: Range, last_sequence: int | None, *, is_recent: bool
    ) -> None:
        """Compare the batches that are known with the last sequence of the broker."""
        for one in self.batches:
            if last_sequence is not None and not one.follows_stored(last_sequence):
                one.presume()
            elif one.state is State.PRESUMED and (
                last_sequence is not None or is_recent or distance(numbers.first, one.first) > 0
            ):
                one.apply(Event.RETRY)

    def _broker_has_none(self, numbers: Range, *, is_begun: bool, overtakes: bool) -> None:
        """Learn that the broker has nothing of this epoch, or has forgotten it."""
        ahead = distance(self.next, numbers.first)
        has_forgotten = self.batches.are_known_to_broker or self._is_restored
        if is_begun:
            self.history = History.COMPLETE
        if ahead > 0 and has_forgotten and not overtakes and not self._misses(numbers.first):
            self.next = numbers.first  # any number is the first one then

    def _broker_misses(self, numbers: Range, missing: int) -> None:
        """Learn that the broker does not have all that comes before a batch."""
        if self.history is History.FOLLOWED:
            self.history = History.COMPLETE  # those before it are on their way
        elif not self.batches and self.history is not History.COMPLETE:
            self.next = add(numbers.first, -missing)
            if self.history is History.UNRECORDED:  # those before it are on their way
                self.history = History.COMPLETE

    def _take_for_stored(self, numbers: Range, count: int) -> None:
        """Take a batch for stored as it came, before there were interceptors for the topic.

        Args:
            numbers: The batch's.
            count: How many records the broker has from its first one on.
        """
        if self.removed or numbers.first != self.next or count < numbers.count:
            return
        stored = Batch(
            numbers.first, numbers.count, numbers.first, (), 0, State.STORED,
            stored=Stored(), checksum=numbers.checksum,
        )  # fmt: skip
        self.batches.append(stored)
        # What follows it may have been stored in the same way: that is asked again.
        self.next = add(numbers.first, numbers.count)

    def skip(self, numbers: Range, *, overtakes: bool) -> None:
        """Go on at a batch although the broker cannot be asked what it has before it.

        What is not known here went through another gateway, where no record was dropped, or it
        would be in the records that all gateways share. The broker objects if it misses it.
        """
        ahead = distance(self.next, numbers.first)
        if ahead > 0 and not overtakes and not self._misses(numbers.first):
            self.next = numbers.first

    def learn(self, batches: Sequence[Batch], following: int, removed: int) -> bool:
        """Take in what another gateway has decided about this producer in this epoch.

        Interceptors say the same everywhere: two gateways differ in how much they know.

        Args:
            batches: Those that it remembers.
            following: The client's sequence number after the last that it has decided.
            removed: How many records had been dropped before that.

        Returns:
            Whether it knows all that is known here.
        """
        behind = next((one for one in self.batches if distance(following, one.first) >= 0), None)
        known = self.removed if behind is None else behind.removed
        if distance(known, removed) < 0:
            return False
        if behind is not None and distance(known, removed) > 0:
            place = self.batches.index(behind)
            if all(
                self.batches[i].state is not State.STORED for i in range(place, len(self.batches))
            ):
                self.cut_at(place)  # decided without knowing of all that was dropped before
        merged = list(self.batches)
        self.confirm(batches)
        for one in batches:
            if not any(
                distance(other.first, one.next) > 0 and distance(one.first, other.next) > 0
                for other in merged
            ):
                merged.append(one)
                is_awaited = any(other[:2] == one.numbers[:2] for other in self.undecided)
                if is_awaited:
                    self.undecided = [
                        other for other in self.undecided if other[:2] != one.numbers[:2]
                    ]
                    if not one.loses_all:  # such a one is settled, whether it comes again or not
                        one.apply(Event.RETRY)
        merged.sort(key=lambda one: distance(following, one.first))
        self.batches = Batches(merged, self._release)
        if not merged:
            return True
        self.next, self.removed = merged[-1].next, merged[-1].removed_with
        self.history = History.COMPLETE
        self._trim()
        return self.next == following

    def confirm(self, batches: Sequence[Batch]) -> None:
        """Learn that decisions about batches are kept, or that they are stored."""
        for one in batches:
            known = self.batches.find(one.numbers)
            if known is None:
                continue
            if known.loses_all and one.loses_all:
                known.apply(Event.DROP)
            elif (
                one.state is State.STORED
                and known.broker_first == one.broker_first
                and known.state in {State.PRESUMED, State.SENT, State.AWAITED}
            ):
                known.apply(Event.STORE)

    # Memory

    def clear(self) -> None:
        """Forget all batches; numbers go on."""
        self.batches.cut_at(0)

    def _trim(self) -> None:
        if self.batches.trim():
            self.beginning = None

"""A producer at one partition: the decisions about its batches, and the client's error codes.

No I/O, no clock. Rules for changes: `decide` is called in the order in which batches are sent to
the broker; its result is final until the batch is removed. Every change of a batch's state goes
through `Batch.apply`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.gateway.produce.producer_state.producer.at_broker import AtBroker
from penstock.gateway.produce.producer_state.producer.batch import Batch, Event, State, Stored
from penstock.gateway.produce.producer_state.producer.batches import BATCHES_MAX, is_refused
from penstock.gateway.produce.producer_state.producer.earlier_batches import EarlierBatches
from penstock.gateway.produce.producer_state.producer.history import History
from penstock.gateway.produce.producer_state.producer.numbering import Beginning, Numbering
from penstock.gateway.produce.producer_state.producer.numbers import Range, distance
from penstock.gateway.produce.producer_state.producer.other_decisions import OtherDecisions
from penstock.gateway.produce.producer_state.producer.record_state import RecordState
from penstock.gateway.produce.producer_state.producer.stored_at_leader import UNSETTLED_MAX
from penstock.kafka.wire.errors import (
    DUPLICATE_SEQUENCE_NUMBER,
    NONE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    REQUEST_TIMED_OUT,
    RETRIABLE,
    UNKNOWN_PRODUCER_ID,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from uuid import UUID

    Buffer = bytes | memoryview
    Numbers = tuple[int, int]


class Producer:
    """The batches of one producer in one epoch at one partition, by sequence number.

    Attributes:
        epoch: The producer epoch.
        topic_id: The id of the topic, if it is known.
        used: When the producer was last used, in seconds since the epoch.
        numbering: The last batches, and their sequence numbers for the broker.
        batches: The same batches.
        earlier: The batches for which later batches have to wait.
        at_broker: The knowledge about the batches that the broker has stored.
        record: The records that were written of the producer, here and by other gateways.
    """

    __slots__ = (
        "_release",
        "at_broker",
        "batches",
        "earlier",
        "epoch",
        "numbering",
        "record",
        "topic_id",
        "used",
    )

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
        last_use: float = 0.0,
        last_write: float = 0.0,
    ) -> None:
        """Make the state of a producer.

        Args:
            epoch: The producer epoch.
            first: The client's sequence number that is decided next.
            release: Called with each batch whose data is not needed any more, or that is removed.
            removed: The number of records that were dropped before it.
            history: The known facts about earlier batches.
            batches: The batches that are remembered.
            beginning: See `Numbering`.
            topic_id: The id of the topic, if it is known.
            last_use: In seconds since the epoch.
            last_write: When its record was written, in seconds since the epoch; 0 if there is none.
        """
        self._release = release
        self.epoch = epoch
        self.topic_id = topic_id
        self.used = last_use
        self.numbering = Numbering(first, removed, batches, beginning, release)
        self.batches = self.numbering.batches
        self.earlier = EarlierBatches(self.batches)
        self.at_broker = AtBroker(history, self.numbering, self.earlier)
        self.record = RecordState(last_write)

    def is_of_other_topic(self, topic_id: UUID | None) -> bool:
        """Whether its topic was deleted and created again with another id, as far as is known."""
        return self.topic_id is not None and topic_id is not None and self.topic_id != topic_id

    def overtakes(self, numbers: Range, undecided_numbers: Sequence[int]) -> bool:
        """Whether an undecided batch with lower sequence numbers has been received.

        Args:
            numbers: The sequence numbers of a batch.
            undecided_numbers: The first sequence numbers of the received batches that are not
                decided.
        """
        if not undecided_numbers:
            return False
        following = self.numbering.next
        ahead = distance(following, numbers.first)
        return any(0 <= distance(following, first) < ahead for first in undecided_numbers)

    # Received batches

    def decide(
        self,
        numbers: Range,
        dropped: Sequence[int],
        data: Buffer,
        *,
        first_attempt: Batch | None,
        connection: int,
        overtakes: bool,
    ) -> Batch | int:
        """Return the decided batch, or the error code for the client.

        Args:
            numbers: The client's sequence numbers.
            first_attempt: The batch of the first attempt, if this is a retry.
            dropped: The positions of the records that interceptors dropped now.
            data: The batch without these records.
            connection: The number of the connection on which it will be sent.
            overtakes: Whether a batch with lower sequence numbers was received on another
                connection and is not decided yet.
        """
        if first_attempt is not None:
            first_attempt.received = self.used
            decision = self._again(first_attempt, dropped, data, connection)
        else:
            decision = self._decide(numbers, dropped, data, connection, overtakes=overtakes)
        if isinstance(decision, Batch):
            decision.received = self.used
            self.earlier.expect_none_from(numbers.first)
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
        behind = self.numbering.cut(numbers)
        ahead = distance(self.numbering.next, numbers.first)
        if behind is not None:
            batch = self.numbering.insert(behind, numbers, dropped, data, connection)
            return OUT_OF_ORDER_SEQUENCE_NUMBER if batch is None else batch
        earlier_batches = self.batches.before(None)
        if ahead < 0 or (is_refused(earlier_batches) and self.batches.are_known_to_broker):
            self.defer(numbers, connection)
            return OUT_OF_ORDER_SEQUENCE_NUMBER  # as from a broker that has not stored it
        if ahead and (overtakes or self.earlier.misses(numbers.first)):
            self.defer(numbers, connection)
            return REQUEST_TIMED_OUT
        if len(self.batches) >= BATCHES_MAX:
            self.numbering.trim()
        unsettled = (
            sum(not earlier.is_settled for earlier in earlier_batches) if earlier_batches else 0
        )
        if unsettled >= UNSETTLED_MAX or len(self.batches) >= BATCHES_MAX:
            self.defer(numbers, connection)
            return REQUEST_TIMED_OUT
        if ahead:  # and the broker, which was queried, misses some batches, too
            if self.at_broker.may_be_old and not unsettled:
                return UNKNOWN_PRODUCER_ID
            self.defer(numbers, connection)
            return OUT_OF_ORDER_SEQUENCE_NUMBER
        batch = self.numbering.append(numbers, dropped, data, connection)
        self.at_broker.appended(batch)
        return batch

    def _again(
        self, batch: Batch, dropped: Sequence[int], data: Buffer, connection: int
    ) -> Batch | int:
        """Return a batch that is retried, as it was."""
        batch.connection = connection
        if batch.data is None and not batch.is_done:
            if batch.is_decided_otherwise(dropped):
                if batch.is_confirmed:
                    return batch
                if batch.state is State.SENT:  # it may be on its way to the broker
                    batch.apply(Event.RETRY)
                    return REQUEST_TIMED_OUT
                if batch.state is State.PRESUMED and batch.first in self.at_broker.only_at_leader:
                    return REQUEST_TIMED_OUT
                if batch.state is not State.STORED:
                    return UNKNOWN_PRODUCER_ID
                batch.stored = Stored()  # it need not be sent again to find out where it is
                return batch
            batch.dropped, batch.data = dropped, data
        return batch

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
        if self.batches.are_past(numbers.first):
            return
        self.numbering.cut(numbers)
        self.earlier.expect(numbers, connection)

    def refuse(self, numbers: Range, *, overtakes: bool) -> None:
        """Record that a batch gets a final error before it is decided; see `decide`."""
        self.earlier.expect_none_from(numbers.first)
        batch = self.batches.find(numbers)
        if batch is not None:
            if batch.state not in {State.STORED, State.DROPPED, State.ACKNOWLEDGED}:
                batch.apply(Event.REFUSE)
                self._release(batch)
            return
        if self.batches.have_refused(numbers):
            return  # its client does not know of it; later batches may be stored
        place = self.numbering.cut(numbers)
        if place is not None:
            self.numbering.insert_refused(place, numbers)
        elif not self.batches.are_refused and (
            numbers.first == self.numbering.next
            or (
                distance(self.numbering.next, numbers.first) > 0
                and (self.batches.are_known_to_broker or self.at_broker.may_be_ahead)
                and not overtakes
                and not self.earlier.misses(numbers.first)
            )
        ):
            self.numbering.append_refused(numbers)

    # Sent batches

    def send(self, batch: Batch, *, is_whole: bool = False) -> int:
        """Mark a decided batch as sent.

        Args:
            is_whole: Whether it is sent as the client sends it, because the leader has it.

        Returns:
            0 if it may be sent; otherwise the error code for the client.
        """
        if batch not in self.batches or (is_whole and batch.state is not State.PRESUMED):
            self.defer(batch.numbers, batch.connection)
            return REQUEST_TIMED_OUT
        if batch.state is State.REFUSED:
            return REQUEST_TIMED_OUT
        earlier_batches = self.batches.before(batch)
        code = self.earlier.obstacle(batch, earlier_batches)
        batch.apply(Event.RETRY if code else Event.SEND)
        batch.unsettled_before = (
            sum(not earlier.is_settled for earlier in earlier_batches) if earlier_batches else 0
        )
        if not code and batch.dropped_count:
            self.numbering.lower_behind(batch)
        return code

    def obstacle(self, batch: Batch) -> int:
        """Return the error code if an earlier batch blocks this batch; 0 if none does."""
        return self.earlier.obstacle(batch, self.batches.before(batch))

    def acknowledge(self, batch: Batch, now: float) -> int:
        """Return the client's error code for a batch whose records were all dropped; 0 for success.

        To be called when all requests before it on the connection have responses, because clients
        take a success to include all batches before it.

        Args:
            now: The time in seconds.
        """
        is_kept = batch.state in {State.STORED, State.DROPPED, State.ACKNOWLEDGED}
        if batch not in self.batches or not is_kept:
            return REQUEST_TIMED_OUT
        code = self.earlier.obstacle_to_success(batch)
        if code:
            return code
        if batch.state is not State.STORED:
            if not self.at_broker.only_at_leader.are_replicated_before(batch.first, now):
                return REQUEST_TIMED_OUT
            batch.apply(Event.ACKNOWLEDGE)
        self._settle_before(batch)
        return NONE

    def on_response(self, batch: Batch, code: int, position: Stored) -> int:
        """Apply the broker's response to a batch; return the error code for the client.

        Returns:
            The broker's error code. UNKNOWN_PRODUCER_ID if that shows that the state here is
            outdated, and the producer has to be removed. NONE for a batch that is stored, though
            the broker does not recognize it any more.
        """
        if batch not in self.batches:
            return code
        if code in {NONE, DUPLICATE_SEQUENCE_NUMBER}:
            self._store(batch, position)
            return code
        may_be_old = self.at_broker.may_be_old and not batch.unsettled_before
        if code == OUT_OF_ORDER_SEQUENCE_NUMBER and may_be_old:
            return UNKNOWN_PRODUCER_ID
        if code == OUT_OF_ORDER_SEQUENCE_NUMBER and self.batches.are_stored_around(batch):
            self._store(batch, Stored())
            return NONE
        # Not retriable to Kafka, yet idempotent producers retry after it (TransactionManager.java).
        if code in RETRIABLE or code == OUT_OF_ORDER_SEQUENCE_NUMBER:
            batch.apply(Event.RETRY)
            if code == OUT_OF_ORDER_SEQUENCE_NUMBER and self.earlier.were_missing(batch, self.used):
                return REQUEST_TIMED_OUT
        else:
            batch.apply(Event.REFUSE)
            self._release(batch)
        return code

    def _store(self, batch: Batch, position: Stored) -> None:
        # The broker stores a batch only after the previous batch; clients rely on that, too.
        for earlier in self.batches.before(batch):
            earlier.presume()
        batch.apply(Event.STORE)
        batch.stored = position
        if not batch.quarantined:  # else a retry elsewhere has to lose the same records
            batch.dropped = ()
        self._release(batch)
        self._settle_before(batch)
        self.at_broker.stored()

    def _settle_before(self, batch: Batch) -> None:
        """Expect no retry of batches before a batch that is stored or acknowledged."""
        self.earlier.expect_none_before(batch.next)
        self.at_broker.only_at_leader.remove_before(batch.next)

    # The decisions of other gateways

    @property
    def decisions(self) -> OtherDecisions:
        """The decisions about its batches, as another gateway learns them."""
        return OtherDecisions(self.batches, self.numbering.next, self.numbering.removed)

    def learn(self, theirs: OtherDecisions, *, is_newer: bool = False) -> bool:
        """Merge the decisions of another gateway about this producer in this epoch.

        Args:
            is_newer: Whether the other gateway knew all that was written here.

        Returns:
            Whether the other gateway has all batches that are known here.
        """
        awaited_batches = self._awaited_batches
        place = theirs.first_sent_otherwise(self.batches, is_newer=is_newer)
        counting = theirs if place is None else theirs.until(place)
        if is_newer:
            replaced = counting.first_replaced(self.batches)
            if replaced is not None:
                self.numbering.cut_at(replaced)
        return self._merge(counting, awaited_batches) and place is None

    def _merge(self, theirs: OtherDecisions, awaited_batches: Collection[Numbers]) -> bool:
        following, removed = theirs.next, theirs.removed
        behind = next(
            (batch for batch in self.batches if distance(following, batch.first) >= 0), None
        )
        own_removed_count = self.numbering.removed if behind is None else behind.removed
        if distance(own_removed_count, removed) < 0:
            return False
        if behind is not None and distance(own_removed_count, removed) > 0:
            place = self.batches.index(behind)
            if State.STORED not in self.batches.states_from(place):
                self.numbering.cut_at(place)  # decided without knowing all records dropped before
        self.confirm(theirs.batches)
        merged = theirs.merged_with(self.batches)
        for batch in merged.theirs:
            self._expect_again(batch, awaited_batches)
        theirs.lower_behind(merged)
        batches = merged.batches
        if not batches:
            return True
        self.numbering.replace(batches, batches[-1].next, batches[-1].removed_with)
        self.at_broker.history = History.COMPLETE
        self.numbering.trim()
        return self.numbering.next == following

    def take_over(self, theirs: OtherDecisions) -> None:
        """Replace the state by the decision of another gateway, in a record that fences.

        Batches that are not in it stay if they fit: their records were not dropped.
        """
        awaited_batches = self._awaited_batches
        batches, their_batches = theirs.instead_of(self.batches)
        self.numbering.replace(batches, theirs.next, theirs.removed)
        self.confirm(theirs.batches)
        for batch in their_batches:
            self._expect_again(batch, awaited_batches)
        self.earlier.expect_none_before(theirs.next)
        self.at_broker.continued = self.record.agreed_at = None
        self.at_broker.history = History.COMPLETE
        self.record.begins_unknown = False
        self.numbering.trim()

    @property
    def _awaited_batches(self) -> Collection[Numbers]:
        """The first sequence numbers and counts of the decided batches whose retry is expected."""
        return {batch.numbers[:2] for batch in self.batches if batch.state is State.AWAITED}

    def _expect_again(self, batch: Batch, awaited_batches: Collection[Numbers]) -> None:
        """Expect a retry of a batch that another gateway has decided, if it failed here.

        Args:
            awaited_batches: The batches whose retry was expected, and that may be replaced by now.
        """
        is_expected = self.earlier.expect_decided(batch) or batch.numbers[:2] in awaited_batches
        # Without records it is settled, with or without a retry.
        if is_expected and (not batch.loses_all or batch.owes_letters):
            batch.apply(Event.RETRY)

    def confirm(self, batches: Sequence[Batch]) -> None:
        """Record that decisions about batches have been written, or that batches are stored."""
        for batch in batches:
            own_batch = self.batches.find(batch.numbers)
            if own_batch is None:
                continue
            own_batch.received = max(own_batch.received, batch.received)
            if own_batch.loses_all and batch.loses_all:
                own_batch.is_lettered = own_batch.is_lettered or batch.is_lettered
                if not own_batch.owes_letters:  # else they are being stored, or could not be
                    own_batch.apply(Event.DROP)
            elif (
                batch.state is State.STORED
                and own_batch.broker_first == batch.broker_first
                and own_batch.state in {State.PRESUMED, State.SENT, State.AWAITED}
            ):
                own_batch.apply(Event.STORE)

    def learn_of_letters(self, batches: Sequence[Batch]) -> None:
        """Record that dead letters are stored, by a record whose decisions do not count.

        That they are stays true where the same records are set aside.
        """
        for batch in batches:
            own_batch = self.batches.find(batch.numbers)
            if (
                own_batch is not None
                and own_batch.loses_all
                and batch.loses_all
                and batch.is_lettered
                and list(batch.quarantined) == list(own_batch.quarantined)
            ):
                self.confirm([batch])

    def clear(self) -> None:
        """Remove all batches; the sequence numbers continue."""
        self.batches.cut_at(0)

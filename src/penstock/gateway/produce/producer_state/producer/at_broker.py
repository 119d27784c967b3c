"""The batches that the broker has stored of a producer, as far as they are known here.

The broker may have stored batches that did not pass through this gateway. It is queried for the
last sequence number that it has stored (DescribeProducers), and its responses to batches say more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.gateway.produce.producer_state.producer.batch import Event, State
from penstock.gateway.produce.producer_state.producer.history import (
    BEGUN,
    MAY_BE_OLD,
    UNCONFIRMED,
    History,
)
from penstock.gateway.produce.producer_state.producer.numbers import add, distance
from penstock.gateway.produce.producer_state.producer.stored_at_leader import StoredAtLeader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.gateway.produce.producer_state.producer.batch import Batch
    from penstock.gateway.produce.producer_state.producer.earlier_batches import EarlierBatches
    from penstock.gateway.produce.producer_state.producer.numbering import Numbering
    from penstock.gateway.produce.producer_state.producer.numbers import Range

IN_FLIGHT_MAX: Final = 5
"""The most batches that a client has in flight, and that a broker remembers (KIP-98)."""


class AtBroker:
    """The knowledge about the batches that the broker has stored of a producer.

    Attributes:
        history: The known facts about the batches before the first of the remembered batches.
        continued: The client's sequence number up to which it is certain that no batch without
            dropped records is missing here, and the connection: the broker was queried there, and
            all batches since were decided here. A decision that drops nothing is not written, so
            other gateways do not read it. None if it is not certain.
        begins_late: Whether the broker had nothing of this epoch at a batch that is not the first.
        only_at_leader: Batches that got a retriable error here, and that only the leader has.
    """

    __slots__ = (
        "_batches",
        "_earlier",
        "_numbering",
        "begins_late",
        "continued",
        "history",
        "only_at_leader",
    )

    def __init__(self, history: History, numbering: Numbering, earlier: EarlierBatches) -> None:
        """Begin with what is known of the history.

        Args:
            history: See `AtBroker`.
            numbering: The remembered batches of the producer.
            earlier: The batches whose retry is expected.
        """
        self._numbering = numbering
        self._batches = numbering.batches
        self._earlier = earlier
        self.history = history
        self.continued: tuple[int, int] | None = None
        self.begins_late = False
        self.only_at_leader = StoredAtLeader()

    @property
    def is_confirmed(self) -> bool:
        """Whether it is certain that the broker has stored nothing after the known batches."""
        return self.history not in UNCONFIRMED

    @property
    def may_be_old(self) -> bool:
        """Whether records may have been dropped that are not known here."""
        return self.history in MAY_BE_OLD

    @property
    def is_beginning_unknown(self) -> bool:
        """Whether the state here does not tell what the broker had stored before the first batch.

        This is so if all batches until now were refused or postponed.
        """
        begins = self._batches[0].first if self._batches else self._numbering.next
        return self.history in BEGUN and begins != 0 and self._batches.were_all_refused

    @property
    def _is_restored(self) -> bool:
        """Whether batches were restored from a record, and more may have been stored since."""
        return self.history is not History.COMPLETE and any(
            batch.is_settled for batch in self._batches
        )

    @property
    def may_be_ahead(self) -> bool:
        """Whether the broker may have stored batches that are not known here."""
        return self._is_restored or (self.may_be_old and not self._batches)

    # Batches that are decided and sent here

    @property
    def was_decided_here(self) -> bool:
        """Whether the producer's last batch was decided here, after the batches before it."""
        return self.history not in BEGUN and self.continued is not None

    def is_continued_at(self, first: int, connection: int) -> bool:
        """Whether it is certain that no batch before a sequence number is missing here.

        Args:
            first: The sequence number.
            connection: The number of the connection.
        """
        return self.continued == (first, connection)

    def appended(self, batch: Batch) -> None:
        """Record that a batch was decided, behind all others."""
        is_continued = self.is_continued_at(batch.first, batch.connection)
        self.continued = (batch.next, batch.connection) if is_continued else None

    def stored(self) -> None:
        """Record that the broker has stored one of the remembered batches."""
        self.begins_late = False
        if self.history in UNCONFIRMED:
            # By then there are no retries any more of batches that were in flight at the beginning.
            count = sum(other.state is State.STORED for other in self._batches)
            is_confirmed = count > IN_FLIGHT_MAX
            self.history = History.COMPLETE if is_confirmed else History.FOLLOWED
        else:
            self.history = History.COMPLETE

    # The last sequence number that the broker has stored

    def on_last_sequence(
        self,
        numbers: Range,
        last_sequence: int | None,
        *,
        dropped: Sequence[int],
        is_shared: bool,
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
            overtakes: See `Producer.decide`.
            recent_from: Batches that were received after that time cannot have been forgotten by
                the broker.
            connection: The number of the connection on which the broker was queried.
            now: The time in seconds.
        """
        first_attempt = self._batches.find(numbers)
        if first_attempt is None:
            self._numbering.cut(numbers)
        self.only_at_leader.on_last_sequence(last_sequence, now)
        self._presume_stored(
            numbers, last_sequence, recent_from=recent_from, connection=connection, now=now
        )
        if first_attempt is not None:
            is_at_leader = last_sequence is not None
            self._decide_otherwise(first_attempt, dropped, now, is_at_leader=is_at_leader)
        self.continued = numbers.first, connection
        is_followed = self._numbering.next == numbers.first and not self._batches.were_all_refused
        self.begins_late = last_sequence is None and bool(numbers.first) and not is_followed
        if last_sequence is None:
            self._broker_has_none(numbers, overtakes=overtakes)
            return
        first_attempt = self._batches.find(numbers)
        removed = self._numbering.removed if first_attempt is None else first_attempt.removed
        broker_first = add(numbers.first, -removed)
        gap = distance(last_sequence, broker_first) - 1
        if gap <= 0 and is_shared:
            self._settle_undecided(numbers, broker_first, connection=connection, now=now)
        if first_attempt is not None:
            return
        if gap == 0:
            self.history = History.COMPLETE
        if gap > 0:
            self._broker_misses(numbers, gap)
            return
        if distance(self._numbering.next, numbers.first) > 0 and not overtakes:
            self._numbering.next = numbers.first  # no record of the unknown batches was dropped
        if gap < 0:
            self._broker_has_more(numbers, last_sequence, dropped, now)

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
            for batch in self._batches
            if batch.state is State.AWAITED and batch.connection in {0, connection}
        ]
        for batch in self._batches:
            if last_sequence is not None and not batch.follows_stored(last_sequence):
                batch.presume()
            elif batch.state is State.PRESUMED and (
                last_sequence is not None
                or batch.received > recent_from
                or distance(numbers.first, batch.first) > 0
            ):
                batch.apply(Event.RETRY)
        for batch in awaited:
            if batch.state is State.PRESUMED:
                self.only_at_leader.add(batch.first, batch.broker_last, now)
        self._forget_claims_of_awaited()

    def _settle_undecided(
        self, numbers: Range, broker_first: int, *, connection: int, now: float
    ) -> None:
        """Assume that the undecided batches before a batch are stored: the broker misses none.

        They may have been stored through other gateways. Of those that failed on the connection
        that is used now, only the leader says so: on a new connection, clients send batches without
        a response first.
        """
        failed_here = self._earlier.failed_before(numbers.first, connection)
        self._earlier.expect_none_before(numbers.first)
        for first in failed_here:
            self.only_at_leader.add(first, add(broker_first, -1), now)
        self._forget_claims_of_awaited()

    def _forget_claims_of_awaited(self) -> None:
        for batch in self._batches:
            if batch.state is State.AWAITED:
                self.only_at_leader.remove(batch.first)

    def _decide_otherwise(
        self, batch: Batch, dropped: Sequence[int], now: float, *, is_at_leader: bool
    ) -> None:
        """Decide again about a batch, if interceptors drop other records than before.

        If the broker has stored it, it is not changed; the client gets a success, but not if only
        the leader says so, as it cannot be sent again. A batch that was sent unchanged can, but
        only while the leader has it, which then stores nothing: the client may send other records.

        Args:
            dropped: The positions of the records that interceptors dropped now.
            now: The time in seconds.
            is_at_leader: Whether the leader knows the producer; a presumed batch is stored there.
        """
        batch.is_confirmed = False
        if not batch.is_decided_otherwise(dropped):
            return
        if batch.state is State.PRESUMED and batch.was_accepted:
            batch.is_confirmed = is_at_leader
        elif batch.state is State.PRESUMED:
            if self._is_replicated(batch, now):
                batch.apply(Event.STORE)
        elif batch.state is State.AWAITED and set(batch.dropped_again) <= set(dropped):
            # Else the decision was not known yet when it was judged: it must be retried.
            self._numbering.undecide(batch)

    def _is_replicated(self, batch: Batch, now: float) -> bool:
        """Whether a batch that a leader has is certain not to be lost with that leader."""
        self.only_at_leader.add(batch.first, batch.broker_last, now)
        self._forget_claims_of_awaited()
        return self.only_at_leader.is_replicated(batch.first, now) or any(
            other.state is State.STORED and distance(batch.first, other.first) > 0
            for other in self._batches
        )

    def _broker_has_none(self, numbers: Range, *, overtakes: bool) -> None:
        """Record that the broker has stored nothing of this epoch, or has forgotten it."""
        has_forgotten = self._batches.are_known_to_broker or self._is_restored
        if not self.is_confirmed:  # all known batches were received here
            self.history = History.COMPLETE
        if has_forgotten:  # the broker accepts any first sequence number then
            self.skip(numbers, overtakes=overtakes)

    def _broker_misses(self, numbers: Range, gap: int) -> None:
        """Record that the broker has not stored all batches before one."""
        if self.history is History.FOLLOWED:
            self.history = History.COMPLETE  # the batches before it are in flight
        elif not self._batches and self.history is not History.COMPLETE:
            self._numbering.next = add(numbers.first, -gap)
            if self.history is History.UNRECORDED:  # the batches before it are in flight
                self.history = History.COMPLETE

    def _broker_has_more(
        self, numbers: Range, last_sequence: int, dropped: Sequence[int], now: float
    ) -> None:
        """Record that the broker has stored a batch already, or others in its place."""
        self.continued = None
        if self.history is History.UNKNOWN and self._lost_others(numbers, last_sequence, dropped):
            self._numbering.next = add(numbers.first, -1)  # so that the client begins a new epoch
        elif dropped:
            self._numbering.add_stored(numbers, last_sequence, now)

    def _lost_others(self, numbers: Range, last_sequence: int, dropped: Sequence[int]) -> bool:
        """Whether the first batch here lost other records before, which is not known any more.

        Its last stored sequence number is then within the batch, and is not the number that it has
        now. Later batches would get numbers that the broker takes for retries.
        """
        if self._batches or not dropped:
            return False
        stored_count = distance(add(numbers.first, -self._numbering.removed), last_sequence) + 1
        return 0 < stored_count < numbers.count and stored_count != numbers.count - len(dropped)

    def may_be_elsewhere(
        self, numbers: Range, last_sequence: int | None, dropped: Sequence[int]
    ) -> bool:
        """Whether a batch is decided for the first time, or again, and a broker does not have it.

        Args:
            numbers: The sequence numbers of the batch.
            last_sequence: The last sequence number that the broker has stored, or None.
            dropped: The positions of the records that interceptors dropped now.
        """
        first_attempt = self._batches.find(numbers)
        if first_attempt is not None:
            return first_attempt.is_decided_otherwise(dropped) and (
                last_sequence is None or first_attempt.follows_stored(last_sequence)
            )
        return last_sequence is None or (
            distance(last_sequence, add(numbers.first, -self._numbering.removed)) > 0
        )

    def begin_without_answer(self, numbers: Range) -> bool:
        """Begin with a batch although the broker does not say what it has stored before it.

        Returns:
            Whether that is certain to be nothing.
        """
        begins = self._batches[0].first if self._batches else numbers.first
        if begins == 0:
            self.history = History.COMPLETE
        return begins == 0

    def skip(self, numbers: Range, *, overtakes: bool) -> None:
        """Continue at a batch although the broker does not say what it has stored before it.

        Batches that are not known here were sent through another gateway, where no record was
        dropped, or it would have written a shared record. If one is missing, the broker refuses.
        """
        ahead = distance(self._numbering.next, numbers.first)
        if ahead > 0 and not overtakes and not self._earlier.misses(numbers.first):
            self._numbering.next = numbers.first

"""Numbers a producer's batches for the broker.

A batch's sequence number for the broker is the client's, less the number of records that were
dropped before it. A batch keeps its number (`Batch.broker_first`) as long as it is remembered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.gateway.produce.producer_state.producer.batch import Batch, State
from penstock.gateway.produce.producer_state.producer.batches import Batches
from penstock.gateway.produce.producer_state.producer.numbers import add, distance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.gateway.produce.producer_state.producer.numbers import Range

    Buffer = bytes | memoryview


_UNSENT: Final = frozenset({State.DECIDED, State.AWAITED})
"""States of a batch that is not stored, as far as is known."""


class Beginning(NamedTuple):
    """The sequence number from which on all decisions are known.

    Attributes:
        first: The client's sequence number.
        removed: The number of records that were dropped before it.
    """

    first: int
    removed: int


class Numbering:
    """The last batches of a producer, with their sequence numbers for the broker.

    Attributes:
        batches: The last batches, oldest first, without gaps.
        next: The client's sequence number after the last decided batch.
        removed: The number of records that were dropped before it.
        beginning: The first sequence number in the record, including refused batches, which are
            not in it; None for that of the first batch.
    """

    __slots__ = ("_release", "batches", "beginning", "next", "removed")

    def __init__(
        self,
        first: int,
        removed: int,
        batches: Sequence[Batch],
        beginning: Beginning | None,
        release: Callable[[Batch], None],
    ) -> None:
        """Begin at a sequence number; see `Producer`."""
        self._release = release
        self.next = first
        self.removed = removed
        self.batches = Batches(batches, release)
        self.beginning = beginning

    # Adding batches

    def append(
        self, numbers: Range, dropped: Sequence[int], data: Buffer, connection: int
    ) -> Batch:
        """Add the next batch; its dropped records lower the sequence numbers of later batches.

        Args:
            numbers: The client's sequence numbers.
            dropped: The positions of the records that are dropped.
            data: The batch without these records.
            connection: The number of the connection on which it will be sent.
        """
        batch = self._new(numbers, self.removed, dropped, data, connection)
        self.removed = add(self.removed, len(dropped))
        self.next = add(numbers.first, numbers.count)
        self.batches.append(batch)
        self.trim()
        return batch

    def insert(
        self, place: int, numbers: Range, dropped: Sequence[int], data: Buffer, connection: int
    ) -> Batch | None:
        """Add a batch that precedes decided batches.

        Its dropped records lower the sequence numbers of the later batches, unless they are
        counted already, or one of these batches is stored.

        Returns:
            The batch; None if the broker would refuse what is left of it.
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
                return None
        batch = self._new(numbers, removed, dropped, data, connection)
        self.batches.insert(place, batch)
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

    def _removed_before(self, place: int, numbers: Range) -> int:
        """Return how many records were dropped before a batch that precedes decided batches."""
        if place:
            return self.batches[place - 1].removed_with
        if self.beginning is not None and distance(self.beginning.first, numbers.first) >= 0:
            return self.beginning.removed
        return self.batches[place].removed

    def lower_behind(self, batch: Batch) -> None:
        """Lower the numbers of the batches behind a sent batch that count fewer dropped records.

        Another gateway has decided about them before it knew of these records.
        """
        place = self.batches.index(batch)
        for later in [self.batches[i] for i in range(place + 1, len(self.batches))]:
            difference = distance(later.removed, batch.removed_with)
            if later.first != batch.next or difference <= 0 or later.state not in _UNSENT:
                return
            later.broker_first = add(later.broker_first, -difference)
            batch = later
            if later.next == self.next:
                self.removed = later.removed_with

    def append_refused(self, numbers: Range) -> None:
        """Add the next batch, which gets a final error."""
        self.batches.append(_refused(numbers, self.removed))
        self.next = add(numbers.first, numbers.count)

    def insert_refused(self, place: int, numbers: Range) -> None:
        """Add a batch that precedes decided batches, and gets a final error."""
        self.batches.insert(place, _refused(numbers, self.batches[place].removed))

    def add_stored(self, numbers: Range, last_sequence: int, received: float) -> None:
        """Add a batch as stored unchanged, if the broker has it: it was sent without interceptors.

        It is sent once as the client sends it: its position is not known here.

        Args:
            numbers: The sequence numbers of the batch.
            last_sequence: The last sequence number that the broker has stored.
            received: When the batch was received, in seconds since the epoch.
        """
        place = self.batches.place(numbers.first)
        if place is None:
            removed, follows = self.removed, numbers.first == self.next
        else:
            behind = self.batches[place]
            removed = self._removed_before(place, numbers)
            follows = distance(add(numbers.first, numbers.count), behind.first) >= 0
            follows = follows and behind.removed == removed
        broker_first = add(numbers.first, -removed)
        if not follows or distance(add(broker_first, numbers.count - 1), last_sequence) < 0:
            return
        batch = Batch(
            numbers.first, numbers.count, broker_first, (), 0, State.PRESUMED,
            checksum=numbers.checksum, is_confirmed=True, received=received,
        )  # fmt: skip
        if place is not None:
            self.batches.insert(place, batch)
            return
        self.batches.append(batch)
        # Later batches may have been stored in the same way: the broker is queried for them, too.
        self.next = add(numbers.first, numbers.count)

    # Removing batches

    def cut(self, numbers: Range) -> int | None:
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
        if not self.batches.states_from(place) & {State.STORED, State.ACKNOWLEDGED}:
            self.cut_at(place)
            if distance(numbers.first, self.next) > 0:
                self.next = numbers.first
        return None

    def cut_at(self, place: int) -> None:
        """Remove the batches from an index on; the sequence numbers continue before them."""
        cut = self.batches[place]
        previous_batch = self.batches[place - 1] if place else None
        self.next = previous_batch.next if previous_batch is not None else cut.first
        self.removed = cut.removed
        self.batches.cut_at(place)

    def undecide(self, batch: Batch) -> None:
        """Forget the decision about a batch that is not stored, so that it is decided again."""
        place = self.batches.index(batch)
        states = self.batches.states_from(place)
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

    def trim(self) -> None:
        """Remove the oldest batches, whose retries a broker would not recognize either."""
        if self.batches.trim():
            self.beginning = None

    # The decisions of other gateways

    def replace(self, batches: Sequence[Batch], following: int, removed: int) -> None:
        """Take other batches instead; there may be more than are remembered.

        Args:
            batches: The batches, which may be some of these.
            following: The client's sequence number after the last decided batch.
            removed: The number of records that were dropped before it.
        """
        self.batches.replace(batches)
        self.next, self.removed = following, removed

    @property
    def written_end(self) -> tuple[int, int]:
        """The number after the last batch that is written, and how many records were dropped.

        Refused batches are not written.
        """
        written_batches = [batch for batch in self.batches if batch.state is not State.REFUSED]
        if written_batches:
            return written_batches[-1].next, written_batches[-1].removed_with
        if self.batches:  # all were refused: their sequence numbers will be reused
            return self.batches[0].first, self.batches[0].removed
        return self.next, self.removed


def _refused(numbers: Range, removed: int) -> Batch:
    first, count, checksum = numbers
    broker_first = add(first, -removed)
    return Batch(first, count, broker_first, (), 0, State.REFUSED, checksum=checksum)

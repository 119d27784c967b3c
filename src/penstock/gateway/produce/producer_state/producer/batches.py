"""The last batches of one producer."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from penstock.gateway.produce.producer_state.producer.batch import Batch, State
from penstock.gateway.produce.producer_state.producer.numbers import distance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.gateway.produce.producer_state.producer.numbers import Range

REMEMBERED: Final = 10
"""Twice the number of batches that a broker remembers (ProducerStateEntry.java)."""
BATCHES_MAX: Final = 128
"""The most batches that are remembered, including those whose records were all dropped."""
RECENT_S: Final = 600.0
"""A broker does not forget a producer sooner: it looks for unused producers that often by default
(`producer.id.expiration.check.interval.ms`)."""
_STORED: Final = State.STORED
_AWAITED: Final = State.AWAITED
_REFUSED: Final = State.REFUSED


class Batches(deque[Batch]):
    """The last batches, oldest first, without a gap between them."""

    def __init__(self, batches: Iterable[Batch], release: Callable[[Batch], None]) -> None:
        """Make the list.

        Args:
            batches: The initial batches.
            release: Called with each batch that is removed.
        """
        super().__init__(batches)
        self._release = release

    # Finding batches

    def find(self, numbers: Range) -> Batch | None:
        """Return the batch of which a batch with these sequence numbers is a retry, or None."""
        first, count, checksum = numbers
        if self and self[-1].next == first:  # the next batch, as nearly always
            return None
        for batch in reversed(self):
            if batch.first == first and batch.count == count:
                # The sequence numbers of a refused batch may be reused for other records.
                is_other = batch.state is State.REFUSED or batch.is_other(checksum)
                return None if is_other else batch
        return None

    def loses_accepted(self, numbers: Range, dropped: Sequence[int]) -> bool:
        """Whether a batch that was accepted is retried, and would lose records.

        Args:
            dropped: The positions of the records that interceptors drop now.
        """
        batch = self.find(numbers)
        return batch is not None and batch.was_accepted and batch.is_decided_otherwise(dropped)

    def have_refused(self, numbers: Range) -> bool:
        """Whether a batch with these sequence numbers was refused."""
        return any(batch.state is _REFUSED and batch.numbers == numbers for batch in self)

    def place(self, number: int) -> int | None:
        """Return the index of the first batch that ends after a number; None if none does."""
        if not self or distance(number, self[-1].next) <= 0:
            return None
        return next(i for i, batch in enumerate(self) if distance(number, batch.next) > 0)

    def before(self, batch: Batch | None) -> list[Batch]:
        """Return the relevant batches before one, or of all.

        Batches before a stored one are settled, because a broker stores a batch only after those
        before it; except for those whose retry was requested since.
        """
        earlier_batches: list[Batch] = []
        for other in self:
            if other is batch:
                break
            if other.state is not _STORED:
                earlier_batches.append(other)
            elif earlier_batches:
                earlier_batches = [other for other in earlier_batches if other.state is _AWAITED]
        return earlier_batches

    def states_from(self, place: int) -> set[State]:
        """Return the states of the batches from an index on."""
        return {self[i].state for i in range(place, len(self))}

    # Properties of all batches

    @property
    def are_known_to_broker(self) -> bool:
        """Whether the broker has stored one: only then it checks sequence numbers."""
        return any(batch.is_at_broker for batch in self)

    @property
    def are_refused(self) -> bool:
        """Whether the broker refuses all later batches, because one before them is not stored.

        A broker that does not know the producer accepts any sequence number.
        """
        return is_refused(self) and self.are_known_to_broker

    @property
    def were_all_refused(self) -> bool:
        """Whether none of them may be at the broker; also if there is none."""
        return all(batch.state is _REFUSED for batch in self)

    @property
    def await_lost(self) -> bool:
        """Whether a retry of a batch whose records were all dropped is expected."""
        return any(batch.state is State.AWAITED and batch.loses_all for batch in self)

    @property
    def await_any(self) -> bool:
        """Whether a retry of a relevant batch is expected."""
        return any(batch.state is State.AWAITED for batch in self.before(None))

    @property
    def are_presumed(self) -> bool:
        """Whether batches at the end are only presumed to be stored."""
        return any(batch.state is State.PRESUMED for batch in self.before(None))

    def presume_one_of(self, undecided_numbers: Sequence[int], first: int) -> bool:
        """Whether there is an undecided retry of a batch that is only presumed to be stored.

        Args:
            undecided_numbers: The first sequence numbers of the undecided batches.
            first: Only batches before this sequence number count.
        """
        return bool(undecided_numbers) and any(
            batch.state is State.PRESUMED
            and batch.first in undecided_numbers
            and distance(batch.first, first) > 0
            for batch in self.before(None)
        )

    def are_stored_around(self, batch: Batch) -> bool:
        """Whether the broker has stored batches before and after a batch, and so this batch, too.

        A broker recognizes a retry only of the last five batches (`NUM_BATCHES_TO_RETAIN`), after
        a crash perhaps only of the last. Java has six on their way, if a leader moves. The batch
        before shows that the broker knew the producer: else it takes a later batch first
        (KAFKA-15591). It must be recent, as a broker forgets producers that are not used.
        """
        batches = list(self)
        place = batches.index(batch)
        is_known = any(
            other.state is _STORED and batch.received - other.received < RECENT_S
            for other in batches[:place]
        )
        return is_known and any(other.state is _STORED for other in batches[place + 1 :])

    def are_past(self, number: int) -> bool:
        """Whether a sequence number belongs to an obsolete attempt of the client."""
        return any(
            distance(number, batch.next) > 0
            for batch in self
            if batch.state in {State.STORED, State.ACKNOWLEDGED}
        )

    # Removing batches

    def cut_at(self, place: int) -> None:
        """Remove the batches from an index on."""
        while len(self) > place:
            self._release(self.pop())

    def replace(self, batches: Iterable[Batch]) -> None:
        """Take other batches instead, which may be some of these; those left out are released."""
        old_batches = list(self)
        self.clear()
        self.extend(batches)
        for batch in old_batches:
            if batch not in self:
                self._release(batch)

    def trim(self) -> bool:
        """Remove the oldest batches, whose retries a broker would not recognize either.

        Returns:
            Whether any were removed.
        """
        if len(self) <= REMEMBERED:
            return False
        old_count = len(self)
        sent_count = sum(batch.dropped_count < batch.count for batch in self)
        while sent_count > REMEMBERED or len(self) > BATCHES_MAX // 2:
            oldest = self[0]
            if not oldest.is_settled and all(batch.state is not _STORED for batch in self):
                break
            self.popleft()
            sent_count -= not oldest.loses_all
            self._release(oldest)
        return len(self) < old_count


def is_refused(batches: Iterable[Batch]) -> bool:
    """Whether a batch was refused, and the broker has stored nothing after the last such one."""
    refused = False
    for batch in batches:
        if batch.state is _REFUSED:
            refused = True
        elif refused and batch.is_at_broker:
            refused = False
    return refused

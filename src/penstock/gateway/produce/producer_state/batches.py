"""The last batches of one producer."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from penstock.gateway.produce.producer_state.batch import Batch, State
from penstock.gateway.produce.producer_state.numbers import distance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.gateway.produce.producer_state.numbers import Range

REMEMBERED: Final = 10
"""Twice the number of batches that a broker remembers (ProducerStateEntry.java)."""
BATCHES_MAX: Final = 128
"""The most batches that are remembered, including those whose records were all dropped."""
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

    def have_refused(self, numbers: Range) -> bool:
        """Whether a batch with these sequence numbers was refused."""
        return any(one.state is _REFUSED and one.numbers == numbers for one in self)

    def place(self, number: int) -> int | None:
        """Return the index of the first batch that ends after a number; None if none does."""
        if not self or distance(number, self[-1].next) <= 0:
            return None
        return next(i for i, one in enumerate(self) if distance(number, one.next) > 0)

    def before(self, batch: Batch | None) -> list[Batch]:
        """Return the relevant batches before one, or of all.

        Batches before a stored one are settled, because a broker stores a batch only after those
        before it; except for those whose retry was requested since.
        """
        before: list[Batch] = []
        for one in self:
            if one is batch:
                break
            if one.state is not _STORED:
                before.append(one)
            elif before:
                before = [other for other in before if other.state is _AWAITED]
        return before

    # Properties of all batches

    @property
    def are_known_to_broker(self) -> bool:
        """Whether the broker has stored one: only then it checks sequence numbers."""
        return any(one.is_at_broker for one in self)

    @property
    def are_refused(self) -> bool:
        """Whether the broker refuses all later batches, because one before them is not stored.

        A broker that does not know the producer accepts any sequence number.
        """
        return is_refused(self) and self.are_known_to_broker

    @property
    def await_lost(self) -> bool:
        """Whether a retry of a batch whose records were all dropped is expected."""
        return any(one.state is State.AWAITED and one.loses_all for one in self)

    @property
    def await_any(self) -> bool:
        """Whether a retry of a relevant batch is expected."""
        return any(one.state is State.AWAITED for one in self.before(None))

    @property
    def are_presumed(self) -> bool:
        """Whether batches at the end are only presumed to be stored."""
        return any(one.state is State.PRESUMED for one in self.before(None))

    def presume_one_of(self, waiting: Sequence[int], first: int) -> bool:
        """Whether there is an undecided retry of a batch that is only presumed to be stored.

        Args:
            waiting: The first sequence numbers of the undecided batches.
            first: Only batches before this sequence number count.
        """
        return bool(waiting) and any(
            one.state is State.PRESUMED and one.first in waiting and distance(one.first, first) > 0
            for one in self.before(None)
        )

    # Removing batches

    def cut_at(self, place: int) -> None:
        """Remove the batches from an index on."""
        while len(self) > place:
            self._release(self.pop())

    def trim(self) -> bool:
        """Remove the oldest batches, whose retries a broker would not recognize either.

        Returns:
            Whether any were removed.
        """
        if len(self) <= REMEMBERED:
            return False
        before = len(self)
        sent = sum(one.dropped_count < one.count for one in self)
        while sent > REMEMBERED or len(self) > BATCHES_MAX // 2:
            oldest = self[0]
            if not oldest.is_settled and all(one.state is not _STORED for one in self):
                break
            self.popleft()
            sent -= not oldest.loses_all
            self._release(oldest)
        return len(self) < before


def is_refused(batches: Iterable[Batch]) -> bool:
    """Whether a batch was refused, and the broker has stored nothing after the last such one."""
    refused = False
    for one in batches:
        if one.state is _REFUSED:
            refused = True
        elif refused and one.is_at_broker:
            refused = False
    return refused

"""The last batches of one producer, and what they tell together."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from penstock.gateway.produce.producer_state.batch import Batch, State
from penstock.gateway.produce.producer_state.numbers import distance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.gateway.produce.producer_state.numbers import Range

REMEMBERED: Final = 10
"""Twice as many batches of a producer as a broker knows again (ProducerStateEntry.java)."""
BATCHES_MAX: Final = 128
"""So many batches are remembered at most, with those of which every record was dropped."""
_STORED: Final = State.STORED
_AWAITED: Final = State.AWAITED
_REFUSED: Final = State.REFUSED


class Batches(deque[Batch]):
    """The last batches, oldest first, without a gap between them."""

    def __init__(self, batches: Iterable[Batch], release: Callable[[Batch], None]) -> None:
        """Begin.

        Args:
            batches: The first ones.
            release: Called with each batch that is forgotten.
        """
        super().__init__(batches)
        self._release = release

    # Which there are

    def find(self, numbers: Range) -> Batch | None:
        """Return the batch of exactly these numbers that goes on as what it was before."""
        first, count, checksum = numbers
        if self and self[-1].next == first:  # the next one in turn, as nearly always
            return None
        for batch in reversed(self):
            if batch.first == first and batch.count == count:
                # Numbers of a refused batch may be used again, for other records.
                is_other = batch.state is State.REFUSED or batch.is_other(checksum)
                return None if is_other else batch
        return None

    def place(self, number: int) -> int | None:
        """Return the position of the first batch that ends after a number; None if none does."""
        if not self or distance(number, self[-1].next) <= 0:
            return None
        return next(i for i, one in enumerate(self) if distance(number, one.next) > 0)

    def before(self, batch: Batch | None) -> list[Batch]:
        """Return the batches before one, or all, that may still matter.

        What is before one that the broker said it has is settled, but for what was told to come
        again since: a broker takes a batch only behind those before it.
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

    # What they tell

    @property
    def are_known_to_broker(self) -> bool:
        """Whether the broker has a batch of this epoch: only then it checks sequence numbers."""
        return any(one.is_at_broker for one in self)

    @property
    def are_refused(self) -> bool:
        """Whether the broker objects to whatever follows: it has not stored a batch before.

        One that does not know the producer takes any number.
        """
        return is_refused(self) and self.are_known_to_broker

    @property
    def await_lost(self) -> bool:
        """Whether a batch of which every record was dropped comes again."""
        return any(one.state is State.AWAITED and one.loses_all for one in self)

    @property
    def await_any(self) -> bool:
        """Whether one comes again that may still matter."""
        return any(one.state is State.AWAITED for one in self.before(None))

    @property
    def are_presumed(self) -> bool:
        """Whether batches at the end are not known to be stored but from another gateway."""
        return any(one.state is State.PRESUMED for one in self.before(None))

    def presume_one_of(self, waiting: Sequence[int], first: int) -> bool:
        """Whether a batch that comes again, and is not decided yet, is only taken for stored.

        Args:
            waiting: The first sequence numbers of batches that wait.
            first: Those before this one count.
        """
        return bool(waiting) and any(
            one.state is State.PRESUMED and one.first in waiting and distance(one.first, first) > 0
            for one in self.before(None)
        )

    # What is forgotten

    def cut_at(self, place: int) -> None:
        """Forget the batches from a position on."""
        while len(self) > place:
            self._release(self.pop())

    def trim(self) -> bool:
        """Forget the oldest batches, which a broker would not know again.

        Returns:
            Whether there were any.
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
    """Whether one was refused, and the broker has nothing behind the last such one."""
    refused = False
    for one in batches:
        if one.state is _REFUSED:
            refused = True
        elif refused and one.is_at_broker:
            refused = False
    return refused

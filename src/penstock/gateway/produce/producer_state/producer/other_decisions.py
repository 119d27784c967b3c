"""The decisions of another gateway about a producer, compared with those here.

Interceptors usually decide the same in all gateways; then only the number of known batches differs.
While a configuration is rolled out, they may differ.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from penstock.gateway.produce.producer_state.producer.batch import State
from penstock.gateway.produce.producer_state.producer.numbers import add, distance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.gateway.produce.producer_state.producer.batch import Batch
    from penstock.gateway.produce.producer_state.producer.batches import Batches


class Merged(NamedTuple):
    """The batches of two gateways.

    Attributes:
        batches: All of them, in order.
        theirs: Those of them that are the other gateway's.
    """

    batches: Sequence[Batch]
    theirs: Sequence[Batch]


class OtherDecisions(NamedTuple):
    """The decisions of another gateway about a producer, in the same epoch.

    Attributes:
        batches: The batches, oldest first.
        next: The client's sequence number after the last batch that it has decided.
        removed: The number of records that were dropped before it.
    """

    batches: Sequence[Batch]
    next: int
    removed: int

    def until(self, place: int) -> OtherDecisions:
        """Return the decisions about the batches before an index."""
        end = self.batches[place]
        return OtherDecisions(list(self.batches)[:place], end.first, end.removed)

    def first_sent_otherwise(self, own: Batches, *, is_newer: bool) -> int | None:
        """Return the index of the first batch that was sent here with other records.

        Or is to be sent: of one that stays whole here, those behind it have other numbers.

        Its interceptors are not those of this gateway, after a reload for example. It cannot have
        sent the batch: a gateway reads the decisions of others before it decides, and its
        record comes too late if it is not read then. Only decisions that lose records are written.

        Args:
            own: The batches here.
            is_newer: Whether the other gateway knew all that was written here.
        """
        dropped_counts = {
            batch.numbers[:2]: batch.dropped_count
            for batch in own
            if (
                batch.state in {State.SENT, State.STORED} and not (is_newer and batch.dropped_count)
            )
            or (batch.state is State.AWAITED and not batch.dropped_count and not is_newer)
        }
        for place, batch in enumerate(self.batches):
            if dropped_counts.get(batch.numbers[:2], batch.dropped_count) != batch.dropped_count:
                return place
        return None

    def first_replaced(self, own: Batches) -> int | None:
        """Return the index of the first batch here in whose place the other gateway has others.

        It knew those here. The client has split a batch, for example (see `Numbering.cut`); or it
        has given up a batch that was never written, and never sent, and whose records do not count
        at the other gateway.

        Returns:
            The index; None if there is none, or if a batch from there on is stored.
        """
        is_certain = True
        for place, batch in enumerate(own):
            is_replaced = any(
                _overlap(batch, theirs)
                and (theirs.first, theirs.count, theirs.broker_first, theirs.dropped_count)
                != (batch.first, batch.count, batch.broker_first, batch.dropped_count)
                and not (is_certain and _begins_late(theirs, batch))
                for theirs in self.batches
            )
            if is_replaced:
                is_stored = own.states_from(place) & {State.STORED, State.ACKNOWLEDGED}
                return None if is_stored else place
            is_certain &= not self._may_be_given_up(batch)
        return None

    def merged_with(self, own: Batches) -> Merged:
        """Return the batches here, and those of the other gateway that fit next to them."""
        merged, added = list(own), []
        for theirs in self._fitting(own):
            beside = [other for other in merged if _overlap(other, theirs)]
            if any(other.numbers[:2] != theirs.numbers[:2] for other in beside):
                # The client has split it, for example.
                if any(_count_same_behind(other, theirs) for other in beside):
                    continue
                break  # later batches include the dropped records of a batch that is different here
            if not beside:
                merged.append(theirs)
                added.append(theirs)
        return Merged(self._in_order(merged), added)

    def lower_behind(self, merged: Merged) -> None:
        """Lower the numbers of these batches behind records that were dropped here.

        The other gateway may have begun behind these records, at a leader that did not know the
        producer. Batches that are stored keep their numbers, and so do all behind a batch that a
        client may have given up.

        Args:
            merged: These batches, and those here.
        """
        for batch, following in pairwise(merged.batches):
            if self._may_be_given_up(batch):
                return
            if (
                following in merged.theirs
                and batch.next == following.first
                and following.state is not State.STORED
                and distance(batch.removed_with, following.removed) < 0
            ):
                following.broker_first = add(following.first, -batch.removed_with)

    def _may_be_given_up(self, batch: Batch) -> bool:
        """Whether a client may never send a batch again whose dropped records count only here."""
        return (
            batch.state is State.AWAITED
            and bool(batch.dropped_count)
            and all(theirs.numbers[:2] != batch.numbers[:2] for theirs in self.batches)
        )

    def _fitting(self, own: Batches) -> Sequence[Batch]:
        """Return the batches that fit the stored batches known here.

        The other gateway may have dropped records of a batch that the client has given up since,
        and lowered the sequence numbers of those behind it, before it could write that. Where a
        batch behind it was stored with other numbers, through this gateway, it sent none of them.
        """
        first, last = 0, len(self.batches)
        for batch in own:
            if batch.state is not State.STORED:
                continue
            for place, theirs in enumerate(self.batches):
                if theirs.next == batch.first and theirs.removed_with != batch.removed:
                    first = max(first, place + 1)
                elif theirs.first == batch.next and theirs.removed != batch.removed_with:
                    last = min(last, place)
        return list(self.batches)[first:last]

    def instead_of(self, own: Batches) -> Merged:
        """Return these batches, and those here that fit: their records were not dropped.

        Of a batch that both gateways know, the batch here stays.
        """
        same = {_decision(batch): batch for batch in own if batch.state is not State.REFUSED}
        their_batches = [same.get(_decision(theirs), theirs) for theirs in self.batches]
        between = [batch for batch in own if batch.is_settled and _fits(batch, their_batches)]
        return Merged(self._in_order([*their_batches, *between]), their_batches)

    def _in_order(self, batches: Sequence[Batch]) -> Sequence[Batch]:
        return sorted(batches, key=lambda batch: distance(self.next, batch.first))


def _decision(batch: Batch) -> tuple[int, ...]:
    return (*batch.numbers, batch.broker_first, batch.dropped_count)


def _begins_late(theirs: Batch, batch: Batch) -> bool:
    """Whether it is a batch here that is not stored, with fewer records dropped before it."""
    return (
        batch.state is State.AWAITED
        and theirs.state is not State.STORED
        and theirs.numbers[:2] == batch.numbers[:2]
        and theirs.dropped_count == batch.dropped_count
        and distance(batch.removed, theirs.removed) < 0
    )


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

"""Decides whether a batch that may be renumbered waits for an earlier batch of its producer.

A batch that waits gets a retriable error, and its client sends it again: the gateway keeps none.
An earlier batch may have got a retriable error before it was decided here: then it has no place
among the producer's batches yet, and a retry of it is expected. Or it is decided, and is not sent,
not written or not stored yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.gateway.produce.producer_state.producer.batch import State
from penstock.gateway.produce.producer_state.producer.batches import BATCHES_MAX, is_refused
from penstock.gateway.produce.producer_state.producer.numbers import distance
from penstock.kafka.wire.errors import NONE, OUT_OF_ORDER_SEQUENCE_NUMBER, REQUEST_TIMED_OUT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from penstock.gateway.produce.producer_state.producer.batch import Batch
    from penstock.gateway.produce.producer_state.producer.batches import Batches
    from penstock.gateway.produce.producer_state.producer.numbers import Range

RETRIED_WITHIN_S: Final = 60.0
"""A client that has not retried a batch for this long has given it up; its pauses are shorter."""


class EarlierBatches:
    """The batches for which later batches of a producer may have to wait."""

    __slots__ = ("_batches", "_undecided")

    def __init__(self, batches: Batches) -> None:
        """Expect no retry.

        Args:
            batches: The decided batches of the producer.
        """
        self._batches = batches
        # In the order of their errors, with the connection of each; 0 if it is not known.
        self._undecided: dict[Range, int] = {}

    # Batches that got a retriable error before they were decided

    @property
    def undecided(self) -> Collection[Range]:
        """The sequence numbers of batches whose retry is expected, and that are not decided."""
        return self._undecided

    def expect(self, numbers: Range, connection: int) -> None:
        """Expect a retry of a batch that is not decided.

        Args:
            numbers: Its sequence numbers.
            connection: The number of the connection that it came on; 0 if it is not known.
        """
        if numbers not in self._undecided:
            self._undecided[numbers] = connection
            if len(self._undecided) > BATCHES_MAX:
                del self._undecided[next(iter(self._undecided))]

    def expect_none_from(self, first: int) -> None:
        """Expect no retry of the batches that begin with a sequence number."""
        if self._undecided:
            self._expect_none(lambda numbers: numbers.first == first)

    def expect_none_before(self, number: int) -> None:
        """Expect no retry of the batches before a sequence number."""
        if self._undecided:
            self._expect_none(lambda numbers: distance(numbers.first, number) > 0)

    def expect_decided(self, batch: Batch) -> bool:
        """Expect a retry of a batch as one that is decided; return whether one was expected."""
        if not any(numbers[:2] == batch.numbers[:2] for numbers in self._undecided):
            return False
        self._expect_none(lambda numbers: numbers[:2] == batch.numbers[:2])
        return True

    def _expect_none(self, is_over: Callable[[Range], bool]) -> None:
        self._undecided = {
            numbers: connection
            for numbers, connection in self._undecided.items()
            if not is_over(numbers)
        }

    def failed_before(self, number: int, connection: int) -> Sequence[int]:
        """Return the first sequence numbers of the undecided batches before a sequence number.

        Args:
            number: The sequence number.
            connection: Only batches that came on this connection, or may have, count.
        """
        return [
            numbers.first
            for numbers, deferred_on in self._undecided.items()
            if distance(numbers.first, number) > 0 and deferred_on in {0, connection}
        ]

    def awaits_before(self, first: int) -> bool:
        """Whether a batch before a sequence number got a retriable error while undecided."""
        return any(distance(numbers.first, first) > 0 for numbers in self._undecided)

    # Whether a batch waits

    def misses(self, first: int) -> bool:
        """Whether a retry of a batch before a sequence number is expected."""
        return self._batches.await_any or self.awaits_before(first)

    @property
    def may_be_retried(self) -> bool:
        """Whether there is a batch that has to be retried, or may have to be.

        Also behind a refused batch, which no record contains.
        """
        if self._undecided or (self._batches and self._batches[-1].state is State.REFUSED):
            return True
        return any(batch.may_be_retried for batch in self._batches)

    def keep_back(self, batch: Batch) -> bool:
        """Whether an unsettled earlier batch, perhaps on another connection, blocks a batch."""
        return self.awaits_before(batch.first) or any(
            earlier.state is State.AWAITED
            or (earlier.state is State.SENT and earlier.connection != batch.connection)
            for earlier in self._batches.before(batch)
        )

    def obstacle(self, batch: Batch, earlier_batches: Sequence[Batch]) -> int:
        """Return the error code if an earlier batch blocks a decided batch; 0 if none does.

        Batches on the same connection reach the broker in order. A batch on another connection may
        be delayed, which a broker notices only if it knows the producer.

        Args:
            batch: The batch, which would be sent now.
            earlier_batches: The relevant batches before it.
        """
        if self.awaits_before(batch.first):
            return REQUEST_TIMED_OUT
        if not earlier_batches:
            return NONE
        objects = self._batches.are_known_to_broker and batch.state is not State.PRESUMED
        if objects and is_refused(earlier_batches):
            return OUT_OF_ORDER_SEQUENCE_NUMBER
        for earlier in earlier_batches:
            if earlier.state is State.AWAITED:
                return REQUEST_TIMED_OUT
            if earlier.connection == batch.connection:
                continue
            if earlier.state is State.DECIDED or (
                earlier.state is State.SENT and not self._batches.are_known_to_broker
            ):
                return REQUEST_TIMED_OUT
        return NONE

    def obstacle_to_success(self, batch: Batch) -> int:
        """Return the error code if an earlier batch is not settled; 0 if all are.

        A client takes the success of a batch to include all batches before it.
        """
        if self.awaits_before(batch.first):
            return REQUEST_TIMED_OUT
        for earlier in self._batches.before(batch):
            if earlier.state is State.REFUSED:
                return OUT_OF_ORDER_SEQUENCE_NUMBER
            if not earlier.is_settled:
                return REQUEST_TIMED_OUT
        return NONE

    def were_missing(self, batch: Batch, now: float) -> bool:
        """Whether the broker refused a batch only because an earlier one is to be retried.

        After OUT_OF_ORDER_SEQUENCE_NUMBER librdkafka takes a new epoch, and sends again what a
        former leader may have, and may bring back. If the client has given the earlier batch up,
        it has to learn that there is a gap.

        Args:
            now: When the producer was last used, in seconds since the epoch.
        """
        earlier_batches = self._batches.before(batch)
        if is_refused(earlier_batches):
            return False  # its client has a final error, and sends it no more
        oldest = next((earlier for earlier in earlier_batches if not earlier.is_settled), None)
        return oldest is not None and now - oldest.received < RETRIED_WITHIN_S

"""Decides when the broker is queried for the last sequence number of a producer, and applies it.

The broker may have stored batches that did not pass through this gateway (DescribeProducers).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.gateway.produce.producer_state.leaders import Leaders

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.gateway.produce.producer_state.arrivals import Arrival, Arrivals
    from penstock.gateway.produce.producer_state.doubts import Doubts
    from penstock.gateway.produce.producer_state.known_producers import KnownProducers
    from penstock.gateway.produce.producer_state.producer.numbers import Range
    from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
    from penstock.kafka.wire.requests.leaders import Leader


class BrokerQueries:
    """The queries for the last sequence numbers of producers."""

    def __init__(
        self,
        producers: KnownProducers,
        arrivals: Arrivals,
        doubts: Doubts,
        *,
        now: Callable[[], float],
        is_shared: bool,
        expiration_s: float,
    ) -> None:
        """Begin without a query.

        Args:
            arrivals: The received batches that are not decided.
            doubts: The changes of interceptors.
            now: Returns the time in seconds since the epoch.
            is_shared: Whether batches may be sent through other gateways.
            expiration_s: The time after which the broker may forget a producer.
        """
        self._known = producers
        self._arrivals = arrivals
        self._doubts = doubts
        self._leaders = Leaders(now)
        self._now = now
        self._is_shared = is_shared
        self._expiration_s = expiration_s

    def see_leaders(self, epochs: Mapping[tuple[str, int], int]) -> None:
        """Record who leads partitions, so that no batch has to wait until that is long ago.

        Args:
            epochs: The leaders' epochs, by topic and partition.
        """
        for (topic, partition), epoch in epochs.items():
            self._leaders.see(topic, partition, epoch)

    def is_needed(
        self,
        key: ProducerKey,
        epoch: int,
        numbers: Range,
        dropped: Sequence[int],
        *,
        connection: int,
    ) -> bool:
        """Whether the broker has to be queried before `Producers.decide`.

        The broker may have stored batches that did not pass through this gateway. A record may be
        dropped only when that is known. Otherwise the sequence numbers of later batches would be
        too low, and the broker would take them for retries.

        Args:
            epoch: The producer epoch.
            numbers: The sequence numbers of the batch that is decided next.
            dropped: The positions of the records that interceptors dropped now.
            connection: The number of the connection on which it will be sent. On another connection
                the producer may have been at another gateway meanwhile.
        """
        producer = self._known.find(key, epoch)
        if producer is None:
            return bool(dropped) or (self._is_shared and numbers.first != 0)
        if producer.epoch != epoch:
            # A producer whose last batch was decided here starts its next epoch here, too.
            is_here = producer.at_broker.was_decided_here and not self._is_shared
            follows = not dropped or is_here
            return producer.epoch < epoch and not (follows and numbers.first == 0)
        first_attempt = producer.batches.find(numbers)
        if first_attempt is not None:
            is_kept_back = self._is_shared and producer.earlier.keep_back(first_attempt)
            return is_kept_back or first_attempt.is_decided_otherwise(dropped)
        if producer.numbering.next != numbers.first:
            return True
        at_broker = producer.at_broker
        is_continued = at_broker.is_continued_at(numbers.first, connection)
        if dropped and not (at_broker.is_confirmed and is_continued):
            return True
        if not self._is_shared:
            return False
        if at_broker.is_beginning_unknown and not is_continued:
            return True  # else the first batch that is sent would not fence
        # A batch that has to be retried may have been stored through another gateway.
        loses_all = len(dropped) == numbers.count
        return producer.batches.await_any or (loses_all and producer.batches.are_presumed)

    def are_doubted(
        self, key: ProducerKey, epoch: int, numbers: Range, dropped: Sequence[int]
    ) -> bool:
        """Whether the leader of a batch has to say since when it leads.

        Interceptors have changed, or a batch that was accepted would lose records.

        Args:
            epoch: The producer epoch.
            numbers: The sequence numbers of the batch.
            dropped: The positions of the records that interceptors dropped now.
        """
        if self._doubts.affect(key.topic):
            return True
        producer = self._known.find(key, epoch)
        return (
            producer is not None
            and producer.epoch == epoch
            and producer.batches.loses_accepted(numbers, dropped)
        )

    def on_last_sequence(
        self,
        key: ProducerKey,
        arrival: Arrival,
        epoch: int,
        numbers: Range,
        last_sequence: int | None,
        dropped: Sequence[int] = (),
        *,
        connection: int,
        leader: Leader | None = None,
    ) -> bool:
        """Apply the last sequence number that the broker has stored.

        Args:
            arrival: The producer as in the request.
            epoch: The producer epoch.
            numbers: The sequence numbers of the next batch.
            last_sequence: The last sequence number of this epoch, or None.
            dropped: The positions of the records of the batch that interceptors dropped now.
            connection: The number of the connection on which the broker was queried.
            leader: That broker; None if it is not known.

        Returns:
            Whether the batch can be decided. It cannot if it would lose records, may have been sent
            with others, as before interceptors changed, and a former leader may have it.
        """
        undecided_numbers = self._arrivals.first_numbers(arrival, epoch)
        producer = self._known.current(key, epoch, numbers.first, undecided_numbers)
        if producer.epoch == epoch:
            if dropped and producer.at_broker.may_be_elsewhere(numbers, last_sequence, dropped):
                was_accepted = producer.batches.loses_accepted(numbers, dropped)
                if not self._is_final(key, leader, was_accepted=was_accepted):
                    return False
            producer.at_broker.on_last_sequence(
                numbers,
                last_sequence,
                dropped=dropped,
                is_shared=self._is_shared,
                recent_from=self._now() - self._expiration_s / 2,
                overtakes=producer.overtakes(numbers, undecided_numbers),
                connection=connection,
                now=self._now(),
            )
        return True

    def _is_final(self, key: ProducerKey, leader: Leader | None, *, was_accepted: bool) -> bool:
        """Whether no former leader can have a batch that the leader does not have.

        Args:
            leader: The leader; None if it is not known.
            was_accepted: Whether an accepted batch would lose records: it may have been sent with
                them, also if interceptors are the same.
        """
        if leader is None or not (was_accepted or self._doubts.affect(key.topic)):
            return not was_accepted
        return self._leaders.are_final(key.topic, key.partition, leader)

    def without_last_sequence(
        self,
        key: ProducerKey,
        arrival: Arrival,
        epoch: int,
        numbers: Range,
        dropped: Sequence[int] = (),
    ) -> bool:
        """Continue without the last sequence number of the broker; see `is_needed`.

        Returns:
            Whether the batch can be decided. It cannot if all of its records are dropped and the
            beginning of the producer is not known here: the broker may have stored it already, and
            later batches, and would take the next batches for retries. If only some are dropped,
            the broker refuses the rest in that case.
        """
        undecided_numbers = self._arrivals.first_numbers(arrival, epoch)
        producer = self._known.current(key, epoch, numbers.first, undecided_numbers)
        if producer.epoch != epoch:
            return True
        first_attempt = producer.batches.find(numbers)
        if first_attempt is not None:
            first_attempt.is_confirmed = False
        if self._is_shared:
            producer.at_broker.skip(
                numbers, overtakes=producer.overtakes(numbers, undecided_numbers)
            )
        loses_all = len(dropped) == numbers.count
        if not loses_all or producer.at_broker.is_confirmed:
            return True
        if first_attempt is not None:
            return True
        return producer.at_broker.begin_without_answer(numbers)

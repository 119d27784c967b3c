"""The state of all producers whose records were or may be dropped, within limits."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from penstock.gateway.produce.producer_state.arrivals import Arrivals
from penstock.gateway.produce.producer_state.broker_queries import BrokerQueries
from penstock.gateway.produce.producer_state.doubts import Doubts
from penstock.gateway.produce.producer_state.held_batches import HELD_MAX_BYTES, HeldBatches
from penstock.gateway.produce.producer_state.known_producers import (
    EXPIRATION_S,
    PRODUCERS_MAX,
    KnownProducers,
    Limits,
)
from penstock.gateway.produce.producer_state.letters import Letters
from penstock.gateway.produce.producer_state.producer.batch import Batch, Event, State, Stored
from penstock.gateway.produce.producer_state.producers_in_use import ProducersInUse
from penstock.gateway.produce.producer_state.records.kept import KEPT_MAX_BYTES, KeptRecords
from penstock.gateway.produce.producer_state.records.reader import RecordReader
from penstock.gateway.produce.producer_state.records.writer import RecordWriter
from penstock.gateway.produce.producer_state.topics_with_state import TopicsWithState
from penstock.gateway.produce.producer_state.written_decisions import WrittenDecisions
from penstock.kafka.wire.errors import (
    INVALID_PRODUCER_EPOCH,
    NONE,
    REQUEST_TIMED_OUT,
    UNKNOWN_PRODUCER_ID,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from penstock.gateway.produce.producer_state.arrivals import Arrival
    from penstock.gateway.produce.producer_state.known_producers import LookUp
    from penstock.gateway.produce.producer_state.letters import Quarantined
    from penstock.gateway.produce.producer_state.producer.numbers import Range
    from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
    from penstock.gateway.produce.producer_state.records.writer import Keep

    Buffer = bytes | memoryview


class Decided(NamedTuple):
    """A decided batch.

    Attributes:
        data: The bytes for the broker, except for the sequence numbers; None if nothing is left.
        is_whole: Whether it is sent as the client sends it, because the leader has it.
    """

    batch: Batch
    data: Buffer | None
    is_whole: bool = False


class Producers:
    """The state of producers.

    Attributes:
        translated: How many batches were sent with other sequence numbers than their producer's.
        arrivals: The received batches that are not decided.
        doubts: The changes of interceptors.
        topics: The topics of producers that are known, or were.
        held: The batches that are held for retries.
        queries: The queries to the broker.
    """

    def __init__(
        self,
        *,
        now: Callable[[], float],
        keep: Keep | None = None,
        look_up: LookUp | None = None,
        is_shared: bool = False,
        expiration_s: float = EXPIRATION_S,
        producers_max: int = PRODUCERS_MAX,
        kept_max_bytes: int = KEPT_MAX_BYTES,
        held_max_bytes: int = HELD_MAX_BYTES,
    ) -> None:
        """Make an empty table.

        Args:
            now: Returns the time in seconds since the epoch.
            keep: Writes a producer's record before a batch is sent. Its last argument is called
                with None when the record is written, or with an error message; if records are
                shared, when it has been read back, with all before it.
            look_up: Returns the record of an evicted producer and the time when it was written, in
                seconds since the epoch; or None.
            is_shared: Whether the records are shared by all gateways of the cluster, and are read
                to their end when a batch of an unknown producer is received.
            expiration_s: The time after which unused state is removed.
            producers_max: The most producers that are in use, counted per partition; the records of
                others are kept as they are.
            kept_max_bytes: The most memory for records.
            held_max_bytes: The most bytes of batches that are held for retries.
        """
        self.translated = 0
        self.arrivals = Arrivals()
        self.doubts = Doubts(now)
        self.topics = TopicsWithState(now)
        self.held = HeldBatches(held_max_bytes, now)
        self._now = now
        self._written = WrittenDecisions(self.doubts, is_shared=is_shared)
        self._in_use = ProducersInUse()
        self._writer = RecordWriter(keep, self._in_use, now=now, is_shared=is_shared)
        self._known = KnownProducers(
            self._in_use,
            self.topics,
            self._writer,
            now=now,
            look_up=look_up,
            release=self.held.release,
            is_shared=is_shared,
            limits=Limits(expiration_s, producers_max, kept_max_bytes),
        )
        self._reader = RecordReader(self._known, self.topics, self._writer)
        self._letters = Letters(self.held, self._writer, self._in_use, is_shared=is_shared)
        self.queries = BrokerQueries(
            self._known,
            self.arrivals,
            self.doubts,
            now=now,
            is_shared=is_shared,
            expiration_s=expiration_s,
        )

    def __bool__(self) -> bool:
        return bool(self.topics or self.arrivals or self.doubts)

    @property
    def count(self) -> int:
        """How many producers' numbers are known, counted per partition."""
        return len(self._in_use)

    @property
    def kept(self) -> KeptRecords:
        """The records of producers that are not in use here."""
        return self._known.kept

    def interceptors_changed(self, affects: Callable[[str], bool]) -> None:
        """Record that gateways may have other interceptors than before, or than each other.

        Until no batch is retried that was received before, an unknown batch loses records only if
        no former leader may have it (see `leaders`). If gateways share their state, the decision
        about the first batch of a producer on a connection is also written in any case (see
        `fences`).

        Args:
            affects: Whether records of a topic may have been dropped before, or may be now.
        """
        self.doubts.add(affects)
        self.topics.on_change(affects)

    def settings_changed(self, topic: str) -> None:
        """Record that a topic's own settings have changed; see `interceptors_changed`."""
        self.doubts.add_topic(topic)
        self.topics.on_topic(topic)

    def has_topic(self, topic: str) -> bool:
        """Whether there is a producer of a topic whose sequence numbers may have to be changed."""
        return self.topics.has(topic) or self.doubts.affect(topic)

    # Received batches

    def needs_reading(self, key: ProducerKey, epoch: int, numbers: Range) -> bool:
        """Whether another gateway may have newer state of a producer."""
        producer = self._in_use.of(key, epoch) or self._in_use.get(key)
        if producer is None or producer.epoch < epoch:
            return True
        if producer.epoch > epoch:
            return False
        first_attempt = producer.batches.find(numbers)
        if first_attempt is not None:
            return first_attempt.state is State.AWAITED
        return not producer.batches or producer.numbering.next != numbers.first

    def find(self, key: ProducerKey, epoch: int, numbers: Range) -> Batch | None:
        """Return the batch of the first attempt, if a batch is a retry; None otherwise."""
        producer = self._known.find(key, epoch)
        if producer is None or producer.epoch != epoch:
            return None
        return producer.batches.find(numbers)

    def depends_on_topic_id(
        self, key: ProducerKey, epoch: int, numbers: Range, topic_id: UUID | None
    ) -> bool:
        """Whether a batch is a retry if the id of its topic has not changed.

        Args:
            epoch: The producer epoch.
            numbers: The sequence numbers of the batch.
            topic_id: The id of the topic as it was known of late.
        """
        producer = self._known.find(key, epoch)
        if producer is None:
            return False
        return producer.is_of_other_topic(topic_id) or (
            producer.epoch == epoch and producer.batches.find(numbers) is not None
        )

    def see_topic_id(
        self, key: ProducerKey, arrival: Arrival, epoch: int, first: int, topic_id: UUID | None
    ) -> None:
        """Begin again with a producer if its topic was deleted and created again.

        The log of the new topic knows no producer, and takes their batches again
        (ProducerStateManager.java).

        Args:
            arrival: The producer as in the request.
            epoch: The producer epoch.
            first: The first sequence number of its batch.
            topic_id: The id of the topic, if it is known.
        """
        producer = self._known.find(key, epoch)
        if producer is not None and producer.is_of_other_topic(topic_id):
            self._known.current(
                key, epoch, first, self.arrivals.first_numbers(arrival, epoch), topic_id
            )

    def decide(
        self,
        key: ProducerKey,
        arrival: Arrival,
        epoch: int,
        numbers: Range,
        dropped: Sequence[int],
        data: Buffer,
        *,
        connection: int,
        is_changed: bool = False,
        topic_id: UUID | None = None,
        quarantined: Quarantined | None = None,
        callback: Callable[[str | None], None],
    ) -> Decided | int:
        """Decide about the next batch for the broker.

        Args:
            arrival: The producer as in the request.
            epoch: The producer epoch.
            numbers: The client's sequence numbers.
            dropped: The positions of the records that interceptors dropped now.
            data: The batch without these records.
            connection: The number of the connection on which it will be sent.
            is_changed: Whether interceptors changed it, apart from records that they dropped.
            topic_id: The id of the topic, if it is known.
            quarantined: The records dropped now that become dead letters; None if
                there are none, now or before. They are stored after the decision has been written,
                so that a gateway that decides again quarantines the same records.
            callback: Called with None when the decision has been written, or with an error message;
                `LettersNotStored` where it has been, and dead letters could not be stored.

        Returns:
            The batch; or the error code for the client, without a call of `callback`.
        """
        undecided_numbers = self.arrivals.first_numbers(arrival, epoch)
        producer = self._known.current(key, epoch, numbers.first, undecided_numbers, topic_id)
        if producer.epoch > epoch:
            return INVALID_PRODUCER_EPOCH
        first_attempt = producer.batches.find(numbers)
        if producer.batches.presume_one_of(undecided_numbers, numbers.first):
            producer.defer(numbers, connection)
            return REQUEST_TIMED_OUT
        is_agreed = producer.record.is_agreed(
            numbers, first_attempt, connection, self.doubts.generation
        )
        decision = producer.decide(
            numbers,
            dropped,
            data,
            first_attempt=first_attempt,
            connection=connection,
            overtakes=producer.overtakes(numbers, undecided_numbers),
        )
        if isinstance(decision, int):
            if decision == UNKNOWN_PRODUCER_ID:
                self._known.forget(key)
            return decision
        is_whole, decision.is_confirmed = decision.is_confirmed, False
        decision.is_changed |= is_changed and decision.data is data
        if quarantined is not None and quarantined.are_of(decision, first_attempt):
            decision.quarantined = quarantined.positions
            decision.letters = quarantined.letters
        outgoing, letters = decision.data, decision.letters
        fences = self._written.fence(key, producer, decision, connection, is_agreed=is_agreed)
        self.held.hold(decision)  # may release it at once, for lack of memory
        is_written = fences or self._written.include(key, decision)
        if is_written:
            callback = partial(_kept, decision, callback)
        if decision.owes_letters:
            callback = partial(self._letters.announce, key, producer, decision, callback)
            callback = partial(self._letters.store, decision, letters, quarantined, callback)
        if is_written:
            self._writer.write(key, producer, callback, fences=fences)
        else:
            callback(None)
        return Decided(decision, outgoing, is_whole)

    def not_kept(self, key: ProducerKey, epoch: int, batch: Batch) -> None:
        """Record that a decision could not be written: its batch gets a retriable error.

        The decision stays, and is written again with the retry; later batches wait for it.
        """
        producer = self._known.find(key)  # it may have been set aside meanwhile
        if producer is None:
            self._miss(key, epoch, batch)
        elif batch in producer.batches:
            # An earlier record with the same content may have been read back: then it is settled,
            # and its retry may go through another gateway.
            if batch.state is not State.DROPPED or batch.owes_letters:
                batch.apply(Event.RETRY)
        elif epoch == producer.epoch:  # what another gateway has decided is in its place
            producer.defer(batch.numbers, batch.connection)

    def _miss(self, key: ProducerKey, epoch: int, batch: Batch) -> None:
        """Expect a retry of a batch whose producer was forgotten meanwhile, for lack of memory.

        A broker that does not know the producer would store the batches behind it.
        """
        self._known.current(key, epoch, batch.first, ()).defer(batch.numbers, batch.connection)

    def defer(
        self,
        key: ProducerKey,
        arrival: Arrival,
        epoch: int,
        numbers: Range,
        *,
        connection: int = 0,
    ) -> None:
        """Record that a batch gets a retriable error and is not sent; see `Producer.defer`."""
        producer = self._known.current(
            key, epoch, numbers.first, self.arrivals.first_numbers(arrival, epoch)
        )
        if producer.epoch == epoch:
            producer.defer(numbers, connection)

    def refuse(self, key: ProducerKey, arrival: Arrival, epoch: int, numbers: Range) -> None:
        """Record that a batch gets a final error and is not sent."""
        undecided_numbers = self.arrivals.first_numbers(arrival, epoch)
        producer = self._known.current(key, epoch, numbers.first, undecided_numbers)
        if producer.epoch == epoch:
            producer.refuse(numbers, overtakes=producer.overtakes(numbers, undecided_numbers))

    # Sent batches

    def obstacle(self, key: ProducerKey, epoch: int, batch: Batch) -> int:
        """Return the error code if a decided batch may not be sent now; 0 if it may."""
        producer = self._in_use.of(key, epoch)
        return producer.obstacle(batch) if producer is not None else NONE

    def send(self, key: ProducerKey, epoch: int, batch: Batch, *, is_whole: bool = False) -> int:
        """Mark a decided batch as sent; return 0, or the error code for the client.

        Args:
            is_whole: See `Decided`.
        """
        producer = self._in_use.of(key, epoch)
        if producer is None:
            return self._unknown(key, epoch, batch)
        return producer.send(batch, is_whole=is_whole)

    def acknowledge(self, key: ProducerKey, epoch: int, batch: Batch) -> int:
        """Return the client's error code for a batch that is not sent; 0 for success.

        See `Producer.acknowledge`.
        """
        producer = self._in_use.of(key, epoch)
        if producer is None:
            return self._unknown(key, epoch, batch)
        return producer.acknowledge(batch, self._now())

    def _unknown(self, key: ProducerKey, epoch: int, batch: Batch) -> int:
        """Return the error code for a batch whose producer has a newer epoch, or was removed."""
        producer = self._in_use.get(key)
        if producer is not None and producer.epoch > epoch:
            return INVALID_PRODUCER_EPOCH
        producer = self._known.find(key)
        if producer is None:
            self._miss(key, epoch, batch)
        elif producer.epoch == epoch:  # its record presumes that the broker has the batch
            producer.defer(batch.numbers, batch.connection)
        return REQUEST_TIMED_OUT

    def on_response(
        self, key: ProducerKey, epoch: int, batch: Batch, code: int, position: Stored
    ) -> int:
        """Apply the broker's response to a batch; return the error code for the client."""
        producer = self._in_use.of(key, epoch)
        if producer is None:
            return code
        client_code = producer.on_response(batch, code, position)
        if client_code == NONE and producer is self._in_use.get(key):
            self._in_use.settle_epoch(key)
        if UNKNOWN_PRODUCER_ID in {client_code, code}:
            if producer is self._in_use.get(key):
                self._known.forget(key)
            else:  # a late answer is not about a newer epoch
                self._in_use.remove_before(key)
        return client_code

    def forget(self, key: ProducerKey) -> None:
        """Remove a producer that gets UNKNOWN_PRODUCER_ID."""
        if key in self._in_use:
            self._known.forget(key)

    # Stored records

    def restore(
        self, key: ProducerKey, record: bytes, write_time: float, position: int | None = None
    ) -> None:
        """Apply a record of an earlier process or another gateway.

        Args:
            write_time: When it was written, in seconds since the epoch.
            position: The position after it; None for the position after the last; 0 if it is not
                where other gateways read it, and `expire` is to write it there.

        Raises:
            ValueError: It cannot be decoded.
        """
        self._reader.read(key, record, write_time, position)

    def expire(self) -> None:
        """Remove expired state, and rewrite old records of active producers before they expire.

        To be called every few seconds.
        """
        self.doubts.expire()
        self.topics.expire()
        self._known.expire_unused()
        self._known.expire_records()
        self._known.write_concurrent()
        self.held.expire()


def _kept(batch: Batch, callback: Callable[[str | None], None], failure: str | None) -> None:
    """Apply that a decision was written, and call `callback`."""
    if failure is None and batch.loses_all:
        batch.apply(Event.DROP)
    callback(failure)

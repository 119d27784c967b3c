"""The state of all producers whose records were or may be dropped, by key, within limits."""

from __future__ import annotations

import uuid
from collections import Counter, OrderedDict
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from penstock.gateway.produce.producer_state.doubts import Doubts
from penstock.gateway.produce.producer_state.leaders import Leaders
from penstock.gateway.produce.producer_state.producer.batch import Batch, Event, State, Stored
from penstock.gateway.produce.producer_state.producer.history import BEGUN, History
from penstock.gateway.produce.producer_state.producer.numbers import Range, distance
from penstock.gateway.produce.producer_state.producer.producer import Producer
from penstock.gateway.produce.producer_state.records import encoding
from penstock.gateway.produce.producer_state.records.kept import (
    KEPT_MAX_BYTES,
    UNREAD,
    KeptRecord,
    KeptRecords,
)
from penstock.wire.errors import (
    INVALID_PRODUCER_EPOCH,
    NONE,
    REQUEST_TIMED_OUT,
    UNKNOWN_PRODUCER_ID,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from uuid import UUID

    from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
    from penstock.wire.requests.leaders import Leader

    Buffer = bytes | memoryview
    Keep = Callable[["ProducerKey", bytes, Callable[[str | None], None]], None]
    LookUp = Callable[["ProducerKey"], tuple[bytes, float] | None]

log = structlog.get_logger()

EXPIRATION_S: Final = 86_400.0
"""Brokers forget a producer after `producer.id.expiration.ms`, one day by default."""
SHARED_EXPIRATION_S: Final = 7 * EXPIRATION_S
"""Records of other gateways expire no sooner than in the topic that stores them."""
HELD_S: Final = 600.0
"""No client retries a batch for longer, unless configured to."""
PRODUCERS_MAX: Final = 100_000
HELD_MAX_BYTES: Final = 256 * 2**20
REWRITTEN_MAX: Final = 200
"""The most records that are rewritten at a time: that blocks the event loop."""
_EVICTION_CANDIDATES: Final = 64
"""How many least recently used producers are searched for one without a record to evict."""
_EVICTED_TOPICS_MAX: Final = 10_000
_TO_BE_WRITTEN: Final = frozenset({State.DECIDED, State.AWAITED})
"""States of a batch that, as far as is known, was not sent since it was decided."""


_OTHERWISE: Final = "another gateway has decided about this producer at the same time"


class Arrival(NamedTuple):
    """A producer at a partition, by the name or id of the topic as in the request."""

    topic: str | UUID
    partition: int
    producer_id: int
    principal: str = ""


class LettersNotStored(str):
    """Why the dead letters of a batch could not be stored."""

    __slots__ = ()


class Quarantined(NamedTuple):
    """The records of a batch that become dead letters.

    Attributes:
        positions: Their positions.
        letters: The dead letters; None where they are not known, because the batch was not judged.
        store: Stores dead letters; its last argument is called with None, or with an error message.
    """

    positions: Sequence[int]
    letters: bytes | None
    store: Callable[[bytes, Callable[[str | None], None]], None]


class Decided(NamedTuple):
    """A decided batch.

    Attributes:
        batch: The batch.
        data: The bytes for the broker, except for the sequence numbers; None if nothing is left.
    """

    batch: Batch
    data: Buffer | None


class Producers:
    """The state of producers.

    Attributes:
        translated: How many batches were sent with other sequence numbers than their producer's.
        on_topic: Called with the name of a topic whenever `has_topic` may be true from now on, and
            was not before; with None if that may be any topic. By then it is true.
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
        self.on_topic: Callable[[str | None], None] = _ignore
        self._now = now
        self._keep = keep
        self._look_up = look_up
        self._is_kept_elsewhere = False
        self._is_shared = is_shared
        self._restored = History.COMPLETE if is_shared else History.RESTORED
        self._expiration_s = expiration_s
        self._producers_max = producers_max
        self._kept_max_bytes = kept_max_bytes
        self._held_max_bytes = held_max_bytes
        self._writer = uuid.uuid4().hex
        self._producers: OrderedDict[ProducerKey, Producer] = OrderedDict()
        self._kept = KeptRecords(kept_max_bytes)
        self._revisions = 0
        self._doubts = Doubts(now)
        self._leaders = Leaders(now)
        self._fencing: set[int] = set()
        self._unannounced: dict[ProducerKey, None] = {}
        self._read_back: dict[int, bool] = {}
        self._position = 0
        self._before: dict[ProducerKey, Producer] = {}
        self._topics: Counter[str] = Counter()
        # Until when topics may have producers whose records are not in memory any more.
        self._evicted_topics: dict[str, float] = {}
        self._any_topic_until = 0.0
        self._arrived: dict[Arrival, list[tuple[int, int]]] = {}
        self._arrived_topics: Counter[str | UUID] = Counter()
        self._held: OrderedDict[Batch, tuple[int, float]] = OrderedDict()
        self._held_bytes = 0

    def __bool__(self) -> bool:
        return bool(
            self._topics
            or self._arrived
            or self._doubts
            or self._evicted_topics
            or self._any_topic_until
        )

    @property
    def held_bytes(self) -> int:
        """The bytes of batches that are held for retries."""
        return self._held_bytes

    @property
    def count(self) -> int:
        """How many producers' numbers are known, counted per partition."""
        return len(self._producers)

    @property
    def topics(self) -> Collection[str]:
        """The topics of producers whose sequence numbers are known, or were."""
        if self._evicted_topics:
            return self._topics.keys() | self._evicted_topics.keys()
        return self._topics.keys()

    @property
    def evicted(self) -> int:
        """How many producers' state was forgotten for lack of memory."""
        return self._kept.evicted

    @property
    def kept_bytes(self) -> int:
        """The memory of the records of producers that are not in use here."""
        return self._kept.bytes

    @property
    def _begun(self) -> History:
        """The history of a producer without a record.

        With several gateways: that none of them has dropped a record, unless its record may be one
        that was evicted.
        """
        is_known = self._kept.forgotten_used < self._now() - SHARED_EXPIRATION_S
        return History.UNRECORDED if self._is_shared and is_known else History.UNKNOWN

    def interceptors_changed(self, affects: Callable[[str], bool]) -> None:
        """Record that gateways may have other interceptors than before, or than each other.

        Until no batch is retried that was received before, an unknown batch loses records only if
        no former leader may have it (see `leaders`). If gateways share their state, the decision
        about the first batch of a producer on a connection is also written in any case (see
        `fences`).

        Args:
            affects: Whether records of a topic may have been dropped before, or may be now.
        """
        self._doubts.add(affects)
        self.on_topic(None)

    @property
    def interceptors_have_changed(self) -> bool:
        """Whether they have, and batches that were received before may be retried."""
        return self._doubts.are_of_interceptors

    @property
    def are_in_doubt(self) -> bool:
        """Whether they have, or whether policies of some topic have."""
        return self._doubts.are_present

    def is_doubted(self, topic: str) -> bool:
        """Whether batches of a topic may have been sent with records that are dropped now."""
        return self._doubts.affect(topic)

    def see_leaders(self, epochs: Mapping[tuple[str, int], int]) -> None:
        """Record who leads partitions, so that no batch has to wait until that is long ago.

        Args:
            epochs: The leaders' epochs, by topic and partition.
        """
        for (topic, partition), epoch in epochs.items():
            self._leaders.see(topic, partition, epoch)

    def settings_changed(self, topic: str) -> None:
        """Record that a topic's own settings have changed; see `interceptors_changed`."""
        self._doubts.add_topic(topic)
        self.on_topic(topic)

    def has_topic(self, topic: str) -> bool:
        """Whether there is a producer of a topic whose sequence numbers may have to be changed."""
        return (
            topic in self._topics
            or self._doubts.affect(topic)
            or topic in self._evicted_topics
            or bool(self._any_topic_until)
        )

    # Received batches

    def has_undecided(self, topic: str | UUID) -> bool:
        """Whether a batch of a topic, as its request named it, is registered and not decided."""
        return topic in self._arrived_topics

    def undecided(self, arrival: Arrival) -> int:
        """How many batches of a producer and partition are registered and not decided."""
        return len(self._arrived.get(arrival, ()))

    def arrived(self, arrival: Arrival, epoch: int, first: int) -> None:
        """Register a received batch that is not decided yet.

        It may be overtaken by a batch on another connection, when the leader of the partition
        changes.
        """
        self._arrived.setdefault(arrival, []).append((epoch, first))
        self._arrived_topics[arrival.topic] += 1

    def departed(self, arrival: Arrival, epoch: int, first: int) -> None:
        """Unregister a received batch: it is decided next, or never."""
        waiting = self._arrived[arrival]
        waiting.remove((epoch, first))
        if not waiting:
            del self._arrived[arrival]
        self._arrived_topics[arrival.topic] -= 1
        if not self._arrived_topics[arrival.topic]:
            del self._arrived_topics[arrival.topic]

    def needs_reading(self, key: ProducerKey, epoch: int, numbers: Range) -> bool:
        """Whether another gateway may have newer state of a producer."""
        producer = self._of(key, epoch) or self._producers.get(key)
        if producer is None or producer.epoch < epoch:
            return True
        if producer.epoch > epoch:
            return False
        known = producer.batches.find(numbers)
        if known is not None:
            return known.state is State.AWAITED
        return not producer.batches or producer.numbering.next != numbers.first

    def find(self, key: ProducerKey, epoch: int, numbers: Range) -> Batch | None:
        """Return the batch of the first attempt, if a batch is a retry; None otherwise."""
        producer = self._find(key, epoch)
        if producer is None or producer.epoch != epoch:
            return None
        return producer.batches.find(numbers)

    def depends_on_topic_id(
        self, key: ProducerKey, epoch: int, numbers: Range, topic_id: UUID | None
    ) -> bool:
        """Whether a batch is a retry if the id of its topic has not changed.

        Args:
            key: The producer.
            epoch: The producer epoch.
            numbers: The sequence numbers of the batch.
            topic_id: The id of the topic as it was known of late.
        """
        producer = self._find(key, epoch)
        if producer is None:
            return False
        return _is_other(producer.topic_id, topic_id) or (
            producer.epoch == epoch and producer.batches.find(numbers) is not None
        )

    def see_topic_id(
        self, key: ProducerKey, arrival: Arrival, epoch: int, first: int, topic_id: UUID | None
    ) -> None:
        """Begin again with a producer if its topic was deleted and created again.

        The log of the new topic knows no producer, and takes their batches again
        (ProducerStateManager.java).

        Args:
            key: The producer.
            arrival: The producer as in the request.
            epoch: The producer epoch.
            first: The first sequence number of its batch.
            topic_id: The id of the topic, if it is known.
        """
        producer = self._find(key, epoch)
        if producer is not None and _is_other(producer.topic_id, topic_id):
            self._current(key, epoch, first, self._waiting(arrival, epoch), topic_id)

    def needs_last_sequence(
        self,
        key: ProducerKey,
        epoch: int,
        numbers: Range,
        dropped: Sequence[int],
        *,
        connection: int,
    ) -> bool:
        """Whether the producer's last sequence number has to be requested before `decide`.

        The broker may have stored batches that did not pass through this gateway. A record may be
        dropped only when that is known. Otherwise the sequence numbers of later batches would be
        too low, and the broker would take them for retries.

        Args:
            key: The producer.
            epoch: The producer epoch.
            numbers: The sequence numbers of the batch that is decided next.
            dropped: The positions of the records that interceptors dropped now.
            connection: The number of the connection on which it will be sent. On another connection
                the producer may have been at another gateway meanwhile.
        """
        producer = self._find(key, epoch)
        if producer is None:
            return bool(dropped) or (self._is_shared and numbers.first != 0)
        if producer.epoch != epoch:
            # A producer whose last batch was decided here starts its next epoch here, too.
            is_here = (
                producer.at_broker.history not in BEGUN and producer.at_broker.continued is not None
            )
            follows = not dropped or (is_here and not self._is_shared)
            return producer.epoch < epoch and not (follows and numbers.first == 0)
        known = producer.batches.find(numbers)
        if known is not None:
            is_kept_back = self._is_shared and producer.earlier.keep_back(known)
            return is_kept_back or known.is_decided_otherwise(dropped)
        if producer.numbering.next != numbers.first:
            return True
        at = numbers.first, connection
        if dropped and not (producer.at_broker.is_confirmed and producer.at_broker.continued == at):
            return True
        if not self._is_shared:
            return False
        if producer.at_broker.is_beginning_unknown and producer.at_broker.continued != at:
            return True  # else the first batch that is sent would not fence
        # A batch that has to be retried may have been stored through another gateway.
        loses_all = len(dropped) == numbers.count
        return producer.batches.await_any or (loses_all and producer.batches.are_presumed)

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
            key: The producer.
            arrival: The producer as in the request.
            epoch: The producer epoch.
            numbers: The sequence numbers of the next batch.
            last_sequence: The last sequence number of this epoch, or None.
            dropped: The positions of the records of the batch that interceptors dropped now.
            connection: The number of the connection on which the broker was queried.
            leader: That broker; None if it is not known.

        Returns:
            Whether the batch can be decided. It cannot if it would lose records, may have been sent
            with others before interceptors changed, and a former leader may have it.
        """
        waiting = self._waiting(arrival, epoch)
        producer = self._current(key, epoch, numbers.first, waiting)
        if producer.epoch == epoch:
            if (
                dropped
                and leader is not None
                and self._doubts.affect(key.topic)
                and producer.at_broker.may_be_elsewhere(numbers, last_sequence, dropped)
                and not self._leaders.are_final(key.topic, key.partition, leader)
            ):
                return False
            producer.at_broker.on_last_sequence(
                numbers,
                last_sequence,
                dropped=dropped,
                is_shared=self._is_shared,
                is_begun=not producer.at_broker.is_confirmed,
                recent_from=self._now() - self._expiration_s / 2,
                overtakes=_overtakes(producer, numbers, waiting),
                connection=connection,
                now=self._now(),
            )
        return True

    def without_last_sequence(
        self,
        key: ProducerKey,
        arrival: Arrival,
        epoch: int,
        numbers: Range,
        dropped: Sequence[int] = (),
    ) -> bool:
        """Continue without the last sequence number of the broker; see `needs_last_sequence`.

        Returns:
            Whether the batch can be decided. It cannot if all of its records are dropped and the
            beginning of the producer is not known here: the broker may have stored it already, and
            later batches, and would take the next batches for retries. If only some are dropped,
            the broker refuses the rest in that case.
        """
        waiting = self._waiting(arrival, epoch)
        producer = self._current(key, epoch, numbers.first, waiting)
        if producer.epoch != epoch:
            return True
        if self._is_shared:
            producer.at_broker.skip(numbers, overtakes=_overtakes(producer, numbers, waiting))
        loses_all = len(dropped) == numbers.count
        if (
            not loses_all
            or producer.at_broker.is_confirmed
            or producer.batches.find(numbers) is not None
        ):
            return True
        begins = producer.batches[0].first if producer.batches else numbers.first
        if begins == 0:
            producer.at_broker.history = History.COMPLETE
        return begins == 0

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
        done: Callable[[str | None], None],
    ) -> Decided | int:
        """Decide about the next batch for the broker.

        Args:
            key: The producer.
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
            done: Called with None when the decision has been written, or with an error message;
                `LettersNotStored` where it has been, and dead letters could not be stored.

        Returns:
            The batch; or the error code for the client, without a call of `done`.
        """
        waiting = self._waiting(arrival, epoch)
        producer = self._current(key, epoch, numbers.first, waiting, topic_id)
        if producer.epoch > epoch:
            return INVALID_PRODUCER_EPOCH
        known = producer.batches.find(numbers)
        if producer.batches.presume_one_of(waiting, numbers.first):
            producer.defer(numbers, connection)
            return REQUEST_TIMED_OUT
        is_agreed = producer.record.is_agreed(numbers, known, connection, self._doubts.generation)
        decision = producer.decide(
            numbers,
            dropped,
            data,
            known=known,
            connection=connection,
            overtakes=bool(waiting) and _overtakes(producer, numbers, waiting),
        )
        if isinstance(decision, int):
            if decision == UNKNOWN_PRODUCER_ID:
                self._forget(key)
            return decision
        decision.is_changed |= is_changed and decision.data is data
        if quarantined is not None and _takes_letters(decision, known, quarantined):
            decision.quarantined = quarantined.positions
            decision.letters = quarantined.letters
        outgoing, letters = decision.data, decision.letters
        fences = self._fences(key, producer, decision, connection, is_agreed=is_agreed)
        self._hold(decision)  # may release it at once, for lack of memory
        if fences or self._is_to_be_written(key, decision):
            done = partial(_kept, decision, done)
            if decision.owes_letters:
                done = partial(self._lettered, key, producer, decision, done)
                done = partial(self._store_letters, decision, letters, quarantined, done)
            self._write(key, producer, done, fences=fences)
        elif decision.owes_letters:
            done = partial(self._lettered, key, producer, decision, done)
            self._store_letters(decision, letters, quarantined, done, None)
        else:
            done(None)
        return Decided(decision, outgoing)

    def _fences(
        self,
        key: ProducerKey,
        producer: Producer,
        batch: Batch,
        connection: int,
        *,
        is_agreed: bool,
    ) -> bool:
        """Whether the decision about a batch has to be written, and then counts for all."""
        if is_agreed:
            fences = False
        elif not self._is_shared or (batch.is_done and batch.state not in _TO_BE_WRITTEN):
            return False
        else:
            is_unsure = producer.at_broker.begins_late or producer.record.begins_unknown
            fences = is_unsure or self._doubts.affect(key.topic)
        if is_agreed or fences:
            producer.record.agreed_at = batch.next, connection, self._doubts.generation
        return fences

    def _is_to_be_written(self, key: ProducerKey, batch: Batch) -> bool:
        """Whether the decision about a batch has to be written, for every gateway.

        If another gateway may drop the records that are sent here, also that none is dropped: the
        broker does not know everything. Its leader may not have the records of a former leader.
        """
        if batch.state not in _TO_BE_WRITTEN:
            return False
        return bool(batch.dropped_count) or (self._is_shared and self._doubts.affect(key.topic))

    def _store_letters(
        self,
        batch: Batch,
        letters: bytes | None,
        quarantined: Quarantined | None,
        done: Callable[[str | None], None],
        failure: str | None,
    ) -> None:
        """Store the dead letters of a batch whose decision has been written.

        A gateway that has judged it by other policies does not know its place: it must be retried.
        """
        if failure is not None:
            done(failure)
        elif letters is None or quarantined is None:
            done(LettersNotStored("they have to be written again"))
        else:
            quarantined.store(letters, partial(self._letters_stored, batch, done))

    def _letters_stored(
        self, batch: Batch, done: Callable[[str | None], None], failure: str | None
    ) -> None:
        if failure is None:
            self._held_bytes -= self._forget_letters(batch)
            batch.letters, batch.is_lettered = None, True
        done(None if failure is None else LettersNotStored(failure))

    def _lettered(
        self,
        key: ProducerKey,
        producer: Producer,
        batch: Batch,
        done: Callable[[str | None], None],
        failure: str | None,
    ) -> None:
        """Let other gateways know that nothing is left to store of a batch.

        One to which the batch came first would wait for it, though its client has a success.
        """
        done(failure)
        is_current = self._of(key, producer.epoch) is producer
        if failure is None and self._is_shared and batch.loses_all and is_current:
            self._write(key, producer, partial(self._announced, key))

    def _announced(self, key: ProducerKey, failure: str | None) -> None:
        """Have `expire` write again what other gateways wait for, if it was not written."""
        if failure is None:
            self._unannounced.pop(key, None)
        else:
            self._unannounced[key] = None

    def _forget_letters(self, batch: Batch) -> int:
        """Release a batch's dead letters; return their number of bytes."""
        size, held_at = self._held.get(batch, (0, 0.0))
        letters = min(size, len(batch.letters or b""))
        if letters:
            self._held[batch] = (size - letters, held_at)
        return letters

    def _write(
        self,
        key: ProducerKey,
        producer: Producer,
        done: Callable[[str | None], None],
        *,
        fences: bool = False,
    ) -> None:
        if self._keep is None:
            done(None)
            return
        # Without a fence that is not written, its content would not fence.
        fences = fences or any(unread in self._fencing for unread in producer.record.unread)
        self._revisions += 1
        revision = self._revisions
        producer.record.write(revision, self._now(), is_read_back=self._is_shared)
        if self._is_shared:
            self._read_back[revision] = False
            if fences:
                self._fencing.add(revision)
            done = partial(self._written, key, producer, revision, done)
        self._keep(key, self._encode(producer, fences=fences), done)
        current = self._producers.get(key)
        if current is not None and current.epoch > producer.epoch and current.record.written:
            self._write(key, current, _ignore)  # only the last record is kept

    def _written(
        self,
        key: ProducerKey,
        producer: Producer,
        revision: int,
        done: Callable[[str | None], None],
        failure: str | None,
    ) -> None:
        if failure is not None:  # others may never read it, and know all there is without it
            for known in (producer, self._producers.get(key)):
                if known is not None:
                    known.record.not_written(revision)
        if not self._read_back.pop(revision):
            failure = failure or _OTHERWISE
        if revision in self._fencing:
            if failure is None:
                producer.record.begins_unknown = False
            else:
                producer.record.agreed_at = None
        self._fencing.discard(revision)
        done(failure)

    def _encode(self, producer: Producer, *, fences: bool = False) -> bytes:
        return encoding.encode(
            producer,
            self._writer,
            revision=producer.record.revision,
            seen=self._position,
            fences=fences,
        )

    def not_kept(self, key: ProducerKey, epoch: int, batch: Batch) -> None:
        """Record that a decision could not be written: its batch gets a retriable error.

        The decision stays, and is written again with the retry; later batches wait for it.
        """
        producer = self._find(key)  # it may have been set aside meanwhile
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
        self._current(key, epoch, batch.first, ()).defer(batch.numbers, batch.connection)

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
        producer = self._current(key, epoch, numbers.first, self._waiting(arrival, epoch))
        if producer.epoch == epoch:
            producer.defer(numbers, connection)

    def refuse(self, key: ProducerKey, arrival: Arrival, epoch: int, numbers: Range) -> None:
        """Record that a batch gets a final error and is not sent."""
        waiting = self._waiting(arrival, epoch)
        producer = self._current(key, epoch, numbers.first, waiting)
        if producer.epoch == epoch:
            producer.refuse(numbers, overtakes=_overtakes(producer, numbers, waiting))

    def _waiting(self, arrival: Arrival, epoch: int) -> list[int]:
        return [first for of, first in self._arrived.get(arrival, ()) if of == epoch]

    # Sent batches

    def obstacle(self, key: ProducerKey, epoch: int, batch: Batch) -> int:
        """Return the error code if a decided batch may not be sent now; 0 if it may."""
        producer = self._of(key, epoch)
        return producer.obstacle(batch) if producer is not None else NONE

    def send(self, key: ProducerKey, epoch: int, batch: Batch) -> int:
        """Mark a decided batch as sent; return 0, or the error code for the client."""
        producer = self._of(key, epoch)
        return producer.send(batch) if producer is not None else self._unknown(key, epoch, batch)

    def acknowledge(self, key: ProducerKey, epoch: int, batch: Batch) -> int:
        """Return the client's error code for a batch that is not sent; 0 for success.

        See `Producer.acknowledge`.
        """
        producer = self._of(key, epoch)
        if producer is None:
            return self._unknown(key, epoch, batch)
        return producer.acknowledge(batch, self._now())

    def _unknown(self, key: ProducerKey, epoch: int, batch: Batch) -> int:
        """Return the error code for a batch whose producer has a newer epoch, or was removed."""
        producer = self._producers.get(key)
        if producer is not None and producer.epoch > epoch:
            return INVALID_PRODUCER_EPOCH
        if self._find(key) is None:
            self._miss(key, epoch, batch)
        return REQUEST_TIMED_OUT

    def on_response(
        self, key: ProducerKey, epoch: int, batch: Batch, code: int, stored: Stored
    ) -> int:
        """Apply the broker's response to a batch; return the error code for the client."""
        producer = self._of(key, epoch)
        if producer is None:
            return code
        client_code = producer.on_response(batch, code, stored)
        if client_code == NONE and producer is self._producers.get(key):
            self._before.pop(key, None)
        if UNKNOWN_PRODUCER_ID in {client_code, code}:
            if producer is self._producers.get(key):
                self._forget(key)
            else:  # a late answer is not about a newer epoch
                self._before.pop(key).clear()
        return client_code

    def forget(self, key: ProducerKey) -> None:
        """Remove a producer that gets UNKNOWN_PRODUCER_ID."""
        if key in self._producers:
            self._forget(key)

    # Stored records

    def restore(
        self, key: ProducerKey, record: bytes, used: float, position: int | None = None
    ) -> None:
        """Apply a record of an earlier process or another gateway.

        Args:
            key: The producer.
            record: The record.
            used: When it was written, in seconds since the epoch.
            position: The position after it; None for the position after the last; 0 if it is not
                where other gateways read it, and `expire` is to write it there.

        Raises:
            ValueError: It cannot be decoded.
        """
        self._position = max(self._position, self._position + 1 if position is None else position)
        kept = KeptRecord(record, used, self._position, encoding.read_head(record))
        producer = self._producers.get(key)
        if producer is not None:
            if kept.head.epoch < producer.epoch:
                self._read_older(key, kept)
                if producer.record.written and not producer.record.unread:
                    self._write(key, producer, _ignore)  # or it would be lost to the older epoch
                return
            if kept.head.epoch > producer.epoch:
                self._replace(key, producer)
            elif not self._learn(producer, key, kept):
                return
        elif key not in self._kept:
            self._begin_topic(key.topic)
        self._kept.add(key, kept)
        if position == 0:
            self._kept.mark(key)
        self._bound()

    def _read_older(self, key: ProducerKey, read: KeptRecord) -> None:
        """Find out whether a decision counts that is read when its producer has a newer epoch."""
        before = self._of(key, read.head.epoch)
        if before is None:
            return
        if before.record.fences.is_void(read.head):
            before.record.fences.leave_out(read.head, read.position)
            return
        before.record.fences.take(read.head, read.position)
        if read.head.writer == self._writer:
            self._confirm(read.head.revision)

    def _confirm(self, revision: int) -> None:
        """Record that a record that was written here counts."""
        if revision in self._read_back:
            self._read_back[revision] = True

    def _learn(self, producer: Producer, key: ProducerKey, read: KeptRecord) -> bool:
        """Apply a record to a producer that is in use here; return whether it takes its place."""
        head = read.head
        is_own = head.writer == self._writer
        if producer.record.fences.is_void(head):
            self._ignore_void(producer, key, read)
            return False
        producer.record.fences.take(head, read.position)
        if is_own:
            producer.record.read_own(head, read.position)
            self._confirm(head.revision)
            # It was written before the records of others at that time were read, and hides them.
            hides = producer.record.is_hidden_by(head)
            if not hides and not producer.batches.await_lost:
                return False
        theirs = encoding.decode(read.value, self._restored, read.used, self._release)
        if is_own:  # the sequence numbers may have been reused since
            producer.confirm(theirs.batches)
            if hides and encoding.is_ahead(producer, theirs):
                self._write(key, producer, _ignore)
            return False
        is_void_here = any(unread in self._fencing for unread in producer.record.unread)
        is_newer = producer.record.is_known_to(head) or is_void_here
        if (is_newer or head.fences) and _is_other(producer.topic_id, theirs.topic_id):
            producer.clear()  # the topic was created again
            del self._producers[key]
            return True
        if head.fences:
            producer.take_over(theirs.decisions)
            producer.record.written = read.used
            producer.record.read_other(read.position)
            return False
        self._merge(producer, key, theirs, read, is_newer=is_newer)
        return False

    def _ignore_void(self, producer: Producer, key: ProducerKey, read: KeptRecord) -> None:
        """Ignore the decision of a record that does not count; it must not stay the last record."""
        producer.record.fences.leave_out(read.head, read.position)
        if read.head.writer == self._writer:
            producer.record.read_own(read.head, read.position)
            producer.record.agreed_at = None
        else:
            producer.record.position = read.position
            theirs = encoding.decode(read.value, self._restored, read.used, self._release)
            producer.learn_of_letters(theirs.batches)
        if not producer.record.unread:
            self._write(key, producer, _ignore)

    def _merge(
        self,
        producer: Producer,
        key: ProducerKey,
        theirs: Producer,
        read: KeptRecord,
        *,
        is_newer: bool,
    ) -> None:
        is_complete = producer.learn(theirs.decisions, is_newer=is_newer)
        if is_complete:
            producer.record.written = max(producer.record.written, read.used)
        producer.record.read_other(read.position)
        if not is_complete and encoding.is_ahead(producer, theirs):
            # The other gateway had older state; the last record in the topic wins.
            self._write(key, producer, _ignore)

    def expire(self) -> None:
        """Remove expired state, and rewrite old records of active producers before they expire.

        To be called every few seconds.
        """
        self._doubts.expire()
        self._expire_evicted_topics()
        limit = self._now() - self._expiration_s
        while self._producers and next(iter(self._producers.values())).used < limit:
            self._set_aside(next(iter(self._producers)))
        rewritten_before = self._now() - self._expiration_s / 2
        old = (
            (key, producer)
            for key, producer in self._producers.items()
            if 0 < producer.record.written < rewritten_before and producer.numbering.removed
        )
        for key, producer in islice(old, REWRITTEN_MAX):
            self._write(key, producer, _ignore)
        for key in list(islice(self._unannounced, REWRITTEN_MAX)):
            del self._unannounced[key]
            if key in self._producers:
                self._write(key, self._producers[key], partial(self._announced, key))
        self._expire_kept()
        for key in list(islice(self._kept.concurrent, REWRITTEN_MAX)):
            self._find(key)
        limit = self._now() - HELD_S
        while self._held and next(iter(self._held.values()))[1] < limit:
            self._release(next(iter(self._held)))

    def _expire_evicted_topics(self) -> None:
        now = self._now()
        if self._any_topic_until <= now:
            self._any_topic_until = 0.0
        for topic in [topic for topic, until in self._evicted_topics.items() if until <= now]:
            del self._evicted_topics[topic]

    def _expire_kept(self) -> None:
        for key in self._kept.expire(self._now() - self._kept_expiration_s):
            self._uncount(key)

    @property
    def _kept_expiration_s(self) -> float:
        return SHARED_EXPIRATION_S if self._is_shared else self._expiration_s

    def _find(self, key: ProducerKey, epoch: int | None = None) -> Producer | None:
        """Return the state of a producer, restored from its record if necessary."""
        before = self._before.get(key)
        if before is not None and before.epoch == epoch:
            return before
        producer = self._producers.get(key)
        if producer is None and self._is_kept_elsewhere and key not in self._kept:
            self._look_for(key)
        if producer is None and key in self._kept:
            is_marked = self._kept.is_marked(key)
            producer = self._decode_kept(key)
            if producer is None:
                self._uncount(key)
            else:
                self._producers[key] = producer
                if is_marked:  # compaction keeps only the last of these records
                    self._write(key, producer, _ignore)
        return producer

    def _look_for(self, key: ProducerKey) -> None:
        found = self._look_up(key) if self._look_up is not None else None
        if found is not None:
            record, used = found
            try:
                head = encoding.read_head(record)
            except ValueError as error:
                log.error("the state of a producer cannot be understood", reason=str(error))
                return
            self._kept.add(key, KeptRecord(record, used, self._position, head))
            self._begin_topic(key.topic)

    def _decode_kept(self, key: ProducerKey) -> Producer | None:
        """Return a producer from its records, merged if several gateways wrote at once."""
        fences = self._kept.fences(key, self._kept.epoch(key))
        records = self._kept.remove(key)
        merged: Producer | None = None
        for kept in records:
            decoded = self._decode_one(kept)
            if decoded is None:
                continue
            if merged is not None and encoding.is_ahead(merged, decoded):
                merged, decoded = decoded, merged
            if merged is not None:
                decoded.learn(merged.decisions)
            merged = decoded
        if merged is not None:
            read = [kept.position for kept in records if kept.position != UNREAD]
            merged.record.position = max(read, default=0)
            merged.record.fences = fences
            merged.record.revision = max(
                (kept.head.revision for kept in records if kept.head.writer == self._writer),
                default=0,
            )
            if len(read) < len(records):
                merged.record.unread = (merged.record.revision,)
        return merged

    def _decode_one(self, kept: KeptRecord) -> Producer | None:
        # The broker has forgotten a producer that was idle for so long. With several gateways the
        # record may be older than the last batch.
        is_old = kept.used < self._now() - self._expiration_s
        if is_old and not self._is_shared:
            return None
        history = self._begun if is_old else self._restored
        try:
            return encoding.decode(kept.value, history, kept.used, self._release)
        except ValueError as error:
            log.error("the state of a producer cannot be understood", reason=str(error))
            self._kept.forget(kept.used)
            return None

    def _of(self, key: ProducerKey, epoch: int) -> Producer | None:
        for producer in (self._producers.get(key), self._before.get(key)):
            if producer is not None and producer.epoch == epoch:
                return producer
        return None

    def _current(
        self,
        key: ProducerKey,
        epoch: int,
        first: int,
        waiting: Sequence[int],
        topic_id: UUID | None = None,
    ) -> Producer:
        """Return the state of a producer in an epoch, or in a later epoch of it."""
        producer = self._find(key, epoch)
        if producer is None or epoch > producer.epoch or _is_other(producer.topic_id, topic_id):
            # It starts with the first undecided batch, perhaps on another connection.
            begins = min((first, *waiting), key=lambda number: distance(first, number))
            producer = self._begin(key, epoch, begins, topic_id)
        producer.used = self._now()
        producer.topic_id = topic_id or producer.topic_id
        if key in self._producers:
            self._producers.move_to_end(key)
        return producer

    def _begin(self, key: ProducerKey, epoch: int, first: int, topic_id: UUID | None) -> Producer:
        history = self._begun
        before = self._producers.get(key)
        if before is not None:
            if epoch > before.epoch:
                if before.at_broker.history not in BEGUN:
                    history = History.COMPLETE if first == 0 else before.at_broker.history
                first = 0  # brokers expect that of a producer that they know
                self._replace(key, before)
            else:
                self._drop(key, before)
        else:
            self._begin_topic(key.topic)
        producer = Producer(epoch, first, release=self._release, history=history, topic_id=topic_id)
        producer.record.begins_unknown = (
            self._is_shared and first != 0 and history is History.UNKNOWN
        )
        self._producers[key] = producer
        self._bound()
        return producer

    def _replace(self, key: ProducerKey, producer: Producer) -> None:
        """Make room for the state of a newer epoch.

        The client with the newer epoch may not be authorized to write. Until the broker has stored
        a batch of it, the older epoch remains valid.
        """
        if key in self._before:
            producer.clear()
        else:
            self._before[key] = producer
        self._producers.pop(key, None)

    def _drop(self, key: ProducerKey, producer: Producer) -> None:
        producer.clear()
        del self._producers[key]
        before = self._before.pop(key, None)
        if before is not None:
            before.clear()

    def _forget(self, key: ProducerKey) -> None:
        producer = self._producers.get(key)
        if producer is not None:
            self._drop(key, producer)
        before = self._before.pop(key, None)
        if before is not None:
            before.clear()
        self._kept.remove(key)
        self._uncount(key)

    def _set_aside(self, key: ProducerKey) -> None:
        """Evict a producer; if records are shared by gateways, keep its record in memory.

        All gateways have to assign the same sequence numbers to the producer's batches.
        """
        producer = self._producers[key]
        if producer.record.written and self._look_up is not None:
            self._is_kept_elsewhere = True
            self._note_evicted(key.topic, producer.record.written + self._expiration_s)
        record = self._encode(producer) if self._is_shared and producer.record.written else None
        self._forget(key)
        if record is not None:
            head = encoding.read_head(record)
            position = UNREAD if producer.record.unread else producer.record.position
            self._kept.add(key, KeptRecord(record, producer.record.written, position, head))
            self._kept.keep_fences(key, producer.epoch, producer.record.fences)
            self._begin_topic(key.topic)

    def _begin_topic(self, topic: str) -> None:
        self._topics[topic] += 1
        if self._topics[topic] == 1:
            self.on_topic(topic)

    def _note_evicted(self, topic: str, until: float) -> None:
        """Note that a producer of a topic may have a record that is not in memory any more."""
        if until <= self._now():
            return
        if topic in self._evicted_topics or len(self._evicted_topics) < _EVICTED_TOPICS_MAX:
            self._evicted_topics[topic] = max(until, self._evicted_topics.get(topic, 0.0))
            return
        is_new = not self._any_topic_until
        self._any_topic_until = max(until, self._any_topic_until)
        if is_new:
            self.on_topic(None)

    def _uncount(self, key: ProducerKey) -> None:
        self._topics[key.topic] -= 1
        if self._topics[key.topic] <= 0:
            del self._topics[key.topic]

    def _bound(self) -> None:
        while len(self._producers) > self._producers_max:
            key = self._least_needed()
            if self._producers[key].numbering.removed and self._keep is None:
                self._kept.count_evicted(1, self._now())
            self._set_aside(key)
        if self._kept.bytes > self._kept_max_bytes:
            self._expire_kept()
            for key in self._kept.evict(self._now()):
                self._is_kept_elsewhere = self._look_up is not None
                self._note_evicted(key.topic, self._now() + self._kept_expiration_s)
                self._uncount(key)

    def _least_needed(self) -> ProducerKey:
        """Return the producer to evict: a least recently used producer.

        If possible, it has no record, and no batch that may be retried, which later batches would
        overtake.
        """
        oldest = islice(self._producers, min(_EVICTION_CANDIDATES, len(self._producers) - 1))
        return min(oldest, key=self._need, default=next(iter(self._producers)))

    def _need(self, key: ProducerKey) -> tuple[bool, bool]:
        producer = self._producers[key]
        return producer.earlier.may_be_retried, bool(producer.record.written)

    def _hold(self, batch: Batch) -> None:
        """Hold the data of a batch for retries, within the memory limit."""
        data = batch.data
        if batch in self._held or (data is None and not batch.dropped and not batch.letters):
            return
        size = len(batch.dropped) * 4 + len(batch.letters or b"")
        if data is not None:
            held = memoryview(data.obj).nbytes if isinstance(data, memoryview) else len(data)
            if 2 * len(data) < held:
                batch.data = bytes(data)  # or a small batch would hold a large request
                held = len(data)
            size += held
        self._held[batch] = (size, self._now())
        self._held_bytes += size
        while self._held_bytes > self._held_max_bytes and self._held:
            self._release(next(iter(self._held)))

    def _release(self, batch: Batch) -> None:
        size, _ = self._held.pop(batch, (0, 0.0))
        self._held_bytes -= size
        batch.data = batch.letters = None


def _kept(batch: Batch, done: Callable[[str | None], None], failure: str | None) -> None:
    """Apply that a decision was written, and call `done`."""
    if failure is None and batch.loses_all:
        batch.apply(Event.DROP)
    done(failure)


def _takes_letters(decision: Batch, known: Batch | None, quarantined: Quarantined) -> bool:
    """Whether the dead letters made now are those of a decided batch.

    They are not if an earlier decision about other records stays.
    """
    if quarantined.letters is None or decision.is_lettered or decision.is_whole:
        return False
    if decision is not known:
        return True
    return list(decision.quarantined) == list(quarantined.positions)


def _overtakes(producer: Producer, numbers: Range, waiting: Sequence[int]) -> bool:
    """Whether an undecided batch with lower sequence numbers has been received."""
    following = producer.numbering.next
    ahead = distance(following, numbers.first)
    return any(0 <= distance(following, first) < ahead for first in waiting)


def _is_other(known: UUID | None, current: UUID | None) -> bool:
    return known is not None and current is not None and known != current


def _ignore(_: str | None) -> None:
    """Ignore the result of a write, or the topics that have state."""

"""The producers whose state is known here, in use or as a record, within limits.

After a restart every producer is a record. It is decoded when the producer is used. A producer that
is not used becomes a record again, if other gateways share it, or is looked up where it is kept.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from penstock.gateway.produce.producer_state.producer.history import BEGUN, History
from penstock.gateway.produce.producer_state.producer.numbers import distance
from penstock.gateway.produce.producer_state.producer.state_machine import Producer
from penstock.gateway.produce.producer_state.records import encoding
from penstock.gateway.produce.producer_state.records.kept import (
    KEPT_MAX_BYTES,
    UNREAD,
    KeptRecord,
    KeptRecords,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from penstock.gateway.produce.producer_state.producer.batch import Batch
    from penstock.gateway.produce.producer_state.producers_in_use import ProducersInUse
    from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
    from penstock.gateway.produce.producer_state.records.writer import RecordWriter
    from penstock.gateway.produce.producer_state.topics_with_state import TopicsWithState

    LookUp = Callable[[ProducerKey], tuple[bytes, float] | None]

log = structlog.get_logger()

EXPIRATION_S: Final = 86_400.0
"""Brokers forget a producer after `producer.id.expiration.ms`, one day by default."""
SHARED_EXPIRATION_S: Final = 7 * EXPIRATION_S
"""Records of other gateways expire no sooner than in the topic that stores them."""
PRODUCERS_MAX: Final = 100_000
REWRITTEN_MAX: Final = 200
"""The most records that are rewritten at a time: that blocks the event loop."""


class Limits(NamedTuple):
    """How much state is kept.

    Attributes:
        expiration_s: The time after which unused state is removed.
        producers_max: The most producers that are in use, counted per partition; the records of
            others are kept as they are.
        kept_max_bytes: The most memory for records.
    """

    expiration_s: float = EXPIRATION_S
    producers_max: int = PRODUCERS_MAX
    kept_max_bytes: int = KEPT_MAX_BYTES


class KnownProducers:
    """The producers that are in use here, and the records of others.

    Attributes:
        kept: The records of others.
    """

    def __init__(
        self,
        in_use: ProducersInUse,
        topics: TopicsWithState,
        writer: RecordWriter,
        *,
        now: Callable[[], float],
        look_up: LookUp | None,
        release: Callable[[Batch], None],
        is_shared: bool,
        limits: Limits,
    ) -> None:
        """Begin without a record.

        Args:
            topics: The topics of known producers.
            writer: Writes their records.
            now: Returns the time in seconds since the epoch.
            look_up: See `Producers`.
            release: See `Producer`.
            is_shared: See `Producers`.
        """
        self.in_use = in_use
        self.kept = KeptRecords(limits.kept_max_bytes)
        self._topics = topics
        self._writer = writer
        self._now = now
        self._look_up = look_up
        self._is_kept_elsewhere = False
        self._release = release
        self._is_shared = is_shared
        self._restored = History.COMPLETE if is_shared else History.RESTORED
        self._limits = limits

    # Finding a producer

    def find(self, key: ProducerKey, epoch: int | None = None) -> Producer | None:
        """Return the state of a producer, restored from its record if necessary.

        Args:
            epoch: The epoch, if the epoch before the newest may be meant.
        """
        previous_state = self.in_use.before(key, epoch)
        if previous_state is not None:
            return previous_state
        producer = self.in_use.get(key)
        if producer is None and self._is_kept_elsewhere and key not in self.kept:
            self._look_for(key)
        if producer is None and key in self.kept:
            is_marked = self.kept.is_marked(key)
            producer = self._decode_kept(key)
            if producer is None:
                self._topics.remove(key.topic)
            else:
                self.in_use.add(key, producer)
                if is_marked:  # compaction keeps only the last of these records
                    self._writer.write(key, producer)
        return producer

    def _look_for(self, key: ProducerKey) -> None:
        entry = self._look_up(key) if self._look_up is not None else None
        if entry is not None:
            record, write_time = entry
            try:
                head = encoding.read_head(record)
            except ValueError as error:
                log.error("the state of a producer cannot be understood", reason=str(error))
                return
            self.kept.add(key, KeptRecord(record, write_time, self._writer.position, head))
            self._topics.add(key.topic)

    def _decode_kept(self, key: ProducerKey) -> Producer | None:
        """Return a producer from its records, merged if several gateways wrote at once."""
        fences = self.kept.fences(key, self.kept.epoch(key))
        records = self.kept.remove(key)
        merged: Producer | None = None
        for record in records:
            decoded = self._decode_one(record)
            if decoded is None:
                continue
            if merged is not None and encoding.is_ahead(merged, decoded):
                merged, decoded = decoded, merged
            if merged is not None:
                decoded.learn(merged.decisions)
            merged = decoded
        if merged is not None:
            positions = [record.position for record in records if record.position != UNREAD]
            merged.record.position = max(positions, default=0)
            merged.record.fences = fences
            merged.record.revision = max(
                (
                    record.head.revision
                    for record in records
                    if self._writer.has_written(record.head)
                ),
                default=0,
            )
            if len(positions) < len(records):
                merged.record.unread = (merged.record.revision,)
        return merged

    def _decode_one(self, record: KeptRecord) -> Producer | None:
        # The broker has forgotten a producer that was idle for so long. With several gateways the
        # record may be older than the last batch.
        is_old = record.used < self._now() - self._limits.expiration_s
        if is_old and not self._is_shared:
            return None
        try:
            return self.decode(record, self._begun if is_old else self._restored)
        except ValueError as error:
            log.error("the state of a producer cannot be understood", reason=str(error))
            self.kept.forget(record.used)
            return None

    def decode(self, record: KeptRecord, history: History | None = None) -> Producer:
        """Return the state in a record.

        Args:
            history: The known facts about earlier batches; None for those of a record that is read.

        Raises:
            ValueError: It cannot be decoded.
        """
        return encoding.decode(record.value, history or self._restored, record.used, self._release)

    # Using a producer

    def current(
        self,
        key: ProducerKey,
        epoch: int,
        first: int,
        undecided_numbers: Sequence[int],
        topic_id: UUID | None = None,
    ) -> Producer:
        """Return the state of a producer in an epoch, or in a later epoch of it.

        It begins if it is not known, or if its topic was deleted and created again.

        Args:
            epoch: The producer epoch.
            first: The first sequence number of its batch.
            undecided_numbers: The first sequence numbers of its batches that are not decided.
            topic_id: The id of the topic, if it is known.
        """
        producer = self.find(key, epoch)
        if producer is None or epoch > producer.epoch or producer.is_of_other_topic(topic_id):
            # It starts with the first undecided batch, perhaps on another connection.
            begins = min((first, *undecided_numbers), key=lambda number: distance(first, number))
            producer = self._begin(key, epoch, begins, topic_id)
        producer.used = self._now()
        producer.topic_id = topic_id or producer.topic_id
        self.in_use.use(key)
        return producer

    @property
    def _begun(self) -> History:
        """The history of a producer without a record.

        With several gateways: that none of them has dropped a record, unless its record may be one
        that was evicted.
        """
        is_known = self.kept.forgotten_used < self._now() - SHARED_EXPIRATION_S
        return History.UNRECORDED if self._is_shared and is_known else History.UNKNOWN

    def _begin(self, key: ProducerKey, epoch: int, first: int, topic_id: UUID | None) -> Producer:
        history = self._begun
        previous_state = self.in_use.get(key)
        if previous_state is not None:
            if epoch > previous_state.epoch:
                if previous_state.at_broker.history not in BEGUN:
                    history = History.COMPLETE if first == 0 else previous_state.at_broker.history
                if not self._may_be_forgotten(previous_state):
                    first = 0  # brokers expect that of a producer that they know
                self.in_use.supersede(key)
            else:
                self.in_use.remove(key)
        else:
            self._topics.add(key.topic)
        producer = Producer(epoch, first, release=self._release, history=history, topic_id=topic_id)
        is_unknown = self._is_shared and first != 0 and history is History.UNKNOWN
        producer.record.begins_unknown = is_unknown
        self.in_use.add(key, producer)
        self._bound()
        return producer

    def _may_be_forgotten(self, producer: Producer) -> bool:
        """Whether the broker may have forgotten a producer, and takes any number for its next."""
        return producer.used < self._now() - self._limits.expiration_s / 2

    def forget(self, key: ProducerKey) -> None:
        """Forget all that is known of a producer."""
        self.in_use.remove(key)
        self.kept.remove(key)
        self._topics.remove(key.topic)

    # Records

    def add_record(self, key: ProducerKey, record: KeptRecord, *, is_last: bool) -> None:
        """Add a record of a producer that is not in use.

        Args:
            is_last: Whether it is the last record where other gateways read it.
        """
        self.kept.add(key, record)
        if not is_last:
            self.kept.mark(key)
        self._bound()

    def _set_aside(self, key: ProducerKey, producer: Producer) -> None:
        """Evict a producer; if records are shared by gateways, keep its record in memory.

        All gateways have to assign the same sequence numbers to the producer's batches.
        """
        state = producer.record
        if state.written and self._look_up is not None:
            self._is_kept_elsewhere = True
            self._topics.note_evicted(key.topic, state.written + self._limits.expiration_s)
        record = self._writer.encode(producer) if self._is_shared and state.written else None
        self.forget(key)
        if record is not None:
            head = encoding.read_head(record)
            position = UNREAD if state.unread else state.position
            self.kept.add(key, KeptRecord(record, state.written, position, head))
            self.kept.keep_fences(key, producer.epoch, state.fences)
            self._topics.add(key.topic)

    # Limits

    def _bound(self) -> None:
        while len(self.in_use) > self._limits.producers_max:
            key, producer = self.in_use.least_needed()
            if producer.numbering.removed and not self._writer.keeps:
                self.kept.count_evicted(1, self._now())
            self._set_aside(key, producer)
        if self.kept.bytes > self._limits.kept_max_bytes:
            self.expire_records()
            for key in self.kept.evict(self._now()):
                self._is_kept_elsewhere = self._look_up is not None
                self._topics.note_evicted(key.topic, self._now() + self._kept_expiration_s)
                self._topics.remove(key.topic)

    @property
    def _kept_expiration_s(self) -> float:
        return SHARED_EXPIRATION_S if self._is_shared else self._limits.expiration_s

    def expire_unused(self) -> None:
        """Set aside the producers that were not used for long; rewrite old records of the others.

        Otherwise these records would expire.
        """
        limit = self._now() - self._limits.expiration_s
        while (unused := self.in_use.unused_since(limit)) is not None:
            self._set_aside(*unused)
        rewritten_before = self._now() - self._limits.expiration_s / 2
        old = (
            (key, producer)
            for key, producer in self.in_use.items()
            if 0 < producer.record.written < rewritten_before and producer.numbering.removed
        )
        for key, producer in list(islice(old, REWRITTEN_MAX)):
            if self.in_use.get(key) is producer:  # writing a record may set producers aside
                self._writer.write(key, producer)

    def expire_records(self) -> None:
        """Remove expired records."""
        for key in self.kept.expire(self._now() - self._kept_expiration_s):
            self._topics.remove(key.topic)

    def write_concurrent(self) -> None:
        """Use the producers whose last record in the topic does not say all, so that it is written.

        Not all at a time.
        """
        for key in list(islice(self.kept.concurrent, REWRITTEN_MAX)):
            self.find(key)

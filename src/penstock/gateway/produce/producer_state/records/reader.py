"""Applies the records that this gateway or others have written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.gateway.produce.producer_state.records import encoding
from penstock.gateway.produce.producer_state.records.kept import KeptRecord

if TYPE_CHECKING:
    from penstock.gateway.produce.producer_state.known_producers import KnownProducers
    from penstock.gateway.produce.producer_state.producer.state_machine import Producer
    from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
    from penstock.gateway.produce.producer_state.records.writer import RecordWriter
    from penstock.gateway.produce.producer_state.topics_with_state import TopicsWithState


class RecordReader:
    """Applies each record to its producer if that is in use; otherwise keeps the record."""

    def __init__(
        self, producers: KnownProducers, topics: TopicsWithState, writer: RecordWriter
    ) -> None:
        """Begin without a record.

        Args:
            writer: Writes a producer's record again where a record that was read hides it.
        """
        self._known = producers
        self._in_use = producers.in_use
        self._topics = topics
        self._writer = writer

    def read(
        self, key: ProducerKey, record: bytes, write_time: float, position: int | None
    ) -> None:
        """Apply the next record; see `Producers.restore`."""
        writer = self._writer
        following = writer.position + 1 if position is None else position
        writer.position = max(writer.position, following)
        kept_record = KeptRecord(record, write_time, writer.position, encoding.read_head(record))
        producer = self._in_use.get(key)
        if producer is not None:
            if kept_record.head.epoch < producer.epoch:
                self._read_older(key, kept_record)
                if producer.record.written and not producer.record.unread:
                    writer.write(key, producer)  # or it would be lost to the older epoch
                return
            if kept_record.head.epoch > producer.epoch:
                self._in_use.supersede(key)
            elif not self._learn(producer, key, kept_record):
                return
        elif key not in self._known.kept:
            self._topics.add(key.topic)
        self._known.add_record(key, kept_record, is_last=position != 0)

    def _read_older(self, key: ProducerKey, record: KeptRecord) -> None:
        """Find out whether a decision counts that is read when its producer has a newer epoch."""
        previous_state = self._in_use.of(key, record.head.epoch)
        if previous_state is None:
            return
        if previous_state.record.fences.is_void(record.head):
            previous_state.record.fences.leave_out(record.head, record.position)
            return
        previous_state.record.fences.take(record.head, record.position)
        if self._writer.has_written(record.head):
            self._writer.confirm(record.head)

    def _learn(self, producer: Producer, key: ProducerKey, record: KeptRecord) -> bool:
        """Apply a record to a producer that is in use here; return whether it takes its place."""
        if producer.record.fences.is_void(record.head):
            self._ignore_void(producer, key, record)
            return False
        producer.record.fences.take(record.head, record.position)
        if self._writer.has_written(record.head):
            self._learn_own(producer, key, record)
            return False
        return self._learn_other(producer, key, record)

    def _learn_own(self, producer: Producer, key: ProducerKey, record: KeptRecord) -> None:
        """Apply a record that was written here."""
        producer.record.read_own(record.head, record.position)
        self._writer.confirm(record.head)
        # It was written before the records of others at that time were read, and hides them.
        hides = producer.record.is_hidden_by(record.head)
        if not hides and not producer.batches.await_lost:
            return
        written_state = self._known.decode(record)
        producer.confirm(written_state.batches)  # the sequence numbers may have been reused since
        if hides and encoding.is_ahead(producer, written_state):
            self._writer.write(key, producer)

    def _learn_other(self, producer: Producer, key: ProducerKey, record: KeptRecord) -> bool:
        """Apply a record of another gateway; return whether it takes the producer's place."""
        theirs = self._known.decode(record)
        is_newer = producer.record.is_known_to(record.head) or self._writer.is_fencing(producer)
        if (is_newer or record.head.fences) and producer.is_of_other_topic(theirs.topic_id):
            self._in_use.remove_newest(key)  # the topic was created again
            return True
        if record.head.fences:
            producer.take_over(theirs.decisions)
            producer.record.written = record.used
            producer.record.read_other(record.position)
        else:
            self._merge(producer, key, theirs, record, is_newer=is_newer)
        return False

    def _merge(
        self,
        producer: Producer,
        key: ProducerKey,
        theirs: Producer,
        record: KeptRecord,
        *,
        is_newer: bool,
    ) -> None:
        is_complete = producer.learn(theirs.decisions, is_newer=is_newer)
        if is_complete:
            producer.record.written = max(producer.record.written, record.used)
        producer.record.read_other(record.position)
        if not is_complete and encoding.is_ahead(producer, theirs):
            # The other gateway had older state; the last record in the topic wins.
            self._writer.write(key, producer)

    def _ignore_void(self, producer: Producer, key: ProducerKey, record: KeptRecord) -> None:
        """Ignore the decision of a record that does not count; it must not stay the last record."""
        producer.record.fences.leave_out(record.head, record.position)
        if self._writer.has_written(record.head):
            producer.record.read_own(record.head, record.position)
            producer.record.agreed_at = None
        else:
            producer.record.position = record.position
            producer.learn_of_letters(self._known.decode(record).batches)
        if not producer.record.unread:
            self._writer.write(key, producer)

"""The records of producers that are not in use here, as they were read: nothing is decoded.

A record has the position up to which its writer had read the topic. So it is known which earlier
records of the same producer it takes into account: it replaces these. Others were written at the
same time by another gateway, and stay next to it until the producer is used and they are merged.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from penstock.gateway.produce.producer_state.records.fences import Fences

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
    from penstock.gateway.produce.producer_state.records.fences import Head

log = structlog.get_logger()

UNREAD: Final = 2**63
"""After every position of a topic."""
KEPT_MAX_BYTES: Final = 256 * 2**20
CONCURRENT_MAX: Final = 4
"""The most records of one producer: from that many gateways at the same time."""
_OVERHEAD_BYTES: Final = 500
"""The memory that a record takes besides its value."""
_WARN_EVERY_S: Final = 60.0


class KeptRecord(NamedTuple):
    """A record.

    Attributes:
        used: When it was written, in seconds since the epoch.
        position: The position after it in the topic; `UNREAD` if it has not been read there.
        head: The part of it that can be read without decoding all of it.
    """

    value: bytes
    used: float
    position: int
    head: Head


class KeptRecords:
    """Records by producer, the least recently written first, within a limit of memory.

    Attributes:
        bytes: The memory that they take, about.
        evicted: How many producers' records were removed for lack of memory.
        forgotten_used: When the latest record was written that is not known here any more.
    """

    def __init__(self, max_bytes: int) -> None:
        """Make an empty table.

        Args:
            max_bytes: The most memory.
        """
        self._max_bytes = max_bytes
        self._records: OrderedDict[ProducerKey, tuple[KeptRecord, ...]] = OrderedDict()
        self._concurrent: dict[ProducerKey, None] = {}
        self._fences: dict[ProducerKey, tuple[int, Fences]] = {}
        """Of producers that have void records, which are not kept."""
        self.bytes = 0
        self.evicted = 0
        self.forgotten_used = float("-inf")
        self._warned = float("-inf")

    def __contains__(self, key: ProducerKey) -> bool:
        return key in self._records

    def __len__(self) -> int:
        return len(self._records)

    @property
    def concurrent(self) -> Iterable[ProducerKey]:
        """The producers whose state is not only in their last record in the topic."""
        return self._concurrent

    def add(self, key: ProducerKey, record: KeptRecord) -> None:
        """Add the next record of a producer."""
        old_records = self._records.get(key, ())
        if any(_is_later(old_record.head, record.head) for old_record in old_records):
            if any(old_record.head.epoch > record.head.epoch for old_record in old_records):
                self.mark(key)  # the last record in the topic is not the state
            self._records[key] = tuple(
                old_record._replace(position=record.position)
                if _is_written(old_record, record)
                else old_record
                for old_record in old_records
            )
            return
        fences = self.fences(key, record.head.epoch)
        if fences.is_void(record.head):
            fences.leave_out(record.head, record.position)
            self.keep_fences(key, record.head.epoch, fences)
            self.mark(key)
            return
        self.remove(key)
        if fences.have_void:
            fences.take(record.head, record.position)
            self.keep_fences(key, record.head.epoch, fences)
        beside = [old_record for old_record in old_records if not _replaces(record, old_record)]
        new_records = (*beside[1 - CONCURRENT_MAX :], record)
        self._records[key] = new_records
        self.bytes += _size(new_records)
        if len(new_records) > 1:
            self.mark(key)

    def epoch(self, key: ProducerKey) -> int:
        """Return the latest epoch in the records of a producer."""
        return max((record.head.epoch for record in self._records.get(key, ())), default=0)

    def fences(self, key: ProducerKey, epoch: int) -> Fences:
        """Return which records of a producer's epoch count."""
        known_epoch, known_fences = self._fences.get(key, (epoch, None))
        if known_fences is not None and known_epoch == epoch:
            return known_fences
        fences = Fences()
        for record in self._records.get(key, ()):
            if record.head.epoch == epoch and record.position != UNREAD:
                fences.take(record.head, record.position)
        return fences

    def keep_fences(self, key: ProducerKey, epoch: int, fences: Fences) -> None:
        """Keep which records of a producer's epoch count, if its records do not say it."""
        if fences.have_void:
            self._fences[key] = epoch, fences

    def mark(self, key: ProducerKey) -> None:
        """Record that the last record of a producer in the topic does not say all."""
        self._concurrent[key] = None

    def is_marked(self, key: ProducerKey) -> bool:
        """Whether the last record of a producer in the topic does not say all."""
        return key in self._concurrent

    def remove(self, key: ProducerKey) -> tuple[KeptRecord, ...]:
        """Remove the records of a producer, and return them; oldest first."""
        records = self._records.pop(key, ())
        self._concurrent.pop(key, None)
        self._fences.pop(key, None)
        self.bytes -= _size(records)
        return records

    def expire(self, limit: float) -> list[ProducerKey]:
        """Remove the records that were written before a time; return their producers."""
        expired = []
        while self._records:
            key, records = next(iter(self._records.items()))
            if records[-1].used >= limit:
                break
            self.remove(key)
            expired.append(key)
        return expired

    def evict(self, now: float) -> list[ProducerKey]:
        """Remove records until the memory suffices; return their producers."""
        evicted = []
        while self.bytes > self._max_bytes and self._records:
            key = next(iter(self._records))
            self.forget(self.remove(key)[-1].used)
            evicted.append(key)
        self.count_evicted(len(evicted), now)
        return evicted

    def forget(self, write_time: float) -> None:
        """Record that a record of a time, which may count, is not known any more."""
        self.forgotten_used = max(self.forgotten_used, write_time)

    def count_evicted(self, count: int, now: float) -> None:
        """Count producers whose state was removed for lack of memory, and warn about it."""
        self.evicted += count
        if count and now - self._warned > _WARN_EVERY_S:
            self._warned = now
            log.warning(
                "the state of producers takes too much memory: the oldest is forgotten",
                producers=len(self._records),
                bytes=self.bytes,
                forgotten=self.evicted,
            )


def _size(records: tuple[KeptRecord, ...]) -> int:
    return sum(len(record.value) + _OVERHEAD_BYTES for record in records)


def _is_later(kept_head: Head, new_head: Head) -> bool:
    """Whether a record here was written after a record that has been read now."""
    if kept_head.epoch != new_head.epoch:
        return kept_head.epoch > new_head.epoch
    # The write of a producer that has been replaced may come late; of our own, we have all.
    return kept_head.writer == new_head.writer and kept_head.revision >= new_head.revision > 0


def _is_written(kept_record: KeptRecord, record: KeptRecord) -> bool:
    """Whether a record is the last that was written for a producer whose state is kept."""
    return (
        kept_record.head.writer == record.head.writer
        and kept_record.head.revision == record.head.revision
    )


def _replaces(record: KeptRecord, old_record: KeptRecord) -> bool:
    head = record.head
    return (
        head.epoch > old_record.head.epoch
        or head.fences
        or head.writer == old_record.head.writer
        or head.seen is None
        or old_record.position <= head.seen
    )

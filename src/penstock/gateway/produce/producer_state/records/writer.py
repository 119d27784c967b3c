"""Writes the records of producers, before the batches that they decide about are sent."""

from __future__ import annotations

import uuid
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.gateway.produce.producer_state.records import encoding

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.gateway.produce.producer_state.producer.state_machine import Producer
    from penstock.gateway.produce.producer_state.producers_in_use import ProducersInUse
    from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
    from penstock.gateway.produce.producer_state.records.fences import Head

    Keep = Callable[[ProducerKey, bytes, Callable[[str | None], None]], None]

_OTHERWISE: Final = "another gateway has decided about this producer at the same time"


class RecordWriter:
    """Writes records, and finds out whether they count.

    Attributes:
        position: The position after the last record that was read.
    """

    def __init__(
        self,
        keep: Keep | None,
        in_use: ProducersInUse,
        *,
        now: Callable[[], float],
        is_shared: bool,
    ) -> None:
        """Begin without a record.

        Args:
            keep: Writes a record; see `Producers`. None if no state is kept.
            now: Returns the time in seconds since the epoch.
            is_shared: Whether the records are shared by all gateways, so that they are read back.
        """
        self.position = 0
        self._keep = keep
        self._in_use = in_use
        self._now = now
        self._is_shared = is_shared
        self._name = uuid.uuid4().hex
        self._revisions = 0
        self._fencing: set[int] = set()
        # Whether the records that are being written have been read, and count.
        self._read_back: dict[int, bool] = {}

    @property
    def keeps(self) -> bool:
        """Whether state is kept."""
        return self._keep is not None

    def has_written(self, head: Head) -> bool:
        """Whether a record was written here."""
        return head.writer == self._name

    def write(
        self,
        key: ProducerKey,
        producer: Producer,
        callback: Callable[[str | None], None] = lambda _: None,
        *,
        fences: bool = False,
    ) -> None:
        """Write the state of a producer.

        Args:
            callback: Called with None when it is written, and read back if records are shared; with
                an error message if it is not written, or does not count.
            fences: Whether the record fences (see `fences`).
        """
        if self._keep is None:
            callback(None)
            return
        # Without a fence that is not written, its content would not fence.
        fences = fences or self.is_fencing(producer)
        self._revisions += 1
        revision = self._revisions
        producer.record.write(revision, self._now(), is_read_back=self._is_shared)
        if self._is_shared:
            self._read_back[revision] = False
            if fences:
                self._fencing.add(revision)
            callback = partial(self._written, key, producer, revision, callback)
        self._keep(key, self.encode(producer, fences=fences), callback)
        current = self._in_use.get(key)
        if current is not None and current.epoch > producer.epoch and current.record.written:
            self.write(key, current)  # only the last record is kept

    def _written(
        self,
        key: ProducerKey,
        producer: Producer,
        revision: int,
        callback: Callable[[str | None], None],
        failure: str | None,
    ) -> None:
        if failure is not None:  # others may never read it, and know all there is without it
            for state in (producer, self._in_use.get(key)):
                if state is not None:
                    state.record.not_written(revision)
        if not self._read_back.pop(revision):
            failure = failure or _OTHERWISE
        if revision in self._fencing:
            if failure is None:
                producer.record.begins_unknown = False
            else:
                producer.record.agreed_at = None
        self._fencing.discard(revision)
        callback(failure)

    def is_fencing(self, producer: Producer) -> bool:
        """Whether a record of a producer that fences is being written."""
        return any(unread in self._fencing for unread in producer.record.unread)

    def confirm(self, head: Head) -> None:
        """Record that a record that was written here was read, and counts."""
        if head.revision in self._read_back:
            self._read_back[head.revision] = True

    def encode(self, producer: Producer, *, fences: bool = False) -> bytes:
        """Return the record of a producer's state."""
        revision = producer.record.revision
        return encoding.encode(
            producer, self._name, revision=revision, last_position=self.position, fences=fences
        )

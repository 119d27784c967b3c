"""Records of several source batches in one batch.

Where batches are small, or few records of each are refused, a batch of the target for each would
cost more than all else: a request takes the CPU of a few hundred records, and the target would keep
the crumbs.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from penstock.engine.modes.dead_letters import PREFIXES
from penstock.jobs.batches.targets import OutgoingBatch, fitting, sources_of
from penstock.kafka.records.encoder import NewHeader, encode
from penstock.kafka.records.header import CODEC, HEADER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.jobs.batches.targets import Target
    from penstock.kafka.cluster.ranges import Partition
    from penstock.kafka.records.stored import KeysAndValues
    from penstock.kafka.records.stored_batch import StoredBatch

_BYTES: Final = 256 * 1024
_RECORDS: Final = 10_000
_NEVER: Final = -(2**63)


class RecordBuffer:
    """Records on their way to one partition, in their order."""

    def __init__(self, source: Partition, target: Target) -> None:
        """Prepare.

        Args:
            source: Where the records are read.
            target: Where they are written.
        """
        self._source = source
        self._target = target
        # Incompressible data becomes some bytes larger, and a broker refuses the complete batch.
        most = target.max_message_bytes - HEADER.size
        self._most = min(_BYTES, most - most // 16 - 64)
        self._codec = 0
        self._base: int | None = None
        self._latest = _NEVER
        self.forget()

    def add(
        self,
        batch: StoredBatch,
        positions: Sequence[int],
        *,
        replaced: KeysAndValues | None = None,
        appended: Sequence[Sequence[tuple[str, bytes | None]]] | None = None,
        without: Sequence[str] = (),
        timestamp: int | None = None,
    ) -> Iterator[OutgoingBatch]:
        """Take records of a batch; return the batches that are to be written now.

        Args:
            batch: Where they are from.
            positions: Their positions in it, ascending; at least one.
            replaced: See `StoredBatch.cut`, and so for all that follow.
            appended: Headers that follow their own.
            without: Headers that are left out.

        Raises:
            RefusedBatchError: A record is too large for the target.
        """
        section, latest = self._section(batch, positions, replaced, appended, without, timestamp)
        if self._count and self._bytes + len(section) > self._most:
            yield from self.rest()
            section, latest = self._section(
                batch, positions, replaced, appended, without, timestamp
            )
        if len(section) > self._most:
            yield from fitting(
                self._target,
                self._source.number,
                len(positions),
                lambda start, end: batch.cut(
                    positions[start:end],
                    replaced=replaced,
                    appended=None if appended is None else appended[start:end],
                    without=without,
                    timestamp=timestamp,
                ),
                sources_of(self._source, batch, positions),
            )
            return
        self._base, self._latest = self._base_of(batch, timestamp), max(self._latest, latest)
        self._codec = batch.attributes & CODEC
        if not self._count:
            self._first = sources_of(self._source, batch, positions)(0)
        self._sections.append(section)
        self._bytes += len(section)
        self._count += len(positions)
        if self._count >= _RECORDS:
            yield from self.rest()

    def rest(self) -> Iterator[OutgoingBatch]:
        """Return the records that were taken and not yet returned."""
        if not self._count:
            return
        header = NewHeader(self._codec, self._base or 0, self._latest)
        batch = encode(header, b"".join(self._sections), self._count, fast=True)
        source, partition = self._first, self._source.number % self._target.partitions
        self.forget()
        yield OutgoingBatch(self._target.topic, partition, batch, source)

    def forget(self) -> None:
        """Drop the records that were taken and not yet returned: their transaction is lost."""
        self._sections: list[bytes] = []
        self._bytes = self._count = 0
        self._base = None
        self._latest = _NEVER

    def _section(
        self,
        batch: StoredBatch,
        positions: Sequence[int],
        replaced: KeysAndValues | None,
        appended: Sequence[Sequence[tuple[str, bytes | None]]] | None,
        without: Sequence[str],
        timestamp: int | None,
    ) -> tuple[bytes, int]:
        return batch.section(
            positions,
            self._base_of(batch, timestamp),
            first=self._count,
            replaced=replaced,
            appended=appended,
            without=without,
            timestamp=timestamp,
        )

    def _base_of(self, batch: StoredBatch, timestamp: int | None) -> int:
        """Return the base timestamp: that of the first batch."""
        if self._base is not None:
            return self._base
        return batch.base_timestamp if timestamp is None else timestamp


class DeadLetterBuffer:
    """Dead letters on their way to one partition, in their order."""

    def __init__(
        self, source: Partition, target: Target, clock: Callable[[], float] = time.time
    ) -> None:
        """Prepare.

        Args:
            source: Where the records are read.
            target: Where dead letters are written, with the time of now.
            clock: Returns seconds since the epoch.
        """
        self._clock = clock
        self._buffer = RecordBuffer(source, target)

    def add(
        self,
        batch: StoredBatch,
        positions: Sequence[int],
        appended: Sequence[list[tuple[str, bytes | None]]],
    ) -> Iterator[OutgoingBatch]:
        """Take records of a batch; return the batches that are to be written now.

        Args:
            positions: The positions of the records, ascending.
            appended: For each of them, the headers of a dead letter.

        Raises:
            RefusedBatchError: A record is too large for the target.
        """
        if positions:
            now = int(self._clock() * 1000)
            yield from self._buffer.add(
                batch, positions, appended=appended, without=PREFIXES, timestamp=now
            )

    def rest(self) -> Iterator[OutgoingBatch]:
        """Return the records that were taken and not yet returned."""
        return self._buffer.rest()

    def forget(self) -> None:
        """Drop the records that were taken and not yet returned: their transaction is lost."""
        self._buffer.forget()

"""Records that are written to where they belong: with the bytes of their batch where all of it is.

A large batch that is accepted completely keeps its bytes and its compression. Others are cut:
unchanged parts keep their bytes, and each record its timestamp. The remains of small batches are
merged into larger batches, with the same records: for each a request would take the CPU of a
few hundred records, here and at the broker, and the target would keep the crumbs.

A batch with LogAppendTime is always written again, with the broker's timestamp, which all readers
of the source see. Its bytes still have the producers' timestamps, which no reader sees: a clock
that was wrong there would have retention remove the records of the target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.jobs.batches.buffers import RecordBuffer
from penstock.jobs.batches.targets import OutgoingBatch, fitting, sources_of
from penstock.kafka.client.protocol.produced_batches import BatchSource
from penstock.kafka.records.header import ATTRIBUTES_AT, CODEC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.jobs.batches.targets import Target
    from penstock.kafka.cluster.ranges import Partition
    from penstock.kafka.records.stored import KeysAndValues
    from penstock.kafka.records.stored_batch import StoredBatch

SMALL_BYTES: Final = 64 * 1024
"""Records that take fewer bytes in their batch are buffered."""
_MANY: Final = 500
"""With so many records a request costs less than buffering them, with any compression."""


def kept_records(
    batch: StoredBatch,
    positions: Sequence[int],
    replaced: KeysAndValues | None,
    source: Partition,
    target: Target,
) -> Iterable[OutgoingBatch]:
    """Return records of a batch as they are to be written, in their order.

    Args:
        positions: The positions of the records, ascending.
        replaced: All keys and values of the batch, as interceptors left them; or None.
        source: Where the batch was read.
        target: Where they are written.

    Raises:
        RefusedBatchError: A record is too large for the target.
    """
    is_all = len(positions) == len(batch.records) and replaced is None and batch.is_whole
    # Merged records are not compressed yet: the attributes name the codec of their batches.
    is_all = is_all and batch.data[ATTRIBUTES_AT + 1] & CODEC == batch.attributes & CODEC
    timestamp = batch.max_timestamp if batch.is_log_append_time else None
    if is_all and timestamp is None and len(batch.data) <= target.max_message_bytes:
        partition = source.number % target.partitions
        first = BatchSource(*source, batch.base_offset)
        return (OutgoingBatch(target.topic, partition, batch.data, first),)
    return fitting(
        target,
        source.number,
        len(positions),
        lambda start, end: batch.cut(positions[start:end], replaced=replaced, timestamp=timestamp),
        sources_of(source, batch, positions),
    )


class OutgoingRecords:
    """Records of one source partition on their way to a target, in their order."""

    def __init__(self, source: Partition, target: Target) -> None:
        """Prepare.

        Args:
            source: Where batches are read.
            target: Where records are written.
        """
        self._source = source
        self._target = target
        self._buffer = RecordBuffer(source, target)

    def add(
        self, batch: StoredBatch, positions: Sequence[int], replaced: KeysAndValues | None
    ) -> Iterator[OutgoingBatch]:
        """Take records of a batch; return the batches that are to be written now.

        Args:
            positions: The positions of the records, ascending.
            replaced: As for `kept_records`.

        Raises:
            RefusedBatchError: A record is too large for the target.
        """
        if not len(positions):
            return
        is_large = len(batch.data) * len(positions) >= SMALL_BYTES * len(batch.records)
        if is_large or len(positions) >= _MANY:
            yield from self.rest()
            yield from kept_records(batch, positions, replaced, self._source, self._target)
            return
        timestamp = batch.max_timestamp if batch.is_log_append_time else None
        yield from self._buffer.add(batch, positions, replaced=replaced, timestamp=timestamp)

    def rest(self) -> Iterator[OutgoingBatch]:
        """Return the records that were taken and not yet returned."""
        return self._buffer.rest()

    def forget(self) -> None:
        """Drop the records that were taken and not yet returned: their transaction is lost."""
        self._buffer.forget()

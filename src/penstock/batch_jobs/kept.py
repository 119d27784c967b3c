"""Records that are written to where they belong: with the bytes of their batch where all of it is.

A batch that is accepted as a whole keeps its bytes, compression and all. Others are cut: what is
not replaced keeps its bytes, and each record its timestamp.

A batch with LogAppendTime is always written anew, with the broker's timestamp, which all readers of
the source see. In its bytes are still the producers', which nobody sees: a clock that was wrong
there would have retention remove the records of the target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.batch_jobs.targets import OutgoingBatch, fitting
from penstock.client.produced_batches import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.batch_jobs.targets import Target
    from penstock.records.stored import KeysAndValues
    from penstock.records.stored_batch import StoredBatch


class SourcePartition(NamedTuple):
    """The source of batches.

    Attributes:
        topic: Its name.
        partition: Its number.
    """

    topic: str
    partition: int

    def of(self, batch: StoredBatch, positions: Sequence[int]) -> Callable[[int], Source]:
        """Return the function that says where some records of a batch were read.

        Args:
            batch: The batch.
            positions: The positions of the records in it.
        """
        return lambda index: Source(self.topic, self.partition, batch.offsets[positions[index]])


def kept_records(
    batch: StoredBatch,
    positions: Sequence[int],
    replaced: KeysAndValues | None,
    source: SourcePartition,
    target: Target,
) -> Iterable[OutgoingBatch]:
    """Return records of a batch as they are to be written, in their order.

    Args:
        batch: The batch.
        positions: The positions of the records, ascending.
        replaced: All keys and values of the batch, as interceptors left them; or None.
        source: Where the batch was read.
        target: Where they are written.

    Raises:
        RefusedBatchError: A record is too large for the target.
    """
    is_all = len(positions) == len(batch.records) and replaced is None and batch.is_whole
    timestamp = batch.max_timestamp if batch.is_log_append_time else None
    if is_all and timestamp is None and len(batch.data) <= target.max_message_bytes:
        partition = source.partition % target.partitions
        first = Source(source.topic, source.partition, batch.base_offset)
        return (OutgoingBatch(target.topic, partition, batch.data, first),)
    return fitting(
        target,
        source.partition,
        len(positions),
        lambda start, end: batch.cut(positions[start:end], replaced=replaced, timestamp=timestamp),
        source.of(batch, positions),
    )

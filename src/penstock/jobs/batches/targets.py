"""Topics that tasks write to, and batches on their way there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.kafka.client.protocol.produced_batches import BatchSource
from penstock.kafka.client.protocol.write_errors import RefusedBatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.kafka.cluster.ranges import Partition
    from penstock.kafka.records.stored_batch import StoredBatch


class Target(NamedTuple):
    """A topic that is written to.

    Attributes:
        partitions: How many it has: records keep the number of their partition, modulo that.
        max_message_bytes: Its `max.message.bytes`: the size of its largest batch.
    """

    topic: str
    partitions: int
    max_message_bytes: int


class OutgoingBatch(NamedTuple):
    """A batch to be written; the arguments of `Writer.write`.

    Attributes:
        batch: Of magic 2 and intact: as it was read, or rebuilt.
        source: Where its first record was read.
    """

    topic: str
    partition: int
    batch: bytes | memoryview
    source: BatchSource


def sources_of(
    partition: Partition, batch: StoredBatch, positions: Sequence[int]
) -> Callable[[int], BatchSource]:
    """Return the function that returns where some records of a batch were read.

    Args:
        partition: Where the batch was read.
        positions: The positions of the records in it.
    """
    return lambda index: BatchSource(*partition, batch.offsets[positions[index]])


def fitting(
    target: Target,
    partition: int,
    count: int,
    cut: Callable[[int, int], bytes],
    source: Callable[[int], BatchSource],
    *,
    too_large: Callable[[int], None] | None = None,
) -> Iterator[OutgoingBatch]:
    """Return records as one batch, or as several where one would be too large for the target.

    Args:
        target: Where they are written.
        partition: A number of a partition, perhaps larger than the target's.
        count: How many records.
        cut: Returns a batch of the records from one position to before another.
        source: Returns where the record at a position was read.
        too_large: Called for each record that alone is too large, and is left out.

    Raises:
        RefusedBatchError: One record alone is too large, and nothing is called for it.
    """
    partition %= target.partitions
    pending_spans = [(0, count)] if count else []
    while pending_spans:
        start, end = pending_spans.pop()
        batch = cut(start, end)
        if len(batch) <= target.max_message_bytes:
            yield OutgoingBatch(target.topic, partition, batch, source(start))
        elif end - start > 1:
            middle = (start + end) // 2
            pending_spans += [(middle, end), (start, middle)]
        elif too_large is not None:
            too_large(start)
        else:
            raise RefusedBatchError(
                f"topic {target.topic}, partition {partition}: the record from {source(start)} "
                f"takes {len(batch)} bytes, more than the target's max.message.bytes "
                f"({target.max_message_bytes}): raise it"
            )

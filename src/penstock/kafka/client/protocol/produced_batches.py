"""Batches on their way to a partition: whether they can be written, and by which producer.

A broker accepts a batch of magic 2 with base offset 0, without gaps between its records, with the
timestamp type CreateTime, and with the id, epoch and sequence of its producer (LogValidator.java).
All of that is in the header, which `penstock.kafka.records.header.as_produced` rewrites. A batch
in which compaction left gaps has to be rebuilt (`penstock.kafka.records.stored_batch`); control
batches have no records of users, and are never written.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from penstock.errors import MalformedError
from penstock.kafka.records.header import (
    ATTRIBUTES_AT,
    CONTROL,
    COUNT_AT,
    HEADER,
    LAST_DELTA_AT,
    LENGTH_AT,
    MAGIC,
    MAGIC_AT,
    PREFIX_BYTES,
    is_intact,
)

_INT32: Final = Struct(">i")


class UnwritableBatch(MalformedError):  # noqa: N818 - a fact about the batch
    """A batch that no broker would accept. The message has its origin and the reason."""


class BatchSource(NamedTuple):
    """Where a batch was read, for errors.

    Attributes:
        offset: The offset of the batch's first record; negative for a batch of Penstock's own.
    """

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        if self.offset < 0:
            return "Penstock"
        return f"{self.topic}, partition {self.partition}, offset {self.offset}"


def record_count(batch: bytes | memoryview, source: BatchSource) -> int:
    """Return how many records a batch has, after checking that it can be written.

    The checksum is checked here, because it is computed again: damage would not be seen afterwards.

    Args:
        batch: A complete batch.
        source: Its origin, for errors.

    Raises:
        UnwritableBatch: It is not exactly one batch of magic 2, it is damaged, it has gaps, or
            it is a control batch.
    """
    size = len(batch)
    if size < HEADER.size or batch[MAGIC_AT] != MAGIC:
        raise UnwritableBatch(f"{source}: not a record batch of magic 2")
    if _INT32.unpack_from(batch, LENGTH_AT)[0] + PREFIX_BYTES != size:
        raise UnwritableBatch(f"{source}: not exactly one record batch")
    if not is_intact(memoryview(batch)):
        raise UnwritableBatch(f"{source}: the batch does not match its checksum")
    if batch[ATTRIBUTES_AT + 1] & CONTROL:
        raise UnwritableBatch(f"{source}: a control batch, which clients may not write")
    (last_delta,) = _INT32.unpack_from(batch, LAST_DELTA_AT)
    (count,) = _INT32.unpack_from(batch, COUNT_AT)
    if count < 1 or last_delta + 1 != count:
        raise UnwritableBatch(
            f"{source}: {count} records at {last_delta + 1} offsets; compaction left gaps, and the "
            "batch has to be rebuilt"
        )
    return int(count)

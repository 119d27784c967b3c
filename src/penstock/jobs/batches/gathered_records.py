"""Single records on their way to topics, gathered in batches by partition."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aiokafka.partitioner import murmur2

from penstock.jobs.batches.targets import fitting
from penstock.kafka.client.protocol.write_errors import RefusedBatchError
from penstock.kafka.records.builder import build
from penstock.kafka.records.encoder import NewHeader, encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.jobs.batches.targets import OutgoingBatch, Target
    from penstock.kafka.client.protocol.produced_batches import BatchSource

_BATCH_BYTES: Final = 256 * 1024
_HELD_BYTES: Final = 32 * 2**20
_RECORD_BYTES: Final = 32
_KEYS_CACHED: Final = 65_536
_POSITIVE: Final = 0x7FFFFFFF


class GatheredRecord(NamedTuple):
    """A record to be written.

    Attributes:
        headers: Its headers: pairs of a key and a value.
        timestamp: In ms.
        source: Where it was read, for errors.
    """

    key: bytes | None
    value: bytes | None
    headers: Sequence[Any]
    timestamp: int
    source: BatchSource

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        headers = sum(len(key) + len(value or b"") for key, value in self.headers)
        return _RECORD_BYTES + len(self.key or b"") + len(self.value or b"") + headers


class GatheredRecords:
    """Records of topics that wait for others; their bytes are bounded."""

    def __init__(self, *, codec: int = 0) -> None:
        """Prepare.

        Args:
            codec: Kafka's number of the compression codec.
        """
        self._codec = codec
        self._records: dict[tuple[Target, int], list[GatheredRecord]] = {}
        self._sizes: Counter[tuple[Target, int]] = Counter()
        self._full: set[tuple[Target, int]] = set()
        self._held_bytes = 0

    def add(self, target: Target, partition: int, records: Sequence[GatheredRecord]) -> None:
        """Take records of one partition.

        Args:
            partition: A partition of the topic.
            records: The records, in their order.

        Raises:
            RefusedBatchError: A header has no key.
        """
        for record in records:
            if any(key is None for key, _ in record.headers):
                raise RefusedBatchError(
                    f"the record from {record.source} has a header without a key, which no topic "
                    "can have"
                )
        if not records:
            return
        where, size = (target, partition), sum(record.size for record in records)
        self._records.setdefault(where, []).extend(records)
        self._sizes[where] += size
        self._held_bytes += size
        if self._sizes[where] >= _BATCH_BYTES:
            self._full.add(where)

    def full(self) -> Iterator[OutgoingBatch]:
        """Return the batches that are to be written now.

        Raises:
            RefusedBatchError: A record is too large for its target.
        """
        while self._full:
            yield from self._written(self._full.pop())
        if self._held_bytes >= _HELD_BYTES:
            yield from self.rest()

    def rest(self) -> Iterator[OutgoingBatch]:
        """Return batches of all waiting records; raises as `full`."""
        for where in list(self._records):
            yield from self._written(where)

    def _written(self, where: tuple[Target, int]) -> Iterator[OutgoingBatch]:
        records = self._records.pop(where)
        self._held_bytes -= self._sizes.pop(where)
        self._full.discard(where)
        target, partition = where

        def encoded(start: int, end: int) -> bytes:
            keys, values, headers, timestamps, _ = zip(*records[start:end], strict=True)
            base = timestamps[0]
            listed = ([(key, value) for key, value in own] for own in headers)
            section = build(base, timestamps, keys, values, listed)
            header = NewHeader(self._codec, base, max(timestamps))
            return encode(header, section, end - start, fast=True)

        return fitting(
            target, partition, len(records), encoded, lambda index: records[index].source
        )


def partition_for(number: int | None, key: bytes | None, *, spread: int, partitions: int) -> int:
    """Return the partition of a record in a target.

    Args:
        number: The number of its partition in its source, which it keeps modulo the target's.
        key: Without a number, its key selects, as in the Java client.
        spread: Without either, this number modulo the target's.
        partitions: How many partitions the target has.
    """
    if number is not None:
        return number % partitions
    return (spread if key is None else _number_of(key)) % partitions


@lru_cache(maxsize=_KEYS_CACHED)
def _number_of(key: bytes) -> int:
    """Return the number that the Java client's partitioner takes modulo the partitions."""
    return int(murmur2(key)) & _POSITIVE

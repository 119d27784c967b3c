"""Records of topics as rows, and rows that are written to topics."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from penstock.jobs.batches.gathered_records import GatheredRecord, GatheredRecords, partition_for
from penstock.jobs.batches.task import TaskLimits, read_batch
from penstock.jobs.rows.records import RecordRow
from penstock.jobs.tasks.retention import RecordsLostError
from penstock.kafka.client.protocol.produced_batches import BatchSource
from penstock.kafka.client.reading.offset_ranges import WantedRange
from penstock.kafka.client.reading.reader import RangeReader
from penstock.kafka.client.writing.idempotent_pipeline import idempotent_pipeline
from penstock.kafka.client.writing.limits import WriterLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from uuid import UUID

    from penstock.jobs.batches.targets import Target
    from penstock.kafka.client.connections.connection import Connection
    from penstock.kafka.client.reading.offset_ranges import LostOffsets
    from penstock.kafka.cluster.ranges import OffsetRange

_SPREAD_EVERY: Final = 1000
"""So many records without a partition and a key follow each other in one partition."""


def read_topics(
    connection: Connection,
    ranges: Iterable[OffsetRange],
    topic_ids: Mapping[str, UUID],
    *,
    max_decompressed_bytes: int,
) -> Iterator[RecordRow]:
    """Read the records of topics, a partition after the other.

    Args:
        connection: To the cluster.
        ranges: The ranges to read.
        max_decompressed_bytes: The size of the largest batch, decompressed, that is read.

    Raises:
        ClientError: The cluster cannot be reached in time, or refuses.
        RecordsLostError: Records were removed before they were read.
        UnreadableBatchError: A batch is damaged.
    """
    limits = TaskLimits(max_decompressed_bytes=max_decompressed_bytes)
    for offset_range in ranges:
        offsets = WantedRange(*offset_range, topic_ids[offset_range.topic])
        for fetched in RangeReader(connection, offsets, on_lost=_raise_lost):
            batch = read_batch(fetched, offsets, limits)
            if batch.is_control:
                continue
            records, kind = batch.records, int(batch.is_log_append_time)
            columns = (
                batch.offsets, records.timestamps, records.keys, records.values, records.headers
            )  # fmt: skip
            for offset, timestamp, key, value, headers in zip(*columns, strict=True):
                yield RecordRow(
                    offsets.topic, offsets.partition, offset, timestamp, kind, key, value, headers
                )


def _raise_lost(gap: LostOffsets) -> None:
    raise RecordsLostError(
        f"{gap.topic}-{gap.partition}: the offsets from {gap.first} up to {gap.end} were "
        "removed before they were read (retention)"
    )


class TopicSink:
    """Writes rows to topics, each at least once."""

    def __init__(
        self,
        connection: Connection,
        targets: Mapping[str, Target],
        letters: Collection[str],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Get a producer.

        Args:
            connection: To the cluster.
            targets: Topics by the names of sinks.
            letters: The sinks of dead letters, which get the current time.
            clock: Returns seconds since the epoch.

        Raises:
            ClientError: The cluster does not respond in time, or denies it.
        """
        self._targets = targets
        self._letters = letters
        self._clock = clock
        self._waiting = GatheredRecords()
        self._written: Counter[str] = Counter()
        self._pipeline = idempotent_pipeline(connection, WriterLimits())

    def add(self, sink: str, row: RecordRow) -> None:
        """Write a row soon.

        Raises:
            RefusedBatchError: The record is too large, has a header without a key, or the broker
                refuses it or an earlier record.
            ClientError: Records could not be stored in time, or it is denied.
        """
        target, timestamp = self._targets[sink], row.timestamp
        if timestamp is None or sink in self._letters:
            timestamp = int(self._clock() * 1000)
        spread = self._written[sink] // _SPREAD_EVERY
        self._written[sink] += 1
        partition = partition_for(
            row.partition, row.key, spread=spread, partitions=target.partitions
        )
        source = BatchSource(row.topic or target.topic, row.known_partition, row.known_offset)
        record = GatheredRecord(row.key, row.value, row.headers, timestamp, source)
        self._waiting.add(target, partition, [record])
        for outgoing in self._waiting.full():
            self._pipeline.put(*outgoing)

    def flush(self) -> None:
        """Wait until all rows are stored; raises as `add`."""
        for outgoing in self._waiting.rest():
            self._pipeline.put(*outgoing)
        self._pipeline.flush()

    def close(self) -> None:
        """Give up what is not stored."""
        self._pipeline.abandon()

"""Records that a dead letter is about, read where they are stored.

Share groups (KIP-1191) write letters without the headers of their records, and without keys and
values unless `errors.deadletterqueue.copy.record.enable` is true.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from penstock.jobs.batches.task import ignore, read_batch
from penstock.kafka.client.errors import ClientError, ResponseError
from penstock.kafka.client.protocol.log_offsets import EARLIEST, LATEST, LogPartition, list_offset
from penstock.kafka.client.reading.offset_ranges import WantedRange
from penstock.kafka.client.reading.reader import RangeReader
from penstock.kafka.wire.errors import UNKNOWN_TOPIC_OR_PARTITION

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from penstock.jobs.batches.task import TaskLimits
    from penstock.kafka.client.connections.connection import Connection
    from penstock.kafka.records.stored_batch import StoredBatch
    from penstock.policy import Header

_GAP: Final = 500
"""Records that are further apart are read by different requests."""


class Original(NamedTuple):
    """A record.

    Attributes:
        timestamp: In ms.
    """

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]


class Originals(Protocol):
    """Reads records, as `StoredOriginals` does."""

    def __call__(
        self, topic: str, partition: int, offsets: Sequence[int]
    ) -> Mapping[int, Original]:
        """Return the records at some offsets of a partition, as far as they are still there.

        Args:
            topic: The topic, which need not exist any more.
            offsets: Ascending, at least one.

        Raises:
            ClientError: The cluster does not respond in time, or denies it.
        """


class StoredOriginals:
    """Reads records of a cluster."""

    def __init__(self, connection: Connection, limits: TaskLimits) -> None:
        """Prepare; nothing is contacted.

        Args:
            connection: To the cluster.
            limits: Of a batch that is read.
        """
        self._connection = connection
        self._limits = limits

    def __call__(
        self, topic: str, partition: int, offsets: Sequence[int]
    ) -> Mapping[int, Original]:
        """Return the records; see `Originals`."""
        # Anybody who writes letters chooses offsets: a reader would wait for those that come yet.
        start, end = self._bounds(LogPartition(topic, partition))
        stored_offsets = frozenset(offset for offset in offsets if start <= offset < end)
        originals: dict[int, Original] = {}
        for first, last in spans(sorted(stored_offsets)):
            offsets_of = WantedRange(topic, partition, first, last + 1)
            for fetched in RangeReader(self._connection, offsets_of, on_lost=ignore):
                batch = read_batch(fetched, offsets_of, self._limits)
                if not batch.is_control:
                    originals |= _picked(batch, stored_offsets)
        return originals

    def _bounds(self, partition: LogPartition) -> tuple[int, int]:
        """Return the first offset and that after the last; none for what does not exist."""
        connection, retries = self._connection, self._connection.retries()
        while True:
            try:
                # It may have been created again since it was last described.
                connection.topic(partition.topic, refresh=True)
                leader = connection.leader(partition.topic, partition.number)
                start = list_offset(connection, leader, partition, EARLIEST)
                return start, list_offset(connection, leader, partition, LATEST)
            except ClientError as error:
                if isinstance(error, ResponseError) and error.code == UNKNOWN_TOPIC_OR_PARTITION:
                    return 0, 0
                retries.after(error)


def _picked(batch: StoredBatch, offsets: Collection[int]) -> Mapping[int, Original]:
    records = batch.records
    fields = zip(
        batch.offsets,
        records.timestamps,
        records.keys,
        records.values,
        records.headers,
        strict=True,
    )
    return {
        offset: Original(timestamp, key, value, headers)
        for offset, timestamp, key, value, headers in fields
        if offset in offsets
    }


def spans(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Return the first and the last offsets of groups that are read together.

    Args:
        offsets: Ascending.
    """
    first = last = None
    for offset in offsets:
        if first is None or last is None:
            first = offset
        elif offset - last > _GAP:
            yield first, last
            first = offset
        last = offset
    if first is not None and last is not None:
        yield first, last

"""Looks whether records of a source are in a target already: then a job has written them before."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from penstock.jobs.batches.task import TaskLimits, ignore, read_batch
from penstock.kafka.client.reading.offset_ranges import WantedRange
from penstock.kafka.client.reading.reader import RangeReader
from penstock.kafka.cluster.ranges import Partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.kafka.client.connections.connection import Connection
    from penstock.kafka.cluster.offsets import Cluster, Topic
    from penstock.kafka.cluster.ranges import OffsetRange as Range

_PARTITIONS: Final = 3
"""In so many partitions of the source the first records are searched."""
_RECORDS: Final = 200
"""So many of each: the very first may have been refused."""
_LOOKED_AT: Final = 10_000
"""Among so many records of the source; and in so many offsets of the target, after the time of the
first of them."""
_Mark = tuple[int, bytes | None, bytes | None]


def find_written(
    connection: Connection,
    cluster: Cluster,
    ranges: Iterable[Range],
    target: Topic,
    *,
    rewritten: bool = False,
) -> Partition | None:
    """Return a partition of a source whose first records are in a target; None if none is found.

    Records keep their timestamp, key and value on their way there. A few are read of each side, so
    None does not prove that nothing was written: a target with `LogAppendTime` has other
    timestamps, and retention may have removed the records.

    Args:
        connection: To the cluster.
        ranges: The ranges of the source to read.
        target: The topic to write to.
        rewritten: Whether values may have changed on their way: keys have to be the same then.

    Raises:
        ClientError: The cluster cannot be reached in time, or refuses.
        ClusterError: Likewise.
        UnreadableBatchError: A batch is damaged.
    """
    ends = cluster.end_offsets([target])
    for source_range in islice((some for some in ranges if some.offsets), _PARTITIONS):
        looked_at = islice(_marks(connection, source_range, rewritten=rewritten), _LOOKED_AT)
        source_marks = set(islice((mark for mark in looked_at if mark is not None), _RECORDS))
        if not source_marks:
            continue
        there = Partition(target.name, source_range.partition % len(target.partitions))
        first = cluster.offsets_since([target], min(time for time, _, _ in source_marks))[there]
        if first < 0:
            continue
        end = min(ends[there], first + _LOOKED_AT)
        there_at = type(source_range)(there.topic, there.number, first, end)
        if any(mark in source_marks for mark in _marks(connection, there_at, rewritten=rewritten)):
            return source_range.of
    return None


def _marks(
    connection: Connection, record_range: Range, *, rewritten: bool
) -> Iterator[_Mark | None]:
    """Return what each record is known by: its timestamp, key and value.

    It is None for a record without a timestamp (-1), and for a record without a key that may have
    been rewritten.
    """
    offsets = WantedRange(*record_range)
    for fetched in RangeReader(connection, offsets, on_lost=ignore):
        batch = read_batch(fetched, offsets, TaskLimits())
        if batch.is_control:
            continue
        records = batch.records
        of_log = [batch.max_timestamp] * len(records) if batch.is_log_append_time else None
        for time, key, value in zip(
            of_log or records.timestamps, records.keys, records.values, strict=True
        ):
            if time < 0 or (rewritten and key is None):
                yield None
            else:
                yield time, key, None if rewritten else value

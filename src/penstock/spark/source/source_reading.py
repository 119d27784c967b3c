"""What a task of `format("penstock")` does in Spark's Python workers: ranges in, rows out."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from penstock.client.reading.batches import read_fetched_batch
from penstock.client.reading.reader import RangeReader
from penstock.engine.stored_columns import StoredColumns
from penstock.records.errors import UnreadableRecords
from penstock.spark.execution.failures import SparkError
from penstock.spark.source.source_rows import RowBatches
from penstock.stored.evaluation import evaluator_of, task_ended
from penstock.stored.plan import MAX_DECOMPRESSED_BYTES
from penstock.stored.tasks.tasks import Limit, plan_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from uuid import UUID

    import pyarrow as pa

    from penstock.client.reading.batches import FetchedBatch
    from penstock.client.reading.reader import LostOffsets, WantedRange
    from penstock.cluster.ranges import OffsetRange
    from penstock.engine.verdict import Verdict
    from penstock.records.stored_batch import StoredBatch
    from penstock.stored.access import ClusterAccess
    from penstock.stored.plan import RecordPlan
    from penstock.stored.tasks.tasks import Sizes, Task


class SourceError(SparkError):
    """Records cannot be read: they are not there any more, or damaged."""


class SourceTask(InputPartition):
    """Some offset ranges, with the ids of their topics."""

    def __init__(self, task: Task, topic_ids: Mapping[str, UUID]) -> None:
        topics = dict.fromkeys(offset_range.topic for offset_range in task.ranges)
        self.ranges = tuple(task.wanted(topic_ids))
        super().__init__(
            f"{sum(offset_range.offsets for offset_range in task.ranges)} offsets of {len(topics)}"
        )


def source_tasks(
    ranges: Sequence[OffsetRange], topic_ids: Mapping[str, UUID], sizes: Sizes, least: int | None
) -> list[InputPartition]:
    """Cut ranges into tasks; a partition can be cut, its parts are in no order.

    Args:
        ranges: What is to be read.
        topic_ids: By topic.
        sizes: How large the records are.
        least: The number of tasks that is aimed at, at least; None for a number by their size.
    """
    limit = None
    if least is not None:
        limit = Limit(
            max(math.ceil(sum(offset_range.offsets for offset_range in ranges) / least), 1)
        )
    # How many cores the executors have is not known here; large ranges are cut by their size.
    cores = os.cpu_count() or 1
    tasks = plan_tasks(ranges, cores=cores, sizes=sizes, limit=limit)
    return [SourceTask(task, topic_ids) for task in tasks]


@dataclass(frozen=True)
class SourceReading:
    """Reads and judges the records of a task.

    Attributes:
        access: The cluster.
        plan: The policies; None to judge nothing.
        columns: The names of the columns that are wanted.
        fails_on_loss: Whether records that were removed before they were read are an error.
    """

    access: ClusterAccess
    plan: RecordPlan | None
    columns: tuple[str, ...]
    fails_on_loss: bool

    def read(self, task: SourceTask) -> Iterator[pa.RecordBatch]:
        """Return the rows of a task, in the order of its ranges and their offsets.

        Raises:
            ConfigurationError: The policies cannot be loaded here, or no connection be made.
            ClientError: The cluster cannot be reached in time, or refuses.
            SourceError: Records were removed, or cannot be read.
            UnreadableBatchError: It cannot be said where a damaged batch ends.
        """
        connection = self.access.connect()
        evaluator = None if self.plan is None else evaluator_of(self.plan)
        largest = MAX_DECOMPRESSED_BYTES if self.plan is None else self.plan.max_decompressed_bytes
        rows = RowBatches(self.columns)
        for wanted in task.ranges:
            for fetched in RangeReader(connection, wanted, on_lost=self._on_lost):
                batch = _stored(wanted, fetched, largest)
                if not len(batch.records):
                    continue
                verdicts: Sequence[tuple[int, Verdict]] = ()
                if evaluator is not None:
                    columns = StoredColumns(batch.records)
                    found = evaluator.judge_records(wanted.topic, wanted.partition, columns)
                    verdicts = found.verdicts
                yield from rows.add(wanted.topic, wanted.partition, batch, verdicts)
        yield from rows.rest()
        task_ended()

    def _on_lost(self, lost: LostOffsets) -> None:
        if self.fails_on_loss:
            raise SourceError(
                f"{lost.topic}-{lost.partition}: the offsets from {lost.first} up to {lost.end} "
                "were removed before they were read (retention); with failOnDataLoss=false they "
                "are left out"
            )


def _stored(wanted: WantedRange, fetched: FetchedBatch, max_decompressed_bytes: int) -> StoredBatch:
    try:
        return read_fetched_batch(fetched, max_decompressed_bytes=max_decompressed_bytes)
    except UnreadableRecords as wrong:
        raise SourceError(
            f"{wanted.topic}-{wanted.partition}: the batch at offset {fetched.first} cannot be "
            f"read: {wrong.message}"
        ) from None

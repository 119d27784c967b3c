"""What a task that reads topics does in Spark's Python workers: ranges in, rows out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.engine.stored_columns import StoredColumns
from penstock.jobs.evaluation import evaluator_of, task_ended
from penstock.jobs.plan import MAX_DECOMPRESSED_BYTES
from penstock.kafka.client.reading.batches import read_fetched_batch
from penstock.kafka.client.reading.reader import RangeReader
from penstock.kafka.records.errors import UnreadableRecords
from penstock.spark.execution.failures import SparkError
from penstock.spark.source.rows import RowBatches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from penstock.engine.verdict import PolicyVerdict
    from penstock.jobs.plan import RecordPlan
    from penstock.jobs.topics.access import ClusterAccess
    from penstock.kafka.client.reading.batches import FetchedBatch
    from penstock.kafka.client.reading.offset_ranges import LostOffsets, WantedRange
    from penstock.kafka.records.stored_batch import StoredBatch


class SourceError(SparkError):
    """Records cannot be read: they are not there any more, or damaged."""


@dataclass(frozen=True)
class SourceReading:
    """Reads and judges the records of a task.

    Attributes:
        plan: The policies; None to judge nothing.
        columns: The names of the required columns.
        fails_on_loss: Whether records that were removed before they were read are an error.
        max_decompressed_bytes: The size of the largest batch, decompressed, that is read.
    """

    access: ClusterAccess
    plan: RecordPlan | None
    columns: tuple[str, ...]
    fails_on_loss: bool
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES

    def read(self, ranges: Iterable[WantedRange]) -> Iterator[pa.RecordBatch]:
        """Return the rows of some ranges, in their order and that of their offsets.

        Raises:
            ConfigurationError: The policies cannot be loaded here, or no connection be made.
            ClientError: The cluster cannot be reached in time, or refuses.
            SourceError: Records were removed, or cannot be read.
            UnreadableBatchError: The end of a damaged batch is unknown.
        """
        connection = self.access.connect()
        evaluator = None if self.plan is None else evaluator_of(self.plan)
        rows = RowBatches(self.columns)
        for wanted_range in ranges:
            for fetched in RangeReader(connection, wanted_range, on_lost=self._on_lost):
                batch = _stored(wanted_range, fetched, self.max_decompressed_bytes)
                if not len(batch.records):
                    continue
                verdicts: Sequence[tuple[int, PolicyVerdict]] = ()
                if evaluator is not None:
                    columns = StoredColumns(batch.records)
                    record_verdicts = evaluator.judge_records(
                        wanted_range.topic, wanted_range.partition, columns
                    )
                    verdicts = record_verdicts.verdicts
                yield from rows.add(wanted_range.topic, wanted_range.partition, batch, verdicts)
        yield from rows.rest()
        task_ended()

    def _on_lost(self, gap: LostOffsets) -> None:
        if self.fails_on_loss:
            raise SourceError(
                f"{gap.topic}-{gap.partition}: the offsets from {gap.first} up to {gap.end} "
                "were removed before they were read (retention); with failOnDataLoss=false they "
                "are left out"
            )


def _stored(
    wanted_range: WantedRange, fetched: FetchedBatch, max_decompressed_bytes: int
) -> StoredBatch:
    try:
        return read_fetched_batch(fetched, max_decompressed_bytes=max_decompressed_bytes)
    except UnreadableRecords as wrong:
        raise SourceError(
            f"{wanted_range.topic}-{wanted_range.partition}: the batch at offset {fetched.first} "
            f"cannot be read: {wrong.message}"
        ) from None

"""Writes rows of a frame to topics, each at least once: a repeated task writes its rows again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.kafka.client.writing.idempotent_pipeline import idempotent_pipeline
from penstock.kafka.client.writing.limits import WriterLimits
from penstock.spark.sink.rows import OutgoingRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame

    from penstock.jobs.batches.targets import Target
    from penstock.jobs.topics.access import ClusterAccess

SINK: Final = "sink"
_WRITTEN: Final = "written bigint"


@dataclass(frozen=True)
class TopicRows:
    """Writes rows to the topic that each names.

    Attributes:
        targets: Topics, by their names in the column `sink`.
        letters: The names for dead letters, which get the current time.
    """

    access: ClusterAccess
    targets: Mapping[str, Target]
    letters: frozenset[str]

    def write(self, frame: DataFrame) -> int:
        """Write all rows; return how many there are.

        Args:
            frame: Kafka's columns and `sink`. A row keeps the number of its partition, modulo the
                target's. Each of Spark's partitions is written in its order.
        """
        return sum(row[0] for row in frame.mapInArrow(self._run, _WRITTEN).collect())

    def _run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pipeline = idempotent_pipeline(self.access.connect(), WriterLimits())
        outgoing = {
            sink: OutgoingRows(target, None, None, codec=0, retimed=sink in self.letters)
            for sink, target in self.targets.items()
        }
        row_count = 0
        for batch in batches:
            row_count += len(batch)
            for sink, rows in self._by_sink(batch):
                for arguments in outgoing[sink].add(rows):
                    pipeline.put(*arguments)
        for some in outgoing.values():
            for arguments in some.rest():
                pipeline.put(*arguments)
        pipeline.flush()
        yield pa.RecordBatch.from_pydict({"written": pa.array([row_count], pa.int64())})

    def _by_sink(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        sinks = batch.column(batch.schema.get_field_index(SINK))
        for sink in self.targets:
            rows = batch.filter(pc.equal(sinks, sink))
            yield sink, rows.select([name for name in rows.schema.names if name != SINK])

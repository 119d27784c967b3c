"""Writes rows of a frame to topics, each at least once: a repeated task writes its rows again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.jobs.rows.arrow import rows_of
from penstock.jobs.rows.topic_rows import TopicSink

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
        topics, row_count = TopicSink(self.access.connect(), self.targets, self.letters), 0
        try:
            for batch in batches:
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                for sink, row in zip(columns[SINK].to_pylist(), rows_of(columns), strict=True):
                    topics.add(sink, row)
                row_count += len(batch)
            topics.flush()
        finally:
            topics.close()
        yield pa.RecordBatch.from_pydict({"written": pa.array([row_count], pa.int64())})

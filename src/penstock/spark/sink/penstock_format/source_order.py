"""The order of the rows of a frame, if they say which records of topics they are.

Tasks write at the same time, so the records of a partition that several tasks have would change
places in the target, and a compacted topic would keep values that are not the last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow.compute as pc

from penstock.kafka.cluster.ranges import Partition
from penstock.spark.execution.failures import SparkError
from penstock.spark.frames.arrow_records import runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

PLACE: Final = ("topic", "partition", "offset")
"""The columns that say which record a row is."""
_OTHERWISE: Final = "; if the order does not matter, set the option failOnOrderLoss to false"


class OrderLostError(SparkError):
    """Records of a partition would change places."""


class ReadOffsets(NamedTuple):
    """The first and the last offset of a partition that a task has written."""

    first: int
    last: int


class SourceOrder:
    """Checks that the rows of a task are in the order of their offsets, within each partition."""

    def __init__(self, target: str) -> None:
        """Begin a task.

        Args:
            target: The topic that is written to.
        """
        self._target = target
        self.read: dict[Partition, ReadOffsets] = {}
        """The offsets that were seen, by the partition that they are of."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Take the next rows; those without a place have no order.

        Raises:
            OrderLostError: An offset comes after a higher offset of its partition.
        """
        if not set(PLACE) <= set(batch.schema.names):
            return
        topics, partitions, offsets = (batch.column(name) for name in PLACE)
        for start, end, topic, partition in runs(topics, partitions):
            run_offsets = pc.drop_null(offsets.slice(start, end - start)).to_numpy(
                zero_copy_only=False
            )
            if topic is not None and partition >= 0 and len(run_offsets):
                self._add(Partition(topic, partition), run_offsets)

    def _add(self, partition: Partition, offsets: np.ndarray) -> None:
        earlier_offsets = self.read.get(partition)
        last = int(offsets[0]) if earlier_offsets is None else earlier_offsets.last
        steps = np.diff(offsets, prepend=last)
        if (steps < 0).any():
            index = int(np.argmax(steps < 0))
            higher = int(offsets[index - 1]) if index else last
            raise OrderLostError(
                f"topic {self._target}: the rows of {partition} are not in its order (offset "
                f"{offsets[index]} comes after {higher}), and nothing is written: sort the frame "
                f"with sortWithinPartitions({', '.join(map(repr, PLACE))}){_OTHERWISE}"
            )
        first = int(offsets[0]) if earlier_offsets is None else earlier_offsets.first
        self.read[partition] = ReadOffsets(first, int(offsets[-1]))


def check_together(target: str, tasks: Iterable[Mapping[Partition, ReadOffsets]]) -> None:
    """Check that no partition was written by several tasks.

    Args:
        target: The topic that is written to.
        tasks: What each task has written.

    Raises:
        OrderLostError: One was.
    """
    earlier_partitions: set[Partition] = set()
    for task_offsets in tasks:
        for partition in task_offsets:
            if partition in earlier_partitions:
                raise OrderLostError(
                    f"topic {target}: several tasks have records of {partition}, and would write "
                    "them in any order, so nothing is written: read it without minPartitions, and "
                    f"repartition the frame by {PLACE[0]} and {PLACE[1]}{_OTHERWISE}"
                )
        earlier_partitions.update(task_offsets)

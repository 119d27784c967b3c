"""Records of places: where tasks have come to, for the compacted topic that keeps them."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from penstock.kafka.client.positions import short_id
from penstock.kafka.client.protocol.produced_batches import BatchSource
from penstock.kafka.records.header import MAGIC

if TYPE_CHECKING:
    from penstock.kafka.client.positions import Position, PositionTask

_PARTITION: Final = 0


class PlaceRecords:
    """Records of places, as batches that a writer writes with everything else."""

    def __init__(self, topic: str) -> None:
        """Take the name of the topic."""
        self.partition = (topic, _PARTITION)
        self.source = BatchSource(topic, _PARTITION, -1)

    @staticmethod
    def batch(task: PositionTask, position: Position) -> bytes:
        """Return a batch with the single record that has the position of a task."""
        value = {
            "job": task.job,
            "topic": task.topic,
            "topic_id": short_id(task.topic_id),
            "partition": task.partition,
            "offset": position.offset,
            # Counts continue within a run, as long as committed offsets last.
            "metadata": "",
            "run": position.run,
        }
        key, data = task.transactional_id.encode(), json.dumps(value).encode()
        builder = DefaultRecordBatchBuilder(MAGIC, 0, 0, -1, -1, -1, len(key) + len(data) + 1024)
        builder.append(0, int(time.time() * 1000), key, data, [])
        return bytes(builder.build())

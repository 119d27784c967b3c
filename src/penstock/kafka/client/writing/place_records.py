"""Records of places: where tasks have come to, for the compacted topic that keeps them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from penstock.kafka.client.positions import short_id
from penstock.kafka.client.writing.own_records import own_batch, own_source

if TYPE_CHECKING:
    from penstock.kafka.client.positions import Position, PositionTask

_PARTITION: Final = 0


class PlaceRecords:
    """Records of places, as batches that a writer writes with everything else."""

    def __init__(self, topic: str) -> None:
        """Take the name of the topic."""
        self.partition = (topic, _PARTITION)
        self.source = own_source(topic, _PARTITION)

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
        return own_batch([(task.transactional_id.encode(), json.dumps(value).encode())])

"""Records of the log of a copy."""

import uuid

from penstock.kafka.client.positions import PositionTask
from penstock.kafka.client.protocol.produced_batches import record_count
from penstock.kafka.client.writing.place_records import PlaceRecords
from penstock.kafka.cluster.compacted_topic import LogRecord
from penstock.kafka.records.batch import read_batch

ID, OTHER_ID = uuid.UUID(int=7), uuid.UUID(int=8)
TASKS = [PositionTask("redrive-clean", "dead", ID, partition) for partition in range(3)]
RECORDS = PlaceRecords("__penstock_places")


def log_record(task: PositionTask, position: int) -> LogRecord:
    """The record of a place, as it is read back."""
    batch = RECORDS.batch(task, position)
    assert record_count(batch, RECORDS.source) == 1
    records = read_batch(batch, api_version=9, max_decompressed_bytes=1 << 20).records
    return LogRecord(1, records.keys[0], records.values[0])

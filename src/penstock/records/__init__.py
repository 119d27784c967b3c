"""Record batches (magic 2), read within limits and refused in doubt; no I/O."""

from penstock.records.batch import RecordBatch, read_batch
from penstock.records.decoder import SLACK
from penstock.records.errors import UnreadableRecords

__all__ = ["SLACK", "RecordBatch", "UnreadableRecords", "read_batch"]

"""Verdicts of the current micro-batch, kept until the next micro-batch.

Several tables cannot be written in one step. If a stream ends between them, its next start has to
write the same verdicts to the rest, even if the policies have changed, or decide differently.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.spark.frames.hadoop_files import hadoop_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COMPLETE: Final = "_COMPLETE"
"""Created after all files of a folder. Spark's own `_SUCCESS` can be turned off."""


class MicroBatch(NamedTuple):
    """A micro-batch whose rows are not kept.

    Attributes:
        query: The id of the streaming query.
        number: Of the micro-batch.
    """

    query: str
    number: int


class JudgedBatch(NamedTuple):
    """The judged rows of a micro-batch.

    Attributes:
        frame: The records and their verdicts.
        query: The id of the streaming query.
        number: Of the micro-batch.
        attempt: The id of the attempt at it whose verdicts these are: with this id, the records
            and verdicts are the same.
        checkpoint: The checkpoint location.
    """

    frame: DataFrame
    query: str
    number: int
    attempt: str
    checkpoint: str


class JudgedBatches:
    """Folders of Parquet files in the checkpoint of a stream."""

    def __init__(self, checkpoint: str) -> None:
        """Take the checkpoint; nothing is written."""
        self._checkpoint = checkpoint
        self._folder = f"{checkpoint.rstrip('/')}/judged"

    def kept(self, judged_rows: DataFrame, query: str, number: int) -> JudgedBatch:
        """Return the judged rows of a micro-batch: the first complete result.

        Each attempt has a separate folder: if a stream is started while an earlier process
        still runs, neither adds to the other's files. Both use the first complete result.

        Args:
            judged_rows: A frame that judges; it is evaluated only the first time.
            query: The id of the streaming query.
            number: Of the micro-batch. Results of earlier micro-batches, and of other queries, are
                removed.

        Returns:
            The frame as it was then, with its columns of then: other policies may need others.
        """
        spark = judged_rows.sparkSession
        batch = f"{self._folder}/{query}-{number}"
        first = _first_complete(spark, batch)
        if first is None:
            self._remove_others(spark, query, number)
            attempt = uuid.uuid4().hex
            judged_rows.write.parquet(f"{batch}/{attempt}")
            complete, files = hadoop_path(spark, f"{batch}/{attempt}/{_COMPLETE}")
            files.create(complete).close()
            first = _first_complete(spark, batch) or attempt
        frame = spark.read.parquet(f"{batch}/{first}")
        return JudgedBatch(frame, query, number, first, self._checkpoint)

    def _remove_others(self, spark: SparkSession, query: str, number: int) -> None:
        folder, files = hadoop_path(spark, self._folder)
        if not files.exists(folder):
            return
        for status in files.listStatus(folder):
            path = status.getPath()
            folder_query, _, folder_number = path.getName().rpartition("-")
            if (
                folder_query != query
                or not folder_number.isdecimal()
                or int(folder_number) < number
            ):
                files.delete(path, True)


def _first_complete(spark: SparkSession, batch: str) -> str | None:
    """Return the id of the attempt at a micro-batch that was complete first."""
    folder, files = hadoop_path(spark, batch)
    if not files.exists(folder):
        return None
    attempts = []
    for status in files.listStatus(folder):
        name = status.getPath().getName()
        complete, _ = hadoop_path(spark, f"{batch}/{name}/{_COMPLETE}")
        if files.exists(complete):
            attempts.append((files.getFileStatus(complete).getModificationTime(), name))
    return min(attempts)[1] if attempts else None

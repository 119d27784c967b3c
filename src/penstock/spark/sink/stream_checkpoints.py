"""Reads the progress of a stream from its checkpoint."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.configuration import ConfigurationError
from penstock.spark.frames.hadoop_files import hadoop_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from penstock.kafka.cluster.ranges import Partition


class PlannedBatch(NamedTuple):
    """The last micro-batch that was planned, whether it was done or not.

    Attributes:
        ends: The offset after its last, by partition.
    """

    number: int
    ends: Mapping[Partition, int]


def planned_batch(spark: SparkSession, checkpoint: str) -> PlannedBatch | None:
    """Return the last planned micro-batch; None if there is none.

    Args:
        spark: A classic session.
        checkpoint: The checkpoint location of a stream with one source, which is that of
            `format("penstock")` or Spark's for Kafka.

    Raises:
        ConfigurationError: It is that of another stream, or damaged.
    """
    last = _last_planned(spark, checkpoint)
    if last is None:
        return None
    from penstock.spark.source.stream import from_json  # noqa: PLC0415 - PySpark 4.0

    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - Spark's own way to Hadoop
    path, files = hadoop_path(spark, f"{_offsets(checkpoint)}/{last}")
    with contextlib.closing(files.open(path)) as stream:
        content = jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
    try:
        # A line with the version, a line with settings, then a line for each source.
        return PlannedBatch(last, from_json(json.loads(content.splitlines()[-1])))
    except (ValueError, IndexError, TypeError, AttributeError):
        raise ConfigurationError(
            f"--checkpoint {checkpoint} is not that of a stream of topics, or damaged: "
            f"offsets/{last} cannot be read"
        ) from None


def is_interrupted(spark: SparkSession, checkpoint: str) -> bool:
    """Return whether the last planned micro-batch was not done, so that Spark repeats it.

    Args:
        spark: A classic session.
        checkpoint: The checkpoint location of a stream.
    """
    last = _last_planned(spark, checkpoint)
    if last is None:
        return False
    commit_path, files = hadoop_path(spark, f"{checkpoint.rstrip('/')}/commits/{last}")
    return not files.exists(commit_path)


def _last_planned(spark: SparkSession, checkpoint: str) -> int | None:
    folder, files = hadoop_path(spark, _offsets(checkpoint))
    if not files.exists(folder):
        return None
    names = [status.getPath().getName() for status in files.listStatus(folder)]
    return max((int(name) for name in names if name.isdecimal()), default=None)


def _offsets(checkpoint: str) -> str:
    return f"{checkpoint.rstrip('/')}/offsets"

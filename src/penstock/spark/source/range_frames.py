"""Topics as frames for the commands: ranges of offsets, with any PySpark, and streams."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.configuration import ConfigurationError
from penstock.jobs.plan import MAX_DECOMPRESSED_BYTES
from penstock.jobs.tasks.planning import PackedTasks, plan_tasks
from penstock.spark.execution.task_slots import task_slots
from penstock.spark.frames.kafka_columns import COLUMNS, SCHEMA
from penstock.spark.source.reading import SourceReading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from uuid import UUID

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from penstock.jobs.runner import OffsetCounter
    from penstock.jobs.tasks.planning import Sizes
    from penstock.jobs.topics.access import ClusterAccess
    from penstock.kafka.cluster.ranges import OffsetRange


def read_range(
    spark: SparkSession,
    access: ClusterAccess,
    ranges: Sequence[OffsetRange],
    topic_ids: Mapping[str, UUID],
    *,
    sizes: Sizes | None = None,
    counter: OffsetCounter | None = None,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> DataFrame:
    """Read the records of topics in a range of offsets of each partition.

    A partition is read by one task, so that its records stay in order. Nothing is read before the
    frame is used. A task fails if records were removed before it has read them.

    Args:
        access: The cluster, for the tasks.
        ranges: One of each partition.
        sizes: How large the records are, as far as that is known.
        counter: Counts the offsets that were read.
        max_decompressed_bytes: The size of the largest batch, decompressed, that is read.

    Returns:
        Kafka's columns.
    """
    tasks = plan_tasks(ranges, cores=task_slots(spark), sizes=sizes, ordered=True)
    reading = SourceReading(
        access,
        None,
        tuple(COLUMNS),
        fails_on_loss=True,
        max_decompressed_bytes=max_decompressed_bytes,
    )
    numbers = spark.range(0, len(tasks), 1, max(len(tasks), 1))
    return numbers.mapInArrow(_rows(PackedTasks(tasks), topic_ids, reading, counter), SCHEMA)


def read_stream(
    spark: SparkSession,
    file: str,
    servers: str,
    starts: Sequence[OffsetRange],
    *,
    batch_records: int | None,
    default_batch_records: int,
) -> DataFrame:
    """Read topics as they grow, from where the checkpoint ends; without those that are deleted.

    Args:
        file: The configuration file, for the login.
        starts: Where a stream without a checkpoint starts; a range of each partition.
        batch_records: The most offsets of a micro-batch, as the user gave it, or None.
        default_batch_records: The most without it, in a PySpark that can bound micro-batches.

    Returns:
        Kafka's columns.

    Raises:
        ConfigurationError: PySpark has no streams of sources in Python, or cannot bound their
            micro-batches.
    """
    try:
        from penstock.spark.source.data_source import register  # noqa: PLC0415
    except ModuleNotFoundError:
        raise ConfigurationError("a stream to a folder needs PySpark 4.0 or newer") from None
    from penstock.spark.source.stream import BOUNDS_BATCHES  # noqa: PLC0415

    if batch_records is not None and not BOUNDS_BATCHES:
        raise ConfigurationError(
            "--batch-records with a folder or a table needs PySpark 4.2 or newer: leave it out, or "
            "write to topics"
        )
    register(spark)
    offsets: dict[str, dict[str, int]] = {}
    for start in starts:
        offsets.setdefault(start.topic, {})[str(start.partition)] = start.start
    reader = (
        spark.readStream.format("penstock")
        .schema(SCHEMA)
        .option("plan", file)
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", ",".join(offsets))
        .option("startingOffsets", json.dumps(offsets))
        .option("failOnDeletedTopic", "false")
    )
    if BOUNDS_BATCHES:
        reader = reader.option("maxOffsetsPerTrigger", batch_records or default_batch_records)
    return reader.load()


def _rows(
    tasks: PackedTasks,
    topic_ids: Mapping[str, UUID],
    reading: SourceReading,
    counter: OffsetCounter | None,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                task = tasks[number]
                yield from reading.read(task.wanted(topic_ids))
                if counter is not None:
                    counter.add(sum(offset_range.offsets for offset_range in task.ranges))

    return run

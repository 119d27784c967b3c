"""The order of records that are written: that of topic, partition and offset.

Spark packs files into tasks by their sizes, and cuts large files: without this order, records of a
partition, and of a key, would change places.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PLACE: Final = "place"
"""The column with the place of a record in its file: records of one offset are in its order."""
_UNKNOWN: Final = -1


class RecordOrder(Enum):
    """Which records have to be in one of Spark's partitions, within each of which is the order."""

    FOR_TOPICS = "all of a partition"
    """Because tasks write to a topic at the same time."""
    FOR_FOLDERS = "those of a part of the order"
    """Each of Spark's partitions, and its file, comes before the next."""


def in_order(frame: DataFrame, order: RecordOrder) -> DataFrame:
    """Return records by topic, partition and offset, within each of Spark's partitions.

    Args:
        frame: Kafka's columns, and perhaps `PLACE`.
        order: Which records are together.

    Returns:
        Kafka's columns.
    """
    if PLACE not in frame.columns:
        frame = frame.withColumn(PLACE, F.lit(0))
    partition, offset, place = F.col("partition"), F.col("offset"), F.col(PLACE)
    topic = F.coalesce("topic", F.lit(""))
    sort_columns = [
        topic,
        F.coalesce(partition, F.lit(_UNKNOWN)),
        F.coalesce(offset, F.lit(_UNKNOWN).cast("bigint")),
        place,
    ]
    if order is RecordOrder.FOR_TOPICS:
        # A record without a partition goes to that of its key; without a key, to any.
        of_key = F.when(partition.isNull(), F.col("key"))
        of_file = F.when(partition.isNull() & F.col("key").isNull(), place)
        frame = frame.repartition(topic, partition, of_key, of_file)
    else:
        frame = frame.repartitionByRange(*sort_columns)
    return without_place(frame.sortWithinPartitions(*sort_columns))


def without_place(frame: DataFrame) -> DataFrame:
    """Return Kafka's columns of a frame."""
    return frame.drop(PLACE)

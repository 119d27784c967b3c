"""Compares records with those of a table, by topic, partition and offset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from penstock.kafka.cluster.ranges import OffsetRange

_RANGES: Final = "topic string, partition int, first bigint, end bigint"
_PLACE: Final = ("topic", "partition", "offset")


class TableRecords:
    """The records of a table."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        """Take the table; nothing is read."""
        self._spark = spark
        self._name = name

    def first_twice(self, rows: DataFrame, version: int | None) -> str | None:
        """Return one of some records that the table has more often than they have.

        Args:
            version: A version or snapshot of the table; None for the latest.
        """
        there = self._among(rows, version)
        if there is None:
            return None
        there = there.groupBy(*_PLACE).agg(F.count("*").alias("there"))
        row_counts = rows.groupBy(*_PLACE).agg(F.count("*").alias("given"))
        for row in there.join(row_counts, on=list(_PLACE)).where("there > given").take(1):
            return f"{row.topic}-{row.partition} at offset {row.offset}"
        return None

    def has_all(self, rows: DataFrame) -> bool:
        """Return whether the table has all of some records."""
        there = self._among(rows)
        if there is None:
            return True
        return not rows.select(*_PLACE).join(there, on=list(_PLACE), how="left_anti").take(1)

    def has_any(self, rows: DataFrame, version: int | None = None) -> bool:
        """Return whether the table has any of some records.

        Args:
            version: A version or snapshot of the table; None for the latest.
        """
        there = self._among(rows, version)
        if there is None:
            return False
        return bool(rows.select(*_PLACE).join(there, on=list(_PLACE), how="left_semi").take(1))

    def first_of(self, ranges: Sequence[OffsetRange]) -> str | None:
        """Return a record of the table that is in one of some ranges.

        Args:
            ranges: The ranges of topics; with none, any record is meant.
        """
        table = self._spark.table(self._name)
        if not ranges:
            return "it is not empty" if table.take(1) else None
        range_rows = self._spark.createDataFrame(
            [
                (offset_range.topic, offset_range.partition, offset_range.start, offset_range.end)
                for offset_range in ranges
            ],
            _RANGES,
        )
        topics = sorted({offset_range.topic for offset_range in ranges})
        # Delta and Iceberg skip files by these; not by the ranges of a join.
        first = min(offset_range.start for offset_range in ranges)
        there = table.where(F.col("topic").isin(topics) & (F.col("offset") >= first))
        there = there.select("topic", "partition", "offset")
        same = there.join(F.broadcast(range_rows), on=["topic", "partition"])
        matches = same.where("offset >= first AND offset < end")
        for row in matches.take(1):
            return f"{row.topic}-{row.partition} at offset {row.offset}"
        return None

    def _among(self, rows: DataFrame, version: int | None = None) -> DataFrame | None:
        """Return the places of the table's records among which those of some are.

        Delta and Iceberg skip files by topics and by a range of offsets.

        Returns:
            Their topics, partitions and offsets; None if there are no records.
        """
        offset = F.col("offset")
        bounds = rows.agg(F.collect_set("topic"), F.min(offset), F.max(offset)).first()
        if bounds is None or not bounds[0]:
            return None
        topics, first, last = bounds
        of_version = "" if version is None else f" VERSION AS OF {version}"
        there = self._spark.sql(f"SELECT * FROM {self._name}{of_version}")  # noqa: S608 - its name
        there = there.where(F.col("topic").isin(topics))
        return there.where(offset.between(first, last)).select(*_PLACE)

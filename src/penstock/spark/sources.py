"""The columns of records in frames, and files that have them."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.configuration import ConfigurationError
from penstock.spark.json_files import read_json
from penstock.stored.files import JSON_SUFFIXES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

COLUMNS: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
"""The columns of Spark's Kafka source, and their types."""
SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
_NEEDED: Final = ("key", "value", "topic", "partition", "offset", "timestamp")
_MS_MAX: Final = (2**63 - 1) // 1000


def read_files(spark: SparkSession, path: str) -> DataFrame:
    """Read Parquet or JSON lines with Kafka's columns.

    JSON has no bytes: keys, values and header values are taken for base 64, which is what
    Spark writes, if those of the first lines all are; otherwise for text, stored as UTF-8.
    Timestamps are those of `penstock.stored.record_times`.

    Raises:
        ConfigurationError: Columns are missing, or have other types.
    """
    if PurePath(path).suffix.lower() in JSON_SUFFIXES:
        return read_json(spark, path).withColumn("timestamp", from_ms(F.col("timestamp")))
    files = spark.read.parquet(path)
    types = dict(files.dtypes)
    missing = [name for name in _NEEDED if name not in types]
    if missing:
        raise ConfigurationError(
            f"--input {path}: the files have no column {', '.join(missing)}; it needs Kafka's "
            f"columns {', '.join(COLUMNS)}"
        )
    for name, kind in COLUMNS.items():
        found = types.get(name)
        if found is not None and found != kind:
            raise ConfigurationError(f"--input {path}: column {name} is {found}, not {kind}")
    return files


def with_all_columns(df: DataFrame) -> DataFrame:
    """Return Kafka's columns and no others; those that are missing are null."""
    return df.select(
        *(
            F.col(name) if name in df.columns else F.lit(None).cast(kind).alias(name)
            for name, kind in COLUMNS.items()
        )
    )


def from_ms(column: Column) -> Column:
    """Return ms since the epoch as a timestamp; null where Spark cannot represent it."""
    # Outside of it, timestamp_millis would end the job.
    return F.when(column.between(-_MS_MAX, _MS_MAX), F.timestamp_millis(column))

"""The columns of records in frames, and files that have them."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.configuration import ConfigurationError
from penstock.spark.execution.failures import NOT_BASE64, NOT_TIME
from penstock.stored.files import BASE64, JSON_SUFFIXES, SEEN
from penstock.stored.record_times import SECONDS

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
_MILLISECONDS: Final = r"^-?\d{1,18}$"


def read_files(spark: SparkSession, path: str) -> DataFrame:
    """Read Parquet or JSON lines with Kafka's columns.

    JSON has no bytes: keys, values and header values are taken for base 64, which is what
    Spark writes, if those of the first lines all are; otherwise for text, stored as UTF-8.
    Timestamps are those of `penstock.stored.record_times`.

    Raises:
        ConfigurationError: Columns are missing, or have other types.
    """
    if PurePath(path).suffix.lower() in JSON_SUFFIXES:
        return _read_json(spark, path)
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


def _read_json(spark: SparkSession, path: str) -> DataFrame:
    schema = SCHEMA.replace("binary", "string").replace("timestamp timestamp", "timestamp string")
    lines = spark.read.schema(schema).option("mode", "FAILFAST").json(path)
    contents = F.concat(
        F.array("key", "value"),
        F.coalesce(F.transform("headers", lambda header: header["value"]), F.array()),
    )
    first = lines.select(F.explode(contents).alias("text")).where("text IS NOT NULL").limit(SEEN)
    encoded = all(BASE64.fullmatch(row["text"]) for row in first.collect())

    def as_bytes(column: Column) -> Column:
        if not encoded:
            return F.to_binary(column, F.lit("utf-8"))
        found = F.try_to_binary(column, F.lit("base64"))
        is_wrong = column.isNotNull() & found.isNull()
        return F.when(is_wrong, F.raise_error(F.lit(NOT_BASE64)).cast("binary")).otherwise(found)

    def header(entry: Column) -> Column:
        return F.struct(entry["key"].alias("key"), as_bytes(entry["value"]).alias("value"))

    return lines.withColumn("headers", F.transform("headers", header)).withColumns(
        {
            "key": as_bytes(F.col("key")),
            "value": as_bytes(F.col("value")),
            "timestamp": _timestamps(),
        }
    )


def _timestamps() -> Column:
    """Return the column `timestamp`, a text, as a timestamp."""
    text, ms = F.col("timestamp"), F.expr("try_cast(timestamp AS bigint)")
    is_number = text.rlike(_MILLISECONDS)
    time = F.expr("try_cast(timestamp AS timestamp)")
    is_wrong = F.when(is_number, ms.between(*SECONDS)).otherwise(time.isNull())
    return (
        F.when(text.isNull(), F.lit(None))
        .when(is_wrong, F.raise_error(F.lit(NOT_TIME)))
        .when(is_number, from_ms(ms))
        .otherwise(time)
        .cast("timestamp")
    )

"""Records as DataFrames: ranges of topics, streams of topics, files with Kafka's columns."""

from __future__ import annotations

import json
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.configuration import ConfigurationError
from penstock.configuration.clients.librdkafka_keys import java_properties

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

    from penstock.cluster.ranges import OffsetRange, Partition

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
_JSON: Final = {".json", ".jsonl", ".ndjson"}
_SEEN: Final = 1000
"""The number of values of a JSON file that are examined to distinguish base 64 from text."""
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


def client_options(properties: Mapping[str, str], file: Path) -> dict[str, str]:
    """Return the options of Spark's Kafka connector.

    Args:
        properties: The keys after `upstream.`; stores travel to the executors as contents.
        file: The configuration file; relative locations start at its folder.

    Raises:
        ConfigurationError: A store cannot be read, or is a Java key store.
    """
    return {f"kafka.{key}": value for key, value in java_properties(properties, file).items()}


def read_range(
    spark: SparkSession,
    options: Mapping[str, str],
    ranges: Sequence[OffsetRange],
    *,
    records_per_task: int | None = None,
) -> DataFrame:
    """Read the records of topics in a range of offsets of each partition.

    Args:
        spark: The session.
        options: From `client_options`.
        ranges: One of each partition.
        records_per_task: How many records a task reads at most, where their order does not
            matter; None for a task for each partition.
    """
    topics = list(dict.fromkeys(offset_range.topic for offset_range in ranges))
    reader = spark.read.format("kafka")
    if records_per_task is not None:
        reader = reader.option("maxRecordsPerPartition", records_per_task)
    return (
        reader.options(**options)
        .option("subscribe", ",".join(topics))
        .option(
            "startingOffsets",
            _offsets({offset_range.of: offset_range.start for offset_range in ranges}),
        )
        .option(
            "endingOffsets",
            _offsets({offset_range.of: offset_range.end for offset_range in ranges}),
        )
        .option("includeHeaders", "true")
        .option("kafka.isolation.level", "read_committed")
        .load()
    )


def read_stream(
    spark: SparkSession, options: Mapping[str, str], ranges: Sequence[OffsetRange]
) -> DataFrame:
    """Read topics as they grow, from the start of ranges where the checkpoint has no offset yet."""
    topics = list(dict.fromkeys(offset_range.topic for offset_range in ranges))
    return (
        spark.readStream.format("kafka")
        .options(**options)
        .option("subscribe", ",".join(topics))
        .option(
            "startingOffsets",
            _offsets({offset_range.of: offset_range.start for offset_range in ranges}),
        )
        .option("includeHeaders", "true")
        .option("kafka.isolation.level", "read_committed")
        .load()
    )


def read_files(spark: SparkSession, path: str) -> DataFrame:
    """Read Parquet or JSON lines with Kafka's columns.

    JSON has no bytes: keys, values and header values are taken for base 64, which is what
    Spark writes, if those of the first lines all are; otherwise for text, stored as UTF-8.

    Raises:
        ConfigurationError: Columns are missing, or have other types.
    """
    if PurePath(path).suffix.lower() in _JSON:
        return _read_json(spark, path)
    files = spark.read.parquet(path)
    types = dict(files.dtypes)
    missing = [name for name in _NEEDED if name not in types]
    if missing:
        raise ConfigurationError(
            f"--input {path}: the files have no column {', '.join(missing)}; wanted are Kafka's "
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


def _read_json(spark: SparkSession, path: str) -> DataFrame:
    schema = SCHEMA.replace("binary", "string")
    lines = spark.read.schema(schema).option("mode", "FAILFAST").json(path)
    contents = F.concat(
        F.array("key", "value"),
        F.coalesce(F.transform("headers", lambda header: header["value"]), F.array()),
    )
    first = lines.select(F.explode(contents).alias("text")).where("text IS NOT NULL").limit(_SEEN)
    encoded = all(_BASE64.fullmatch(row["text"]) for row in first.collect())

    def as_bytes(column: Column) -> Column:
        form = F.lit("base64" if encoded else "utf-8")
        return F.to_binary(column, form)

    def header(entry: Column) -> Column:
        return F.struct(entry["key"].alias("key"), as_bytes(entry["value"]).alias("value"))

    return lines.withColumn("headers", F.transform("headers", header)).withColumns(
        {"key": as_bytes(F.col("key")), "value": as_bytes(F.col("value"))}
    )


def _offsets(offsets: Mapping[Partition, int]) -> str:
    found: dict[str, dict[str, int]] = {}
    for partition, offset in offsets.items():
        found.setdefault(partition.topic, {})[str(partition.number)] = offset
    return json.dumps(found)

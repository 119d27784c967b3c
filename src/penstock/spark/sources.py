"""Records as DataFrames: ranges of topics, streams of topics, files with Kafka's columns."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from penstock.configuration import ConfigurationError
from penstock.configuration.clients import java_properties

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

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
_NEEDED: Final = ("key", "value", "topic", "partition", "offset", "timestamp")
_JSON: Final = {".json", ".jsonl", ".ndjson"}


def client_options(properties: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Give the options of Spark's Kafka connector for the keys after `upstream.`."""
    java = java_properties(properties, folder)
    return {f"kafka.{key}": value for key, value in java.items()}


def read_range(
    spark: SparkSession,
    options: Mapping[str, str],
    topic: str,
    start: Mapping[int, int],
    end: Mapping[int, int],
) -> DataFrame:
    """Read the records of a topic from one offset of each partition up to another."""
    return (
        spark.read.format("kafka")
        .options(**options)
        .option("subscribe", topic)
        .option("startingOffsets", _offsets(topic, start))
        .option("endingOffsets", _offsets(topic, end))
        .option("includeHeaders", "true")
        .option("kafka.isolation.level", "read_committed")
        .load()
    )


def read_stream(
    spark: SparkSession, options: Mapping[str, str], topic: str, start: Mapping[int, int]
) -> DataFrame:
    """Read a topic as it grows; `start` counts where the checkpoint has no place yet."""
    return (
        spark.readStream.format("kafka")
        .options(**options)
        .option("subscribe", topic)
        .option("startingOffsets", _offsets(topic, start))
        .option("includeHeaders", "true")
        .option("kafka.isolation.level", "read_committed")
        .load()
    )


def read_files(spark: SparkSession, path: str) -> DataFrame:
    """Read Parquet, or JSON lines with binary columns in base 64, with Kafka's columns.

    Raises:
        ConfigurationError: Columns are missing, or have other types.
    """
    if PurePath(path).suffix.lower() in _JSON:
        schema = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        return spark.read.schema(schema).option("mode", "FAILFAST").json(path)
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


def _offsets(topic: str, offsets: Mapping[int, int]) -> str:
    return json.dumps({topic: {str(p): offset for p, offset in offsets.items()}})

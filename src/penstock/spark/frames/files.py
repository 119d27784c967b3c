"""Files with Kafka's columns, as frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.configuration import ConfigurationError
from penstock.spark.frames.json_files import read_json
from penstock.spark.frames.kafka_columns import COLUMNS
from penstock.stored.files.files import is_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NEEDED: Final = ("key", "value", "topic", "partition", "offset", "timestamp")


def read_files(spark: SparkSession, path: str) -> DataFrame:
    """Read Parquet or JSON lines with Kafka's columns.

    JSON has no bytes: keys, values and header values are taken for base 64, which is what
    Spark writes, if those of the first lines all are; otherwise for text, stored as UTF-8.
    Timestamps are those of `penstock.stored.files.record_times`.

    Raises:
        ConfigurationError: Columns are missing, or have other types.
    """
    if is_json(path):
        return read_json(spark, path)
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

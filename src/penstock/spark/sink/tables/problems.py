"""Problems of a table that is to be written, in one line that explains what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock.spark.execution.failures import SparkError, first_line
from penstock.spark.frames.kafka_columns import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

_CONDITION: Final = re.compile(r"\[([A-Z_.]+)\]\s*")
_BY_PY4J: Final = re.compile(r"An error occurred while calling \S+\n: ")
"""The text before Java's if PySpark has no class for an exception."""
_CATALOG: Final = "spark.sql.catalog.spark_catalog"
_EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
_DELTA_CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_CATALOG_MISSING: Final = re.compile(r"Cannot find catalog plugin class .*iceberg", re.IGNORECASE)
_NO_TABLE: Final = frozenset(
    {
        "TABLE_OR_VIEW_NOT_FOUND",
        "PATH_NOT_FOUND",
        "DELTA_MISSING_DELTA_TABLE",
        "DELTA_TABLE_NOT_FOUND",
    }
)


class OldCheckpointError(SparkError):
    """A table has another micro-batch with the number of the new micro-batch."""


def problem(spark: SparkSession, name: str, error: Exception) -> str:
    """Return why Spark cannot read a table.

    Args:
        error: What Spark raised.
    """
    text = _BY_PY4J.sub("", str(error).strip())
    if _lacks_delta(spark, name, text):
        return (
            "Spark does not know Delta: name its jar and two settings: --conf spark.jars.packages="
            f"io.delta:delta-spark_{_minor(spark)}_2.13:VERSION "
            f"--conf spark.sql.extensions={_EXTENSION} --conf {_CATALOG}={_DELTA_CATALOG}"
        )
    if _CATALOG_MISSING.search(text):
        scala = "2.12" if spark.version.startswith("3.") else "2.13"
        return (
            "Spark does not know Iceberg: name the jar for its version: --conf spark.jars.packages="
            f"org.apache.iceberg:iceberg-spark-runtime-{_minor(spark)}_{scala}:VERSION"
        )
    match = _CONDITION.search(text)
    condition = match[1] if match else ""
    if condition.startswith("PARSE_"):
        return (
            "not a table's name: write CATALOG.SCHEMA.NAME, or delta.`/folder` for a Delta table "
            "without a catalog"
        )
    if condition in _NO_TABLE:
        return f"there is no such table; create it: {create_statement(name, _format(spark, name))}"
    return (
        f"{_CONDITION.sub('', first_line(text))}; a catalog and its jars are named with --conf "
        "spark.sql.catalog.NAME=CLASS and --conf spark.jars.packages"
    )


def wrong_columns(
    name: str, column_types: Mapping[str, str], using: str = "delta", *, parsed: bool = False
) -> str | None:
    """Return a problem of a table's columns; None if there is none.

    Args:
        column_types: Types of its columns, by name. Additional columns are null, or generated.
        parsed: Whether values are parsed, for a `value` that is not bytes.
    """
    types = {column.lower(): kind for column, kind in column_types.items()}
    wrong = [
        f"{column} is {types.get(column.lower(), 'missing')}"
        for column, kind in COLUMNS.items()
        if types.get(column.lower()) != kind and not (parsed and column == "value")
    ]
    if not wrong:
        return None
    return f"{', '.join(wrong)}; it needs Kafka's columns: {create_statement(name, using)}"


def create_statement(name: str, using: str = "delta") -> str:
    """Return the statement that creates a table with Kafka's columns."""
    columns = ", ".join(f"`{column}` {kind.upper()}" for column, kind in COLUMNS.items())
    columns = columns.replace("<KEY:STRING,VALUE:BINARY>", "<key:STRING,value:BINARY>")
    return f"CREATE TABLE {name} ({columns}) USING {using}"


def _lacks_delta(spark: SparkSession, name: str, text: str) -> bool:
    if "DELTA_CONFIGURE_SPARK_SESSION" in text or "data source: delta" in text:
        return True
    catalog = spark.conf.get(_CATALOG, "") or ""
    return name.lower().startswith("delta.") and "delta" not in catalog.lower()


def _format(spark: SparkSession, name: str) -> str:
    """Return the format of new tables in the catalog of a table."""
    first, separator, _ = name.partition(".")
    setting = f"spark.sql.catalog.{first.strip('`')}"
    kind = spark.conf.get(setting, None)
    if not separator or (kind is None and setting != _CATALOG):  # no catalog, but a schema
        kind = spark.conf.get(f"spark.sql.catalog.{spark.catalog.currentCatalog()}", None)
    return "iceberg" if "iceberg" in (kind or "").lower() else "delta"


def _minor(spark: SparkSession) -> str:
    return ".".join(spark.version.split(".")[:2])

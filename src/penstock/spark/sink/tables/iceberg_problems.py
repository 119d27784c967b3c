"""Problems of an Iceberg table that are found before anything is written to it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock.configuration import ConfigurationError
from penstock.jobs.locations import TABLE
from penstock.spark.frames.kafka_columns import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PART: Final = re.compile(r"`(?:[^`]|``)*`|[^.`]+")
_BRANCHES: Final = ("spark.wap.id", "spark.wap.branch")
"""The settings that have Iceberg commit to another branch, or to none."""
_MAY_BRANCH: Final = "write.wap.enabled"
"""The property of tables that follow these settings."""
_DEFAULT: Final = "CURRENT_DEFAULT"
"""What the metadata of a column has if it has a default value."""


def full_name(spark: SparkSession, name: str) -> str:
    """Return a name that the names of Iceberg's metadata tables can follow.

    Args:
        name: The table. With one part, it is in the current schema.

    Raises:
        ConfigurationError: A part of the name has a dot.
    """
    parts = _PART.findall(name)
    if any("." in part for part in parts):
        # Its catalog caches the metadata tables of such a name, and does not refresh them.
        raise ConfigurationError(
            f"{TABLE}{name} has a dot in back quotes, so Iceberg does not find its new snapshots: "
            "rename the table"
        )
    if len(parts) != 1:
        return name
    schema = spark.catalog.currentDatabase()
    return ".".join(filter(None, (f"`{spark.catalog.currentCatalog()}`", schema, name)))


def check_columns(spark: SparkSession, name: str) -> None:
    """Check that columns that are not Kafka's can be null.

    Raises:
        ConfigurationError: One cannot.
    """
    kafka_names = {column.lower() for column in COLUMNS}
    for column in spark.table(name).schema:
        if column.nullable or column.name.lower() in kafka_names or _DEFAULT in column.metadata:
            continue
        raise ConfigurationError(
            f"{TABLE}{name}: the column {column.name} is NOT NULL, but is null in each new record: "
            f"ALTER TABLE {name} ALTER COLUMN {column.name} DROP NOT NULL"
        )


def branch_problem(spark: SparkSession, name: str) -> str | None:
    """Return why Iceberg would not commit to the branch main; None if it would."""
    branch_keys = [key for key in _BRANCHES if spark.conf.get(key, None)]
    if not branch_keys:
        return None
    properties = spark.sql(f"SHOW TBLPROPERTIES {name}").collect()
    if {row[0]: row[1] for row in properties}.get(_MAY_BRANCH, "").lower() != "true":
        return None
    return (
        f"{TABLE}{name} has {_MAY_BRANCH}, so Iceberg would not commit to its branch main: "
        f"unset {' and '.join(branch_keys)}"
    )

"""The columns of records in frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.jobs.rows.far_times import MS_MAX

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
    return F.when(column.between(-MS_MAX, MS_MAX), F.timestamp_millis(column))

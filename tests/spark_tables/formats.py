"""The formats of tables that the scenario writes: their jars, settings and statements."""

from pathlib import Path
from typing import Final, NamedTuple

_DELTA: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
}
_ICEBERG: Final = {
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
}


class TableFormat(NamedTuple):
    """A format.

    Attributes:
        using: Its name in Spark's SQL.
        pyspark: The version of PySpark that it is tested with.
        jar: The coordinates of its jar.
        repeats_first: Whether this PySpark can repeat the first micro-batch of a stream.
    """

    using: str
    pyspark: str
    jar: str
    repeats_first: bool

    def settings(self, folder: Path) -> dict[str, str]:
        """Return Spark's settings for tables in a folder."""
        if self.using == "delta":
            return _DELTA
        return {**_ICEBERG, "spark.sql.catalog.lake.warehouse": str(folder / "lake")}

    def table(self, folder: Path, name: str) -> str:
        """Return the full name of a table."""
        return f"delta.`{folder / name}`" if self.using == "delta" else f"lake.tables.{name}"


FORMATS: Final = {
    "delta": TableFormat("delta", "4.2.0", "io.delta:delta-spark_4.2_2.13:4.4.0", True),
    "iceberg": TableFormat(
        "iceberg",
        "4.1.4",
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
        False,
    ),
}

"""A Delta table that records are appended to, each micro-batch of a stream once.

Delta keeps the last version of each application that has written to a table, in the commit with
the rows, and leaves out a version that it has (`txnAppId` and `txnVersion`): that holds for runs
at the same time, too. It does not compare the rows. With a checkpoint from a backup, numbers of
micro-batches begin again, with other records: so each commit also names the judged micro-batch
(`userMetadata`), and a micro-batch that Delta left out must be in the table under that name.
Otherwise its records must be: a table's history ends (`delta.logRetentionDuration`), and commits of
earlier versions have no name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.spark.sink.tables.delta_commits import DeltaCommits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from penstock.spark.sink.tables.commit import TableCommit

_FORMAT: Final = "delta"


class DeltaTable:
    """A table; see `penstock.spark.sink.tables.written_tables.WrittenTable`."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        """Read the version of the table."""
        self._spark = spark
        self._name = name
        self._commits = DeltaCommits(spark, name)

    def warnings(self) -> Sequence[str]:
        """Return nothing: Delta has each micro-batch once."""
        return ()

    def identity(self) -> tuple[str, str]:
        """Return the id that Delta assigned to the table, and its location."""
        detail = self._spark.sql(f"DESCRIBE DETAIL {self._name}").select("id", "location").first()
        return ("", "") if detail is None else (detail.id, detail.location)

    def append(self, rows: DataFrame, commit: TableCommit) -> int | None:
        """Append records; return the version that has them."""
        writer = rows.write.format(_FORMAT).mode("append")
        if commit.number is not None:
            writer = writer.options(txnAppId=commit.writer, txnVersion=commit.number)
        name = _name_of(commit)
        writer.option("userMetadata", name).saveAsTable(self._name)
        return self._commits.version_of(name)

    def is_new(self, version: int) -> bool:
        """Return whether a version was made since the command began."""
        return self._commits.is_new(version)

    def other(self, commit: TableCommit, version: int) -> str | None:
        """Return another job's commit of records since the command began and before a version."""
        own = commit.writer if commit.number is None else f"{commit.writer} "
        return self._commits.other(own, version)


def _name_of(commit: TableCommit) -> str:
    if commit.number is None:
        return commit.writer
    return f"{commit.writer} micro-batch {commit.number} attempt {commit.attempt}"

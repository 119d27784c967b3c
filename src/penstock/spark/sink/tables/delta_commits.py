"""The commits of a Delta table, of which its history has the names and the order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LAST_COMMITS: Final = ("LIMIT 1", "LIMIT 100", "")
"""How many of a table's last commits are read: mostly, the last commit is the right one."""
_WRITING: Final = ("WRITE", "STREAMING UPDATE", "MERGE")
"""The operations of commits that can have other records than the table had."""


class DeltaCommits:
    """The commits of a table since a command began."""

    def __init__(self, spark: SparkSession, table: str) -> None:
        """Read the version of the table.

        Args:
            table: The name of the table.
        """
        self._spark = spark
        self._table = table
        self._seen = self._begun = self._last()
        self._other: str | None = None

    def version_of(self, commit: str) -> int | None:
        """Return the version of a commit, by its name (`userMetadata`); None if not found."""
        for limit in _LAST_COMMITS:
            matches = self._history(limit).where(F.col("userMetadata") == commit)
            for row in matches.select("version").take(1):
                return int(row.version)
        return None

    def is_new(self, version: int | None) -> bool:
        """Return whether a version was made since the command began."""
        return version is not None and version > self._begun

    def other(self, own: str, version: int) -> str | None:
        """Return another job's commit of records, since the command began and before a version.

        Args:
            own: The beginning of the names of own commits.
            version: That of the own last commit.

        Returns:
            The last such commit; None if there is none.
        """
        if version > self._seen + 1:
            name = F.coalesce(F.col("userMetadata"), F.lit(""))
            other_commits = self._history(f"LIMIT {self._last() - self._seen}").where(
                F.col("version").between(self._seen + 1, version - 1)
                & F.col("operation").isin(*_WRITING)
                & ~name.startswith(own)
            )
            for row in other_commits.select("version", name.alias("name")).take(1):
                self._other = f"version {row.version}" + (f", {row.name}" if row.name else "")
        self._seen = max(self._seen, version)
        return self._other

    def _last(self) -> int:
        last_commit = self._history("LIMIT 1").first()
        return -1 if last_commit is None else int(last_commit.version)

    def _history(self, limit: str) -> DataFrame:
        return self._spark.sql(f"DESCRIBE HISTORY {self._table} {limit}")

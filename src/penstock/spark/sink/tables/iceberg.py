"""An Iceberg table that records are appended to, each micro-batch of a stream once.

Before a micro-batch is appended, it is looked for among the ancestors of the table's current
snapshot: the summary of a snapshot names the writer, the micro-batch and the attempt. The snapshot
and the records are committed together, so a stream that ends after the commit finds it at its next
start. A stream without a snapshot looks for the records themselves: its snapshots can have expired,
and `CREATE OR REPLACE TABLE` removes them.

Nothing in Iceberg compares properties while it commits. If two processes write the same micro-batch
at the same time, the later one finds the other snapshot after its own commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.configuration import ConfigurationError
from penstock.jobs.locations import TABLE
from penstock.spark.execution.failures import SparkError
from penstock.spark.sink.shared_targets import SharedTargetError
from penstock.spark.sink.tables.iceberg_problems import branch_problem, check_columns, full_name
from penstock.spark.sink.tables.iceberg_snapshots import (
    ATTEMPT,
    NUMBER,
    WRITER,
    Snapshot,
    ancestors,
)
from penstock.spark.sink.tables.iceberg_types import check_types
from penstock.spark.sink.tables.problems import OldCheckpointError
from penstock.spark.sink.tables.records import TableRecords

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from penstock.spark.sink.tables.commit import TableCommit
    from penstock.spark.sink.tables.iceberg_snapshots import Snapshots

_PROPERTY: Final = "snapshot-property."
"""What the options begin with that become properties of a snapshot."""
_MAIN: Final = "main"


class IcebergTable:
    """A table; see `penstock.spark.sink.tables.written_tables.WrittenTable`."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        """Read the snapshots of the table.

        Raises:
            ConfigurationError: The table cannot be written.
        """
        self._spark = spark
        self._name = full_name(spark, name)
        check_columns(spark, self._name)
        check_types(spark, self._name)
        branch = branch_problem(spark, self._name)
        if branch is not None:
            raise ConfigurationError(branch)
        self._records = TableRecords(spark, self._name)
        self._snapshots = self._current()
        self._first = self._snapshots.newest
        self._begun = self._seen = self._snapshots.ids
        self._other: str | None = None

    def warnings(self) -> Sequence[str]:
        """Return which micro-batches the table had twice when the command began.

        A process that ended between its commit and its check could not report that.
        """
        twice = (self._snapshots.first_twice(writer) for writer in self._snapshots.writers)
        return [
            f"{TABLE}{self._name} may have records twice: snapshots {pair[0].id} and "
            f"{pair[1].id} are {pair[0].writer} micro-batch {pair[0].number}"
            for pair in twice
            if pair is not None
        ]

    def identity(self) -> tuple[str, str]:
        """Return the location of the table, twice: only Java knows its id."""
        described = self._spark.sql(f"DESCRIBE TABLE EXTENDED {self._name}").collect()
        location = {row[0]: row[1] for row in described}.get("Location", "")
        return location, location

    def append(self, rows: DataFrame, commit: TableCommit) -> int | None:
        """Append records; return the snapshot that has them.

        Raises:
            OldCheckpointError: The table has some of the records, and it cannot be found out
                whether it has the micro-batch.
            SharedTargetError: Another process has written the same records.
            SparkError: The records would be, or were, committed to another branch.
        """
        branch = branch_problem(self._spark, self._name)
        if branch is not None:
            raise SparkError(branch)
        self._snapshots = self._current()
        snapshot = self._snapshots.of(commit)
        if snapshot is not None and commit.number is not None:
            return snapshot.id
        if self._is_left_out(rows, commit):
            return None
        writer = rows.writeTo(self._name).option(_PROPERTY + WRITER, commit.writer)
        if commit.number is not None and commit.attempt is not None:
            writer = writer.option(_PROPERTY + NUMBER, str(commit.number))
            writer = writer.option(_PROPERTY + ATTEMPT, commit.attempt)
        writer.append()
        self._snapshots = self._current()
        self._check_once(commit.writer)
        snapshot = self._snapshots.of(commit)
        if snapshot is not None:
            return snapshot.id
        if not self._records.has_all(rows):
            raise SparkError(
                f"{TABLE}{self._name}: Iceberg committed the records, but not to the branch main; "
                "unset spark.wap.id and spark.wap.branch"
            )
        return None  # its snapshot has expired

    def is_new(self, version: int) -> bool:
        """Return whether a snapshot was made since the command began."""
        return version not in self._begun

    def other(self, commit: TableCommit, version: int) -> str | None:
        """Return another job's snapshot since the command began and before a snapshot.

        A job may have written records of later micro-batches, so it is returned each time. A
        program that names no writer, and mostly maintains the table, is returned once.
        """
        new_snapshots = self._snapshots.written_since(self._seen, start_id=version)
        others = [snapshot for snapshot in new_snapshots if snapshot.writer != commit.writer]
        jobs = [snapshot for snapshot in others if snapshot.writer is not None]
        self._seen = self._snapshots.ids_until(version)
        if jobs:
            self._other = str(jobs[0])
        return self._other or next(map(str, others), None)

    def _is_left_out(self, rows: DataFrame, commit: TableCommit) -> bool:
        """Return whether the table may have a micro-batch without a snapshot that says so.

        Mostly, it has the snapshot of an earlier micro-batch of the stream.
        """
        if commit.number is None:
            return False
        last = self._snapshots.last_number(commit.writer)
        if last is not None:
            return last >= commit.number
        if not self._records.has_any(rows):
            return False
        other = next(self._snapshots.written_since(self._begun), None)
        if other is not None and not self._had_any(rows):
            raise SharedTargetError(
                f"{TABLE}{self._name} has records of micro-batch {commit.number} of this stream, "
                f"because another job writes the records of this topic to it ({other}). Let one of "
                "the two jobs run; each stream of a topic needs separate tables"
            )
        if not self._records.has_all(rows):
            raise OldCheckpointError(
                f"{TABLE}{self._name} has some of the records of micro-batch {commit.number}, and "
                "its snapshots from then have expired: whether the stream wrote these records is "
                "not known. Use a new --checkpoint, and --from where the records in the table end"
            )
        return True

    def _had_any(self, rows: DataFrame) -> bool:
        """Return whether the table had any of some records when the command began."""
        return self._first is not None and self._records.has_any(rows, self._first)

    def _check_once(self, writer: str) -> None:
        """Check that no other process has written a micro-batch of this process."""
        twice = self._snapshots.first_twice(writer, self._begun)
        if twice is not None:
            later, earlier = twice
            raise SharedTargetError(
                f"{TABLE}{self._name} has micro-batch {later.number} of this stream twice "
                f"(snapshots {earlier.id} and {later.id}), because two processes run the "
                "stream. Let one of them run, and remove the records of one snapshot"
            )

    def _current(self) -> Snapshots:
        """Read the current snapshot, and those before it."""
        # A catalog keeps a table for a while, and others write to it.
        self._spark.sql(f"REFRESH TABLE {self._name}")
        name = self._name
        current = self._spark.sql(
            f"SELECT snapshot_id FROM {name}.refs WHERE name = '{_MAIN}'"  # noqa: S608 - its name
        ).first()
        if current is None:
            return ancestors(None, ())
        properties = ", ".join(f"summary['{key}']" for key in (WRITER, NUMBER, ATTEMPT))
        rows = self._spark.sql(
            f"SELECT snapshot_id, parent_id, operation, {properties} FROM {name}.snapshots"  # noqa: S608
        ).collect()
        return ancestors(current[0], map(_snapshot, rows))


def _snapshot(row: tuple[int, int | None, str, str | None, str | None, str | None]) -> Snapshot:
    identity, parent, operation, writer, number, attempt = row
    is_number = number is not None and number.isdecimal()
    return Snapshot(
        identity, parent, operation, writer, int(number or 0) if is_number else None, attempt
    )

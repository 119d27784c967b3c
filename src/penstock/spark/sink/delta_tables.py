"""Delta tables that records are appended to, each micro-batch of a stream once.

Delta keeps the last version of each application that has written to a table, in the commit with
the rows, and leaves out a version that it has (`txnAppId` and `txnVersion`): that holds for runs
at the same time, too. It does not compare the rows. With a checkpoint from a backup, numbers of
micro-batches begin again, with other records: so each commit also names the judged micro-batch
(`userMetadata`), and a micro-batch that Delta left out must be in the table under that name.
Otherwise its records must be: a table's history ends (`delta.logRetentionDuration`), and commits of
earlier versions have no name.

Two jobs that write the same records can begin when a table has none of them. No check at the start
finds this, so the job whose commit is later finds it after its commit.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.configuration import ConfigurationError
from penstock.spark.execution.failures import SparkError
from penstock.spark.sink.shared_targets import SharedTargetError
from penstock.spark.sink.table_commits import TableCommits
from penstock.spark.sink.table_problems import problem, wrong_columns
from penstock.spark.sink.topic_rows import SINK
from penstock.spark.sources import COLUMNS
from penstock.stored.locations import TABLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from penstock.cluster.ranges import OffsetRange
    from penstock.spark.sink.judged_batches import JudgedBatch

_FORMAT: Final = "delta"
_RANGES: Final = "topic string, partition int, first bigint, end bigint"
_PLACE: Final = ("topic", "partition", "offset")


class OldCheckpointError(SparkError):
    """A table has another micro-batch with the number of the new micro-batch."""


class DeltaTables:
    """The tables that a command writes to, by the name of the sink."""

    def __init__(self, spark: SparkSession, tables: Mapping[str, str]) -> None:
        """Check the tables; nothing is written.

        Raises:
            ConfigurationError: One does not exist, is of another format, or has other columns, or
                two are the same.
        """
        self._spark = spark
        self._tables = tables
        for name in tables.values():
            self._check(name)
        self._check_different()
        self._commits = {name: TableCommits(spark, name) for name in tables.values()}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._tables)

    def check_new(self, ranges: Sequence[OffsetRange]) -> None:
        """Check that no table has what would be written to it.

        Args:
            ranges: The ranges of topics; none for files, whose records can be any.

        Raises:
            ConfigurationError: One has records of the ranges; without ranges, any.
        """
        for name in self._tables.values():
            found = self._written_before(name, ranges)
            if found is not None:
                raise ConfigurationError(
                    f"{TABLE}{name} has records that this run would write again: {found}. A "
                    "stream continues with its latest --checkpoint. To write them again, delete "
                    "them first; to leave them out, choose other records with --from"
                )

    def write(self, frame: DataFrame, batch: JudgedBatch | None) -> None:
        """Append records to their tables.

        Args:
            frame: Kafka's columns and `sink`.
            batch: A stream's micro-batch, which a table that has it leaves out.

        Raises:
            OldCheckpointError: A table has another micro-batch with its number, and left it out.
            SharedTargetError: Another job has written the same records since the command began.
        """
        for sink, name in self._tables.items():
            rows = frame.where(F.col(SINK) == sink).select(*COLUMNS)
            writer = rows.write.format(_FORMAT).mode("append")
            if batch is None:
                own = commit = f"penstock-{uuid.uuid4()}"
                writer.option("userMetadata", commit).saveAsTable(name)
            else:
                stream = f"penstock-{batch.query}-{sink}"
                own = f"{stream} "
                commit = f"{own}micro-batch {batch.number} attempt {batch.attempt}"
                writer.options(
                    txnAppId=stream, txnVersion=batch.number, userMetadata=commit
                ).saveAsTable(name)
            version = self._commits[name].version_of(commit)
            if batch is not None and version is None and not self._has_records(name, rows):
                raise OldCheckpointError(
                    f"{TABLE}{name} has a micro-batch {batch.number} of --checkpoint "
                    f"{batch.checkpoint} with other records, so it left the new records out: the "
                    "checkpoint is older than the table, or two streams use it. Continue with the "
                    "latest checkpoint; without it, use a new --checkpoint, and --from where the "
                    "records in the table end"
                )
            self._check_alone(name, rows, own, version)

    def _check_alone(self, name: str, rows: DataFrame, own: str, version: int | None) -> None:
        """Check that no other job has written records that were just written.

        Args:
            name: The table.
            rows: The records.
            own: The beginning of the names of own commits.
            version: The version of the table with the records. An earlier process may have written
                them, and ended before this check.
        """
        commits, other = self._commits[name], None
        if version is not None and commits.is_new(version):
            other = commits.other(own, version)
            if other is None:
                return
        twice = self._first_twice(name, rows, version if other else None)
        if twice is not None:
            raise SharedTargetError(
                f"{TABLE}{name} has {twice} twice, because another job writes the records of this "
                f"topic to it{f' ({other})' if other else ''}. Let one of the two jobs run, and "
                "remove what it did not write; each stream of a topic needs separate tables"
            )

    def _first_twice(self, name: str, rows: DataFrame, version: int | None) -> str | None:
        """Return one of some records that a table has more often than they have."""
        there = self._in_table(name, rows, version)
        if there is None:
            return None
        there = there.groupBy(*_PLACE).agg(F.count("*").alias("there"))
        given = rows.groupBy(*_PLACE).agg(F.count("*").alias("given"))
        for row in there.join(given, on=list(_PLACE)).where("there > given").take(1):
            return f"{row.topic}-{row.partition} at offset {row.offset}"
        return None

    def _has_records(self, name: str, rows: DataFrame) -> bool:
        """Return whether a table has all of some records."""
        there = self._in_table(name, rows)
        if there is None:
            return True
        return not rows.select(*_PLACE).join(there, on=list(_PLACE), how="left_anti").take(1)

    def _in_table(self, name: str, rows: DataFrame, version: int | None = None) -> DataFrame | None:
        """Return the places of a table's records among which those of some are.

        Delta skips files by topics and by a range of offsets.

        Args:
            name: The table.
            rows: The records.
            version: A version of the table; None for the latest.

        Returns:
            Their topics, partitions and offsets; None if there are no records.
        """
        offset = F.col("offset")
        found = rows.agg(F.collect_set("topic"), F.min(offset), F.max(offset)).first()
        if found is None or not found[0]:
            return None
        topics, first, last = found
        of_version = "" if version is None else f" VERSION AS OF {version}"
        there = self._spark.sql(f"SELECT * FROM {name}{of_version}")  # noqa: S608 - a table's name
        there = there.where(F.col("topic").isin(topics))
        return there.where(offset.between(first, last)).select(*_PLACE)

    def _written_before(self, name: str, ranges: Sequence[OffsetRange]) -> str | None:
        table = self._spark.table(name)
        if not ranges:
            return "it is not empty" if table.take(1) else None
        wanted = self._spark.createDataFrame(
            [(read.topic, read.partition, read.start, read.end) for read in ranges], _RANGES
        )
        topics = sorted({read.topic for read in ranges})
        # Delta skips files by these; not by the ranges of a join.
        first = min(read.start for read in ranges)
        there = table.where(F.col("topic").isin(topics) & (F.col("offset") >= first))
        there = there.select("topic", "partition", "offset")
        same = there.join(F.broadcast(wanted), on=["topic", "partition"])
        found = same.where("offset >= first AND offset < end")
        for row in found.take(1):
            return f"{row.topic}-{row.partition} at offset {row.offset}"
        return None

    def _check(self, name: str) -> None:
        try:
            table = self._spark.table(name)
            description = self._spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
        except (PySparkException, Py4JJavaError) as error:
            text = problem(self._spark, name, error)
            raise ConfigurationError(f"{TABLE}{name}: {text}") from None
        provider = {row[0]: row[1] for row in description}.get("Provider", "")
        if provider.lower() != _FORMAT:
            raise ConfigurationError(
                f"{TABLE}{name} has the format {provider or 'of a view'}; only Delta tables can be "
                "written, because others could get the records of a repeated micro-batch twice"
            )
        wrong = wrong_columns(name, dict(table.dtypes))
        if wrong is not None:
            raise ConfigurationError(f"{TABLE}{name}: {wrong}")

    def _check_different(self) -> None:
        """Compare ids, which Delta assigns to tables: a table can have several names and paths."""
        known: dict[str, tuple[str, str]] = {}
        for sink, name in self._tables.items():
            detail = self._spark.sql(f"DESCRIBE DETAIL {name}").select("id", "location").first()
            if detail is None:
                continue
            given = f"--{sink} {TABLE}{name}"
            other = known.setdefault(detail.id, (given, detail.location))
            if other[0] != given:
                where = " and ".join(dict.fromkeys((other[1], detail.location)))
                raise ConfigurationError(
                    f"{other[0]} and {given} are the same table, or copies of its files ({where}): "
                    "name two tables, each created with CREATE TABLE"
                )

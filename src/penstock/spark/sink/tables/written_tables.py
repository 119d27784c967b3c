"""Delta and Iceberg tables that records are appended to, each micro-batch of a stream once.

Two jobs that write the same records can begin when a table has none of them. No check at the start
finds this, so the job whose commit is later finds it after its commit.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.configuration import ConfigurationError
from penstock.jobs.locations import TABLE
from penstock.spark.execution.failures import first_line
from penstock.spark.execution.java_errors import Py4JJavaError
from penstock.spark.frames.kafka_columns import COLUMNS
from penstock.spark.sink.shared_targets import SharedTargetError
from penstock.spark.sink.tables.commit import TableCommit
from penstock.spark.sink.tables.delta import DeltaTable
from penstock.spark.sink.tables.delta_problems import check_constraints
from penstock.spark.sink.tables.iceberg import IcebergTable
from penstock.spark.sink.tables.iceberg_types import check_types
from penstock.spark.sink.tables.problems import OldCheckpointError, problem, wrong_columns
from penstock.spark.sink.tables.records import TableRecords
from penstock.spark.sink.topic_rows import SINK
from penstock.spark.values.value_column import ValueColumn, with_value

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from penstock.kafka.cluster.ranges import OffsetRange
    from penstock.spark.sink.judged_batches import JudgedBatch


class WrittenTable(Protocol):
    """A table of a format that has each micro-batch once; its versions are numbers."""

    def warnings(self) -> Sequence[str]:
        """Return what may be wrong with the table since earlier commands."""

    def identity(self) -> tuple[str, str]:
        """Return what no two tables have in common, and the location."""

    def append(self, rows: DataFrame, commit: TableCommit) -> int | None:
        """Append records, unless the table has the micro-batch.

        Args:
            rows: Kafka's columns.
            commit: The name of the commit.

        Returns:
            The version of the table with the records. None if the table has the number of the
            micro-batch, and does not say whether it has the same records.
        """

    def is_new(self, version: int) -> bool:
        """Return whether a version was made since the command began."""

    def other(self, commit: TableCommit, version: int) -> str | None:
        """Return another job's commit of records, since the command began and before a version.

        Args:
            commit: The own last commit.
        """


_DELTA, _ICEBERG = "delta", "iceberg"
_FORMATS: Final[Mapping[str, Callable[[SparkSession, str], WrittenTable]]] = {
    _DELTA: DeltaTable,
    _ICEBERG: IcebergTable,
}


class _Target(NamedTuple):
    """A table.

    Attributes:
        name: Its name in Spark's SQL.
        table: Appends to it.
        records: Compares its records.
        column: The column that its values are parsed for; None if it has their bytes.
        parses: Whether values are parsed if the column's type is not bytes.
    """

    name: str
    table: WrittenTable
    records: TableRecords
    column: ValueColumn | None
    using: str
    parses: bool


class WrittenTables:
    """The tables that a command writes to, by the name of the sink."""

    def __init__(
        self, spark: SparkSession, tables: Mapping[str, str], *, letters: Collection[str] = ()
    ) -> None:
        """Check the tables; nothing is written.

        Args:
            tables: Their names, by the name of the sink.
            letters: Sinks of dead letters, which have the bytes of values.

        Raises:
            ConfigurationError: One does not exist, is of another format, or has other columns, or
                two are the same.
        """
        self._spark = spark
        self._targets = {
            sink: self._target(name, parses=sink not in letters) for sink, name in tables.items()
        }
        self._check_different()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._targets)

    @property
    def value_column(self) -> ValueColumn | None:
        """The column that accepted values are parsed for; None if tables have their bytes."""
        columns = (target.column for target in self._targets.values())
        return next(filter(None, columns), None)

    def read_value_column(self) -> ValueColumn | None:
        """Read the types of tables again, which can have been altered; return `value_column`.

        Raises:
            ConfigurationError: No value can have the type, or it is not checked.
        """
        for sink, target in self._targets.items():
            if target.parses:
                if target.using == _ICEBERG:  # its catalog keeps a table for a while
                    self._spark.sql(f"REFRESH TABLE {target.name}")
                schema = self._spark.table(target.name).schema
                column = ValueColumn.of(target.name, schema, target.using)
                if target.using == _ICEBERG and column != target.column:
                    check_types(self._spark, target.name)
                self._targets[sink] = target._replace(column=column)
        return self.value_column

    @property
    def warnings(self) -> Sequence[str]:
        """What may be wrong with them since earlier commands."""
        return [text for target in self._targets.values() for text in target.table.warnings()]

    def check_new(self, ranges: Sequence[OffsetRange]) -> None:
        """Check that no table has what would be written to it.

        Args:
            ranges: The ranges of topics; none for files, whose records can be any.

        Raises:
            ConfigurationError: One has records of the ranges; without ranges, any.
        """
        for target in self._targets.values():
            record = target.records.first_of(ranges)
            if record is not None:
                raise ConfigurationError(
                    f"{TABLE}{target.name} has records that this run would write again: {record}. "
                    "A stream continues with its latest --checkpoint. To write them again, delete "
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
        for sink, target in self._targets.items():
            rows = with_value(frame.where(F.col(SINK) == sink), target.column).select(*COLUMNS)
            if batch is None:
                commit = TableCommit(f"penstock-{uuid.uuid4()}")
            else:
                stream = f"penstock-{batch.query}-{sink}"
                commit = TableCommit(stream, batch.number, batch.attempt)
            version = target.table.append(rows, commit)
            if batch is not None and version is None and not target.records.has_all(rows):
                raise OldCheckpointError(
                    f"{TABLE}{target.name} has a micro-batch {batch.number} of --checkpoint "
                    f"{batch.checkpoint} with other records, so it left the new records out: the "
                    "checkpoint is older than the table, or two streams use it. Continue with the "
                    "latest checkpoint; without it, use a new --checkpoint, and --from where the "
                    "records in the table end"
                )
            _check_alone(target, rows, commit, version)

    def _target(self, name: str, *, parses: bool) -> _Target:
        """Return a table after a check of its format and columns."""
        try:
            table = self._spark.table(name)
            description = self._spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
        except (PySparkException, Py4JJavaError) as error:
            text = problem(self._spark, name, error)
            raise ConfigurationError(f"{TABLE}{name}: {text}") from None
        provider = {row[0]: row[1] for row in description}.get("Provider", "")
        using = provider.lower()
        format_of = _FORMATS.get(using)
        if format_of is None:
            raise ConfigurationError(
                f"{TABLE}{name} has the format {provider or 'of a view'}; only Delta and Iceberg "
                "tables can be written, because others could get the records of a repeated "
                "micro-batch twice"
            )
        column = ValueColumn.of(name, table.schema, using) if parses else None
        wrong = wrong_columns(name, dict(table.dtypes), using, parsed=column is not None)
        if wrong is not None:
            raise ConfigurationError(f"{TABLE}{name}: {wrong}")
        if column is not None and using == _DELTA:
            check_constraints(self._spark, name)
        try:
            written_table = format_of(self._spark, name)
        except (PySparkException, Py4JJavaError) as error:
            text = first_line(str(error))
            raise ConfigurationError(f"{TABLE}{name}: its history cannot be read: {text}") from None
        records = TableRecords(self._spark, name)
        return _Target(name, written_table, records, column, using, parses)

    def _check_different(self) -> None:
        """Compare what identifies tables: a table can have several names and paths."""
        tables_by_identity: dict[str, tuple[str, str]] = {}
        for sink, target in self._targets.items():
            identity, location = target.table.identity()
            if not identity:
                continue
            option = f"--{sink} {TABLE}{target.name}"
            other = tables_by_identity.setdefault(identity, (option, location))
            if other[0] != option:
                where = " and ".join(dict.fromkeys((other[1], location)))
                raise ConfigurationError(
                    f"{other[0]} and {option} are the same table, or copies of its files "
                    f"({where}): name two tables, each created with CREATE TABLE"
                )


def _check_alone(
    target: _Target, rows: DataFrame, commit: TableCommit, version: int | None
) -> None:
    """Check that no other job has written records that were just written.

    Args:
        commit: The name of the commit.
        version: The version of the table with the records. An earlier process may have written
            them, and ended before this check.
    """
    other = None
    if version is not None and target.table.is_new(version):
        other = target.table.other(commit, version)
        if other is None:
            return
    twice = target.records.first_twice(rows, version if other else None)
    if twice is not None:
        raise SharedTargetError(
            f"{TABLE}{target.name} has {twice} twice, because another job writes the records of "
            f"this topic to it{f' ({other})' if other else ''}. Let one of the two jobs run, and "
            "remove what it did not write; each stream of a topic needs separate tables"
        )

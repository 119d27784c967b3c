"""What an Iceberg table finds in its snapshots, without Iceberg; `make spark-tables` writes real tables."""

from types import SimpleNamespace

import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

from penstock.configuration import ConfigurationError
from penstock.spark.execution.failures import SparkError
from penstock.spark.sink.shared_targets import SharedTargetError
from penstock.spark.sink.tables import iceberg as iceberg_table
from penstock.spark.sink.tables.commit import TableCommit
from penstock.spark.sink.tables.iceberg import IcebergTable
from penstock.spark.sink.tables.problems import OldCheckpointError

pytestmark = pytest.mark.unit

ROWS = frozenset({1, 2})
OTHER_ROWS = frozenset({3, 4})


class Found:
    """The result of a statement."""

    def __init__(self, *rows):
        self._rows = rows

    def first(self):
        return next(iter(self._rows), None)

    def collect(self):
        return list(self._rows)


class Iceberg:
    """A session with a table: `rows` are what the table has, and `id` what its next snapshot is."""

    def __init__(self):
        self.snapshots, self.rows, self.settings, self.properties = [], [], {}, {}
        self.before_it_is_read = lambda: None
        self.is_staged = False
        self.current = None
        self.statements = []
        self.columns = [StructField("more", IntegerType())]
        self.conf = SimpleNamespace(get=lambda key, default=None: self.settings.get(key, default))
        self.catalog = SimpleNamespace(currentCatalog=lambda: "lake", currentDatabase=lambda: "db")

    def table(self, _):
        return SimpleNamespace(schema=StructType(self.columns))

    def sql(self, text):
        self.statements.append(text)
        if text.startswith("REFRESH"):
            self.before_it_is_read()
        if ".refs" in text:
            return Found() if self.current is None else Found((self.current,))
        if "TBLPROPERTIES" in text:
            return Found(*self.properties.items())
        return Found(*self.snapshots)

    def commit(self, rows, writer=None, number=None, attempt=None, operation="append"):
        """Commit records."""
        identity = 100 + len(self.snapshots)
        text = None if number is None else str(number)
        self.snapshots.append((identity, self.current, operation, writer, text, attempt))
        if not self.is_staged:
            self.current = identity
            self.rows += rows

    def expire(self):
        """Have all snapshots expire; the current snapshot names no writer."""
        self.snapshots = [(999, 998, "replace", None, None, None)]
        self.current = 999


class Rows(frozenset):
    """Records that are written."""

    def writeTo(self, _):  # noqa: N802 - PySpark's name
        self.options = {}
        return self

    def option(self, key, value):
        self.options[key.partition(".")[2].partition(".")[2]] = value
        return self

    def append(self):
        given = self.options
        ICEBERG[0].commit(self, given.get("writer"), given.get("micro-batch"), given.get("attempt"))


ICEBERG = []


class Records:
    """The records of the table."""

    def __init__(self, spark, _):
        self._spark = spark

    def has_any(self, rows, version=None):
        return version is None and not rows.isdisjoint(self._spark.rows)

    def has_all(self, rows):
        return rows <= set(self._spark.rows)


@pytest.fixture
def iceberg(monkeypatch):
    """A session whose table is empty."""
    monkeypatch.setattr(iceberg_table, "TableRecords", Records)
    monkeypatch.setattr(iceberg_table, "check_types", lambda *_: None)
    ICEBERG[:] = [Iceberg()]
    return ICEBERG[0]


def commit(number, writer="stream", attempt="first"):
    return TableCommit(writer, number, attempt)


def test_a_replaced_table_has_the_micro_batch_of_before(iceberg):
    """CREATE OR REPLACE TABLE AS SELECT keeps the records, and begins a new history."""
    iceberg.commit(ROWS)
    table = IcebergTable(iceberg, "lake.db.t")
    assert table.append(Rows(ROWS), commit(1)) is None
    assert iceberg.rows == [*ROWS]
    with pytest.raises(OldCheckpointError):
        table.append(Rows({2, 3}), commit(1))


def test_only_the_first_micro_batch_is_looked_for_among_the_records(iceberg, monkeypatch):
    calls = []
    monkeypatch.setattr(Records, "has_any", lambda *given: calls.append(given))
    table = IcebergTable(iceberg, "lake.db.t")
    for number in range(3):
        table.append(Rows({number}), commit(number))
    assert len(calls) == 1


def test_records_that_another_job_wrote_since_the_start_are_not_left_out(iceberg):
    table = IcebergTable(iceberg, "lake.db.t")
    iceberg.commit(ROWS, "another", 0, "first")
    with pytest.raises(
        SharedTargetError, match=r"has records of micro-batch 0 .*snapshot 100, ano"
    ):
        table.append(Rows(ROWS), commit(0))
    assert iceberg.rows == [*ROWS]


def test_a_snapshot_between_a_commit_and_its_reading_is_another_of_the_next(iceberg):
    table = IcebergTable(iceberg, "lake.db.t")
    version = table.append(Rows(ROWS), commit(0))
    assert table.other(commit(0), version) is None
    written = Rows({5})

    def once():
        iceberg.before_it_is_read = lambda: None
        iceberg.commit(OTHER_ROWS, "another", 0, "first")

    def soon():
        iceberg.before_it_is_read = once

    iceberg.before_it_is_read = soon
    version = table.append(written, commit(1))
    assert table.other(commit(1), version) is None
    version = table.append(Rows({6}), commit(2))
    assert table.other(commit(2), version) == "snapshot 102, another micro-batch 0"


def test_only_a_job_that_can_have_written_later_records_is_remembered(iceberg):
    table = IcebergTable(iceberg, "lake.db.t")

    def other_of(number):
        version = table.append(Rows({number}), commit(number))
        return table.other(commit(number), version)

    assert other_of(0) is None
    iceberg.commit((), operation="overwrite")
    assert other_of(1) == "snapshot 101"
    assert other_of(2) is None
    iceberg.commit(OTHER_ROWS, "another", 0, "first")
    assert other_of(3) == other_of(4) == "snapshot 104, another micro-batch 0"


def test_a_snapshot_that_expired_after_its_commit(iceberg):
    table = IcebergTable(iceberg, "lake.db.t")

    def expire():
        if 1 in iceberg.rows:
            iceberg.expire()

    iceberg.before_it_is_read = expire
    assert table.append(Rows(ROWS), commit(0)) is None
    assert iceberg.rows == [*ROWS]


def test_records_that_were_committed_to_another_branch(iceberg):
    table = IcebergTable(iceberg, "lake.db.t")
    iceberg.is_staged = True
    with pytest.raises(SparkError, match="not to the branch main"):
        table.append(Rows(ROWS), commit(0))


@pytest.mark.parametrize("setting", ["spark.wap.id", "spark.wap.branch"])
def test_nothing_is_written_to_another_branch(iceberg, setting):
    iceberg.settings[setting] = "stage"
    table = IcebergTable(iceberg, "lake.db.t")
    table.append(Rows(ROWS), commit(0))
    iceberg.properties["write.wap.enabled"] = "true"
    with pytest.raises(ConfigurationError, match=f"unset {setting}"):
        IcebergTable(iceberg, "lake.db.t")
    with pytest.raises(SparkError, match=f"unset {setting}"):
        table.append(Rows(OTHER_ROWS), commit(1))
    assert iceberg.rows == [*ROWS]


@pytest.mark.parametrize("name", ["lake.db.`my.t`", "lake.`d.b`.t", "`a``.b`"])
def test_the_parts_of_a_name_have_no_dots(iceberg, name):
    """Iceberg would not notice that its tables of snapshots have changed."""
    with pytest.raises(ConfigurationError, match="dot in back quotes"):
        IcebergTable(iceberg, name)


@pytest.mark.parametrize(
    ("database", "name", "full"),
    [
        ("db", "t", "`lake`.db.t"),
        ("", "`my t`", "`lake`.`my t`"),
        ("a.`b-c`", "t", "`lake`.a.`b-c`.t"),
        ("db", "db.t", "db.t"),
        ("db", "lake.`d-b`.t", "lake.`d-b`.t"),
    ],
)
def test_the_snapshots_of_a_name_with_one_part(iceberg, database, name, full):
    """Iceberg would read the table `refs` of the schema NAME."""
    iceberg.catalog.currentDatabase = lambda: database
    IcebergTable(iceberg, name)
    assert any(f"FROM {full}.refs" in text for text in iceberg.statements)


def test_further_columns_may_be_null(iceberg):
    iceberg.columns = [StructField("topic", IntegerType(), nullable=False),
                       StructField("More", IntegerType(), nullable=False)]  # fmt: skip
    with pytest.raises(ConfigurationError, match="the column More is NOT NULL"):
        IcebergTable(iceberg, "lake.db.t")
    iceberg.columns[1].metadata = {"CURRENT_DEFAULT": "1"}
    IcebergTable(iceberg, "lake.db.t")


def test_a_micro_batch_that_is_there_twice_is_a_warning(iceberg):
    """A process that ends between its commit and its check cannot report it."""
    iceberg.commit(ROWS, "stream", 0, "first")
    iceberg.commit(ROWS, "another", 0, "first")
    assert IcebergTable(iceberg, "lake.db.t").warnings() == []
    iceberg.commit(ROWS, "stream", 0, "second")
    assert IcebergTable(iceberg, "lake.db.t").warnings() == [
        "table:lake.db.t may have records twice: snapshots 102 and 100 are stream micro-batch 0"
    ]

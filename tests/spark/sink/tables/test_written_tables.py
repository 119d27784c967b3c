"""Tables that cannot be written, in a session without their formats; `make spark-tables` writes real tables."""

from types import SimpleNamespace

import pytest

from penstock.configuration import ConfigurationError
from penstock.kafka.cluster.ranges import OffsetRange
from penstock.spark.frames.kafka_columns import COLUMNS
from penstock.spark.sink.tables import written_tables
from penstock.spark.sink.tables.problems import create_statement, problem, wrong_columns
from penstock.spark.sink.tables.records import TableRecords
from penstock.spark.sink.tables.written_tables import WrittenTables
from tests.gateways import without_waiting

KAFKA = dict(COLUMNS)


@pytest.fixture
def parquet_table(spark, tmp_path):
    """A table of Spark's own catalog, with Kafka's columns."""
    name = f"parquet_{tmp_path.name.replace('-', '_')}"
    spark.sql(create_statement(name, "parquet"))
    yield name
    spark.sql(f"DROP TABLE {name}")


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("delta.`/lake/orders`", "Spark does not know Delta: name its jar and two settings: --conf"),
        ("not_there", "there is no such table; create it: CREATE TABLE not_there (`key` BINARY, "),
        ("a b", "not a table's name: write CATALOG.SCHEMA.NAME"),
        ("a.b.c", "spark_catalog requires a single-part namespace"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_read(command, configured, topic, name, message):
    done = command("split", configured(), "--topic", topic("in"), "--accepted", f"table:{name}",
                   "--rejected", "path:unused")  # fmt: skip
    assert done.code == 2, done
    assert f"table:{name}: {message}" in done.err
    assert len(without_waiting(done.err).splitlines()) == 1


@pytest.fixture
def iceberg_catalog(spark):
    """The name of a catalog of Iceberg, whose jar is missing."""
    setting = "spark.sql.catalog.without_jar"
    spark.conf.set(setting, "org.apache.iceberg.spark.SparkCatalog")
    yield "without_jar"
    spark.conf.unset(setting)


def test_the_jar_of_iceberg_is_named_if_it_is_missing(spark, iceberg_catalog):
    jar = "org.apache.iceberg:iceberg-spark-runtime-"
    with pytest.raises(
        ConfigurationError, match="Spark does not know Iceberg: name the jar"
    ) as got:
        WrittenTables(spark, {"accepted": f"{iceberg_catalog}.db.orders"})
    assert f"{jar}{'.'.join(spark.version.split('.')[:2])}_2.13:VERSION" in str(got.value)


def test_a_missing_table_is_created_in_the_format_of_its_catalog(spark, iceberg_catalog):
    error = RuntimeError("[TABLE_OR_VIEW_NOT_FOUND] The table cannot be found.")
    for name in (f"{iceberg_catalog}.db.orders", f"`{iceberg_catalog}`.db.orders"):
        assert problem(spark, name, error).endswith("USING iceberg")
    for name in ("orders", "db.orders", "spark_catalog.db.orders"):
        assert problem(spark, name, error).endswith("USING delta")
    session = SimpleNamespace(
        conf=spark.conf, version=spark.version,
        catalog=SimpleNamespace(currentCatalog=lambda: iceberg_catalog),
    )  # fmt: skip
    for name in ("orders", "db.orders"):
        assert problem(session, name, error).endswith("USING iceberg")
    assert problem(session, "spark_catalog.db.orders", error).endswith("USING delta")


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("_delta_log/0.json", "is a Delta table: write table:delta.`"),
        ("metadata/v1.metadata.json", "is an Iceberg table: write table:CATALOG.SCHEMA.NAME"),
    ],
)
def test_a_folder_with_the_files_of_a_table(command, configured, topic, tmp_path, file, message):
    name = tmp_path / "lake" / file
    name.parent.mkdir(parents=True)
    name.write_text("{}")
    done = command("split", configured(), "--topic", topic("in"), "--accepted",
                   f"path:{tmp_path / 'lake'}", "--rejected", "path:unused")  # fmt: skip
    assert (done.code, message in done.err) == (2, True), done


def test_tables_of_other_formats_are_refused(spark, parquet_table):
    with pytest.raises(
        ConfigurationError, match="has the format parquet; only Delta and Iceberg tables"
    ):
        WrittenTables(spark, {"accepted": parquet_table})


def test_the_statement_creates_the_required_table(spark, parquet_table):
    found = dict(spark.table(parquet_table).dtypes)
    assert wrong_columns(parquet_table, found) is None
    assert found == KAFKA


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({**KAFKA, "key": "string"}, "key is string; it needs Kafka's columns: CREATE TABLE t"),
        ({"key": "binary"}, "value is missing, topic is missing, "),
        ({**KAFKA, "day": "date"}, None),
        ({name.upper(): kind for name, kind in KAFKA.items()}, None),
    ],
)
def test_columns_of_a_table(columns, message):
    found = wrong_columns("t", columns)
    assert found is None if message is None else message in found


def test_a_type_of_values_that_are_parsed():
    columns = {**KAFKA, "value": "struct<id:bigint>"}
    assert wrong_columns("t", columns, parsed=True) is None
    assert "value is struct<id:bigint>; it needs" in wrong_columns("t", columns)
    assert "value is missing" in wrong_columns("t", {"key": "binary"}, parsed=False)


def test_an_error_of_a_format_is_its_first_line(spark):
    error = RuntimeError("[SOME_CONDITION] it is broken\nat org.apache.spark.Somewhere")
    assert problem(spark, "t", error).startswith("it is broken; a catalog and its jars")


def test_an_error_that_only_java_knows_has_its_text(spark):
    """A folder in a file system without its jar, for example."""
    text = "An error occurred while calling o7.table.\n: java.lang.Some: Class S3 not found\n\tat a"
    reported = problem(spark, "t", RuntimeError(text))
    assert reported.startswith("java.lang.Some: Class S3 not found; a catalog"), reported


def test_further_columns_of_a_table_are_not_those_of_the_check(spark):
    """Tables may have additional columns, with any name."""
    name = "with_further_columns"
    columns = "topic STRING, partition INT, offset BIGINT, first INT, end BIGINT"
    spark.sql(f"CREATE TABLE {name} ({columns}) USING parquet")
    try:
        spark.sql(f"INSERT INTO {name} VALUES ('t', 0, 5, 1, 2)")
        records = TableRecords(spark, name)
        assert records.first_of([OffsetRange("t", 0, 6, 9)]) is None
        assert records.first_of([OffsetRange("t", 0, 0, 9)]) == "t-0 at offset 5"
    finally:
        spark.sql(f"DROP TABLE {name}")


def test_the_type_of_values_is_read_again(spark, tmp_path, monkeypatch):
    """A table can be altered while a stream writes to it."""
    name = f"altered_{tmp_path.name.replace('-', '_')}"

    def create(kind):
        spark.sql(f"DROP TABLE IF EXISTS {name}")
        statement = create_statement(name, "parquet")
        spark.sql(statement.replace("`value` BINARY", f"`value` {kind}"))

    table = SimpleNamespace(identity=lambda: ("", ""))
    monkeypatch.setitem(written_tables._FORMATS, "parquet", lambda *_: table)
    monkeypatch.setattr(written_tables, "_ICEBERG", "parquet")
    checked = []
    monkeypatch.setattr(written_tables, "check_types", lambda _, of: checked.append(of))
    create("STRUCT<id: BIGINT>")
    try:
        tables = WrittenTables(spark, {"accepted": name})
        assert tables.read_value_column().kind.fieldNames() == ["id"]
        assert checked == []
        create("STRUCT<id: BIGINT, more: STRING>")
        assert tables.read_value_column().kind.fieldNames() == ["id", "more"]
        assert tables.value_column == tables.read_value_column()
        assert checked == [name]
        create("BINARY")
        assert tables.read_value_column() is None
    finally:
        spark.sql(f"DROP TABLE {name}")


def test_nothing_is_needed_of_no_tables(spark):
    tables = WrittenTables(spark, {})
    tables.check_new(())
    tables.write(spark.range(1), None)
    assert tables.read_value_column() is None
    assert not tables

"""Tables that cannot be written, in a session without Delta; `make spark-tables` writes real tables."""

import pytest

from penstock.cluster.ranges import OffsetRange
from penstock.configuration import ConfigurationError
from penstock.spark.sink.delta_tables import DeltaTables
from penstock.spark.sink.table_problems import create_statement, problem, wrong_columns
from penstock.spark.sources import COLUMNS

KAFKA = dict(COLUMNS)


@pytest.fixture
def parquet_table(spark, tmp_path):
    """A table of Spark's own catalog, with Kafka's columns."""
    name = f"parquet_{tmp_path.name.replace('-', '_')}"
    spark.sql(create_statement(name, "parquet"))
    yield name
    spark.sql(f"DROP TABLE {name}")


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
    assert len(done.err.splitlines()) == 1


def test_tables_of_other_formats_are_refused(spark, parquet_table):
    with pytest.raises(ConfigurationError, match="has the format parquet; only Delta tables"):
        DeltaTables(spark, {"accepted": parquet_table})


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
        tables = DeltaTables(spark, {})
        tables._tables = {"accepted": name}
        tables.check_new([OffsetRange("t", 0, 6, 9)])
        with pytest.raises(ConfigurationError, match="t-0 at offset 5"):
            tables.check_new([OffsetRange("t", 0, 0, 9)])
    finally:
        spark.sql(f"DROP TABLE {name}")


def test_nothing_is_needed_of_no_tables(spark):
    tables = DeltaTables(spark, {})
    tables.check_new(())
    tables.write(spark.range(1), None)
    assert not tables

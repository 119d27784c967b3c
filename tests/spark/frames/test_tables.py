"""`--input table:NAME`: archives in tables of Spark's catalog, with Kafka's columns or others."""

import json
import uuid

import pytest
from pyspark.logger import PySparkLogger

from penstock.configuration import ConfigurationError
from penstock.spark.frames.tables import parse_columns, read_table
from tests.integration.reading import read_topic
from tests.spark.conftest import NO_BAD

KAFKA = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]


@pytest.fixture
def table(spark, tmp_path):
    """Stores a frame as a Parquet table of the catalog; returns its name."""
    made = []

    def store(frame):
        name = f"archive_{uuid.uuid4().hex[:8]}"
        frame.write.option("path", str(tmp_path / name)).format("parquet").saveAsTable(name)
        made.append(name)
        return name

    yield store
    for name in made:
        spark.sql(f"DROP TABLE {name}")


def test_a_table_with_kafkas_columns(command, configured, rows, table, tmp_path):
    name = table(rows(b"good", b"bad", None, {"value": b"bad", "topic": "u"}))
    report = tmp_path / "report"
    done = command("audit", configured(), "--input", f"table:{name}", "--report", report)
    assert done.code == 0, done
    assert f"table:{name}: 4 records judged: 2 accepted, 2 refused" in done.out
    found = json.loads((report / "report.json").read_text())
    assert {(reason["topic"], reason["count"]) for reason in found["reasons"]} == {
        ("t", 1),
        ("u", 1),
    }


ARCHIVE = """
    SELECT cast(id AS string) AS id, if(id % 3 = 0, 'bad', concat('good-', id)) AS payload,
           1700000000000 + id AS ms, map('a', cast(id AS string)) AS tags, cast(id AS int) AS pos
    FROM range(9)
"""
COLUMNS = ("--column", "key=id", "--column", "value=payload", "--column", "topic='orders'",
           "--column", "timestamp = ms", "--column", "headers=tags", "--column", "offset=pos")  # fmt: skip


@pytest.mark.slow
def test_a_table_with_other_columns(spark, command, configured, table, topic, kafka, tmp_path):
    name, good, dead = table(spark.sql(ARCHIVE)), topic("good", 2), topic("dead", 2)
    only_orders = {**NO_BAD, "topics.orders.record.validation.policy": "x"}
    del only_orders["topics.*.record.validation.policy"]
    file = configured(only_orders)
    done = command("split", file, "--input", f"table:{name}", "--accepted", good, "--rejected",
                   dead, *COLUMNS)  # fmt: skip
    assert done.code == 0, done
    assert "6 accepted, 3 refused" in done.out
    stored = {key: (value, headers) for _, key, value, headers in
              read_topic(kafka.bootstrap_servers, good)}  # fmt: skip
    assert stored[b"1"] == (b"good-1", [("a", b"1")])
    letters = {key: dict(headers) for _, key, _, headers in
               read_topic(kafka.bootstrap_servers, dead)}  # fmt: skip
    assert sorted(letters) == [b"0", b"3", b"6"]
    assert letters[b"3"]["__dlq.errors.topic"] == b"orders"
    assert letters[b"3"]["__dlq.errors.partition"] is None
    assert letters[b"3"]["__dlq.errors.offset"] == b"3"
    assert letters[b"3"]["__penstock.timestamp"] == b"1700000000003"
    folder = tmp_path / "rewritten"
    repair = configured({**only_orders, "produce.request.interceptors": "policies.Repair"})
    done = command("redact", repair, "--input", f"table:{name}", "--to", f"path:{folder}", *COLUMNS)
    assert done.code == 0, done
    assert spark.read.parquet(str(folder)).where("value = 'good'").count() == 3


def test_missing_columns_are_null(spark, table):
    name = table(spark.sql("SELECT 'k' AS Key, cast('v' AS binary) AS value, 't' AS topic"))
    found = read_table(spark, name, {})
    assert found.columns == KAFKA
    assert tuple(found.first()) == (b"k", b"v", "t", None, None, None, None, None)


def test_types_that_are_converted(spark, table):
    name = table(
        spark.sql(
            "SELECT 1 AS n, array(named_struct('key', 'a', 'value', 'b')) AS pairs, "
            "9223372036854775807 AS never, timestamp_ntz'2026-01-02 03:04:05' AS local, "
            "map('a', cast('b' AS binary)) AS tags"
        )
    )
    needed = {"key": "NULL", "value": "'\xe4'", "topic": "'t'"}

    def first(**columns):
        return read_table(spark, name, {**needed, **columns}).first()

    row = first(partition="cast(n AS bigint)", headers="pairs", timestamp="never")
    assert (row.key, row.value, row.partition) == (None, b"\xc3\xa4", 1)
    assert ([tuple(header) for header in row.headers], row.timestamp) == ([("a", b"b")], None)
    row = first(timestamp="local", headers="tags", offset="n")
    assert str(row.timestamp) == "2026-01-02 03:04:05"
    assert (row.offset, [tuple(header) for header in row.headers]) == (1, [("a", b"b")])


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({}, "no column key, value, topic; name an expression for each"),
        ({"key": "a", "value": "missing", "topic": "'t'"}, "--column value=missing: .*missing"),
        ({"key": "a", "value": "b +", "topic": "'t'"}, r"--column value=b \+: .*"),
        ({"key": "n", "value": "a", "topic": "'t'"}, "key is int; required is binary or string"),
        ({"key": "a", "value": "a", "topic": "n"}, "column topic is int; required is string: name"),
    ],
)
def test_errors_name_missing_or_wrong_columns(spark, table, columns, text):
    name = table(spark.sql("SELECT 'a' AS a, 'b' AS b, 1 AS n"))
    with pytest.raises(ConfigurationError, match=f"--input table:{name}: .*{text}"):
        read_table(spark, name, columns)


def test_no_such_table(command, configured):
    done = command("audit", configured(), "--input", "table:not_there")
    assert done.code == 2
    assert "--input table:not_there: " in done.err
    assert "cannot be found" in done.err
    assert command("audit", configured(), "--input", "table:a b c").code == 2


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["value"], "--column value: NAME=EXPRESSION"),
        (["value="], "NAME=EXPRESSION"),
        (["values=payload"], "with one of key, value"),
        (["value=a", "value=b"], "--column value is given twice"),
    ],
)
def test_columns_that_cannot_be_read(given, text):
    with pytest.raises(ConfigurationError, match=text):
        parse_columns(given)


def test_an_expression_may_have_the_sign():
    assert parse_columns(["topic=if(a = 1, 'x', 'y')"]) == {"topic": "if(a = 1, 'x', 'y')"}


def test_columns_belong_to_a_table(command, configured, topic):
    done = command("audit", configured(), "--topic", topic(), "--column", "value=x")
    assert (done.code, "--column requires --input table:NAME" in done.err) == (2, True)


def test_nothing_of_a_record_is_in_an_error(spark, command, configured, table, monkeypatch):
    """A number that does not fit ends the job, and its text has no contents."""
    name = table(spark.sql("SELECT 'k' AS key, 'secret-text' AS value, 't' AS topic, 'x' AS p"))
    column = "partition=cast(value AS int)"
    logger, logged = PySparkLogger.getLogger("SQLQueryContextLogger"), []
    monkeypatch.setattr(logger, "handle", logged.append)
    done = command("audit", configured(), "--input", f"table:{name}", "--column", column)
    assert done.code == 3
    assert "CAST_INVALID_INPUT" in done.err
    assert "secret-text" not in done.err
    assert not logged

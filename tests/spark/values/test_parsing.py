"""Records are judged and their values parsed in one pass, on a real Spark."""

import datetime as dt
import json
from types import SimpleNamespace

import pytest
from pyspark.sql import types as T

from penstock.engine.verdict import PostponedError
from penstock.policy import RetriableException
from penstock.spark import load_plan
from penstock.spark.jobs.outgoing_records import outgoing_records, parsed_again, written
from penstock.spark.values import parsing
from penstock.spark.values.value_column import PARSED, ValueColumn, with_value

POLICIES = """
from penstock.policy import *

class NoBad(RecordValidationPolicy):
    def validate(self, topic, record):
        if record.value and b"bad" in record.value: raise InvalidRecordException("bad is not good")

class Halved(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return ""
    def process_record(self, key, value, topic, partition, headers):
        return ProduceRequestInterceptorResult(key, value and value.replace(b"86", b"43"))
"""
TYPE = (
    "id BIGINT, price DECIMAL(10,2), at TIMESTAMP, local TIMESTAMP_NTZ, day DATE, ratio FLOAT, "
    "tags ARRAY<STRING>, more MAP<STRING, INT>, address STRUCT<city: STRING>, raw BINARY"
)
FULL = (
    b'{"id": 86, "price": 0.1, "at": "2026-11-17T10:00:00+01:00", "local": "2026-11-17T10:00:00", '
    b'"day": "2026-11-17", "ratio": 0.5, "tags": ["a", null], "more": {"x": 1}, '
    b'"address": {"city": "Oslo"}, "raw": "AAE="}'
)


@pytest.fixture(params=["", "parsed_policies.Halved"], ids=["as it is", "intercepted"])
def judged(request, spark, rows, tmp_path, monkeypatch):
    """Judges values, and parses them for a column."""
    (tmp_path / "parsed_policies.py").write_text(POLICIES)
    file = tmp_path / "penstock.properties"
    file.write_text(
        "upstream.bootstrap.servers=127.0.0.1:1\n"
        "record.validation.policy.class.name=parsed_policies.NoBad\n"
        "topics.*.record.validation.policy=any\n"
        f"produce.request.interceptors={request.param}\n"
    )
    kind = spark.sql(f"SELECT CAST(NULL AS STRUCT<{TYPE}>) value").schema
    column = ValueColumn.of("orders", kind)

    def judge(*values):
        return outgoing_records(rows(*values, partitions=2), load_plan(file), None, column), column

    judge.file = file
    judge.id = 43 if request.param else 86
    return judge


def test_parsed_values_and_dead_letters(judged):
    frame, column = judged(FULL, b'{"id": "86"}', b"bad", None, b"{}")
    found = with_value(written(frame), column).orderBy("offset").collect()
    first, unfit, bad, null, empty = found
    assert [row.sink for row in found] == [
        "accepted", "rejected", "rejected", "accepted", "accepted",
    ]  # fmt: skip
    assert (first.value.id, str(first.value.price)) == (judged.id, "0.10")
    assert first.value.day == dt.date(2026, 11, 17)
    assert first.value.local == dt.datetime.fromisoformat("2026-11-17T10:00:00")
    assert (first.value.ratio, first.value.tags) == (0.5, ["a", None])
    assert (first.value.more, first.value.address.city) == ({"x": 1}, "Oslo")
    assert first.value.raw == b"\0\1"
    assert (null.value, empty.value.id, bad.value) == (None, None, None)
    headers = {header.key: bytes(header.value) for header in unfit.headers}
    assert headers["__penstock.policy"] == b"table"
    assert headers["__penstock.message"] == (
        b"the value does not fit table orders: at /id is a string, not BIGINT"
    )
    letters = written(frame).where("sink = 'rejected'").orderBy("offset").collect()
    assert [row.value for row in letters] == [b'{"id": "86"}', b"bad"]


def test_times_are_those_of_the_text(judged):
    frame, _ = judged(FULL)
    ((seconds,),) = frame.selectExpr(f"unix_seconds({PARSED}.at)").collect()
    assert seconds == dt.datetime(2026, 11, 17, 9, tzinfo=dt.UTC).timestamp()


def test_values_by_the_schema_of_a_policy(rows, tmp_path):
    fields = [{"name": "id", "type": {"type": "long", "logicalType": "timestamp-millis"}}]
    schema = {"type": "record", "name": "Order", "fields": fields}
    (tmp_path / "order.avsc").write_text(json.dumps(schema))
    file = tmp_path / "penstock.properties"
    file.write_text(
        "upstream.bootstrap.servers=127.0.0.1:1\n"
        "record.validation.policy.class.name=penstock.policies.SchemaPolicy\n"
        "topics.*.confluent.value.schema.validation=true\n"
        "topics.*.schema.file=order.avsc\n"
    )
    column = ValueColumn.of("t", T.StructType().add("value", T.StructType().add("id", "timestamp")))
    frame = outgoing_records(rows(b"\x02", b"\xff", b"\x03"), load_plan(file), "t", column)
    first, bad, later = frame.orderBy("offset").selectExpr(f"unix_millis({PARSED}.id)").collect()
    assert (first[0], bad[0], later[0]) == (1, None, -2)


@pytest.mark.unit
def test_a_schema_that_cannot_be_looked_up_now(monkeypatch):
    class NotNow:
        parsed = None

        def added_to(self, *_):
            raise RetriableException("not now")

    monkeypatch.setattr(parsing, "evaluator_of", lambda _: SimpleNamespace(value_reader=None))
    plan = SimpleNamespace(retry_for_s=0)
    parse = parsing.parsing(NotNow(), plan, None)
    with pytest.raises(PostponedError, match=r"^a policy cannot decide now: table: not now$"):
        list(parse(iter([None])))


@pytest.fixture
def again(spark, tmp_path, judged):
    """Judges values for a column, keeps the records, and returns them for another type."""

    def make(kind, *values, parsed=True):
        frame, column = judged(*values)
        frame = frame if parsed else frame.drop(PARSED)
        frame.write.parquet(str(tmp_path / "kept"))
        kept = spark.read.parquet(str(tmp_path / "kept"))
        if kind is not None:
            schema = spark.sql(f"SELECT CAST(NULL AS STRUCT<{kind}>) value").schema
            column = ValueColumn.of("orders", schema)
        return kept, parsed_again(kept, column, load_plan(judged.file), None)

    return make


def test_kept_records_of_the_same_type_are_not_parsed_again(again):
    kept, found = again(None, FULL)
    assert found is kept


@pytest.mark.cases(1)
@pytest.mark.parametrize("parsed", [True, False], ids=["another type", "bytes"])
def test_kept_records_are_parsed_for_a_changed_type(again, parsed):
    """The table was altered after they were judged: with the former type it takes none of them."""
    _, found = again(
        "id STRUCT<x: INT>, tags ARRAY<STRING>, zip STRING", b'{"tags": ["a"], "zip": "x"}',
        b"bad", FULL, None, parsed=parsed,
    )  # fmt: skip
    first, bad, unfit, null = found.orderBy("offset").collect()
    assert (first[PARSED].tags, first[PARSED].zip, first[PARSED].id) == (["a"], "x", None)
    assert (null[PARSED], null.verdict.outcome) == (None, "accepted")
    assert (bad[PARSED], bad.verdict.message) == (None, "bad is not good")
    assert unfit[PARSED] is None
    assert unfit.verdict.message == (
        "the value does not fit table orders: at /id is a number, not STRUCT"
    )
    assert (unfit.sink, unfit.value) == ("rejected", FULL)
    headers = {header.key: bytes(header.value or b"") for header in unfit.headers}
    assert headers["__penstock.message"].decode() == unfit.verdict.message
    assert [row.sink for row in (first, bad, null)] == ["accepted", "rejected", "accepted"]


def test_kept_letters_stay_letters(again):
    """A table of dead letters may have them already."""
    _, found = again("id STRING", b'{"id": "86"}', b'{"id": 7}')
    letter, unfit = found.orderBy("offset").collect()
    assert letter.verdict.message.endswith("at /id is a string, not BIGINT")
    assert unfit.verdict.message.endswith("at /id is a number, not STRING")
    assert letter[PARSED] is None

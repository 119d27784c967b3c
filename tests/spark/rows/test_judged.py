"""`judge_rows` and `split_rows`: verdicts of the wire's engine about any columns, lazily."""

import inspect

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from penstock.configuration import ConfigurationError
from penstock.policies.rules.settings import Format
from penstock.spark import audit_rows, judge, judge_rows, plan, split_rows
from penstock.spark.rows import judged as module
from penstock.spark.rows.values import value_of
from tests.spark.rows import generated
from tests.spark.rows.orders import ORDERS, RULES
from tests.spark.rows.same_json import generated_plan, same_as_their_json
from tests.spark.rows.same_types import same_as_records

ROWS = 400


@pytest.mark.parametrize("nulls", ["null", "missing"])
def test_generated_rows_have_the_verdicts_of_the_wire_about_their_json(spark, nulls):
    same_as_their_json(spark, ROWS, 7, nulls)


@pytest.mark.parametrize("kind", [Format.AVRO, Format.PROTOBUF])
def test_rows_have_the_verdicts_of_records_of_avro_and_protobuf(spark, tmp_path, kind):
    same_as_records(spark, tmp_path, ROWS, 9, kind)


def test_judge_says_the_same_about_records_with_this_value(spark):
    frame = spark.createDataFrame(generated.rows(50, seed=8), generated.SCHEMA).coalesce(1)
    row_plan = generated_plan()
    records = frame.select(
        "id", value_of([], "null").cast("binary").alias("value"), F.lit("rows").alias("topic"),
        F.lit(0).alias("partition"), F.lit(None).cast("binary").alias("key"),
        F.lit(None).cast("timestamp").alias("timestamp"),
        F.lit(None).cast("array<struct<key:string,value:binary>>").alias("headers"),
    )  # fmt: skip
    by_rows = judge_rows(frame, row_plan).select("verdict").collect()
    assert judge(records, row_plan.records, objections=True).select("verdict").collect() == by_rows
    plain = judge(records, row_plan.records).select("verdict.*").collect()
    assert [row.verdict[:4] for row in by_rows] == [tuple(row) for row in plain]


def test_good_and_bad_rows(spark):
    good, bad = split_rows(spark.sql(ORDERS), plan(rules=RULES))
    assert good.columns == ["id", "amount", "currency"]
    assert bad.columns == ["id", "amount", "currency", "verdict"]
    assert [row.id for row in good.collect()] == [4]
    rules = F.transform("verdict.objections", lambda objection: objection["rule"])
    found = bad.select("id", "verdict.outcome", rules).orderBy("id").collect()
    assert [tuple(row) for row in found] == [
        (0, "refused", ["positive"]), (1, "refused", ["positive"]), (2, "refused", ["known"]),
        (3, "refused", ["positive"]),
    ]  # fmt: skip


def test_a_column_verdict_is_judged_and_not_replaced(spark, monkeypatch):
    frame = spark.sql("SELECT 'v' Verdict, 1 id")
    row_plan = plan(rules={"own": "value.Verdict == 'v'"})
    assert audit_rows(frame, row_plan).accepted == 1
    for function in (judge_rows, split_rows):
        with pytest.raises(ConfigurationError, match=r"_rows: the frame has a column verdict"):
            function(frame, row_plan)
    monkeypatch.setattr(module, "_is_known", lambda _: False)  # as in a pipeline
    assert judge_rows(frame, row_plan).columns == ["Verdict", "id", "verdict"]
    assert judge_rows(frame, row_plan).collect()[0][2].outcome == "accepted"
    with pytest.raises(AnalysisException, match=r"AMBIGUOUS|COLUMN_ALREADY_EXISTS"):
        split_rows(frame, row_plan)[0].collect()


def test_parts_of_the_record_are_not_in_the_value(spark):
    row_plan = plan(
        rules={
            "key": "key == '4'",
            "headers": "headers.h == 'v'",
            "time": "timestamp == timestamp('2024-01-01T00:00:00Z')",
            "topic": "topic == 'EUR'",
            "value": "value == {'amount': 3.0}",
        }
    )
    frame = (
        spark.sql(ORDERS)
        .where("id = 4")
        .selectExpr(
            "id",
            "double(amount) amount",
            "currency",
            "map('h', 'v') hs",
            "date'2024-01-01' day",
        )
    )
    judged = judge_rows(frame, row_plan, key="id", headers="hs", timestamp="day", topic="currency")
    assert judged.columns == [*frame.columns, "verdict"]
    [row] = judged.collect()
    assert row.verdict.objections == []
    assert row.verdict.outcome == "accepted"


def test_before_pyspark_4_1_rows_come_to_python_and_go_back(spark, monkeypatch):
    row_plan = plan(rules=RULES)
    expected = judge_rows(spark.sql(ORDERS), row_plan).orderBy("id").collect()
    monkeypatch.setattr(module, "_ARROW_UDF", None)
    frame = judge_rows(spark.sql(ORDERS), row_plan)
    assert frame.columns == ["id", "amount", "currency", "verdict"]
    assert frame.orderBy("id").collect() == expected


class Unresolved:
    """A frame whose columns cannot be read, as where a pipeline defines its tables."""

    def __init__(self, frame):
        self._frame = frame

    @property
    def sparkSession(self):  # noqa: N802 - of Spark
        return self._frame.sparkSession

    def mapInArrow(self):  # noqa: N802 - of Spark
        raise AssertionError

    def observe(self, *arguments):
        return Unresolved(self._frame.observe(*arguments))

    def withColumn(self, *arguments):  # noqa: N802
        return Unresolved(self._frame.withColumn(*arguments))

    def where(self, *arguments):
        return Unresolved(self._frame.where(*arguments))

    def select(self, *arguments):
        return Unresolved(self._frame.select(*arguments))

    def __getattr__(self, name):
        raise AssertionError(f"{name} is read")


def test_columns_and_data_are_not_looked_at(spark):
    frame = Unresolved(spark.sql(ORDERS))
    judge_rows(frame, plan(rules=RULES), key="id", observation="counts")
    split_rows(frame, plan(rules=RULES), timestamp="id", topic="currency")


def test_wrong_arguments(spark):
    frame = spark.range(1)
    with pytest.raises(ConfigurationError, match="judge_rows: pass a DataFrame of Spark, not list"):
        judge_rows([], plan(rules=RULES))
    with pytest.raises(ConfigurationError, match="split_rows: pass plan"):
        split_rows(frame, "penstock.properties")
    with pytest.raises(ConfigurationError, match="judge_rows: key: the name of a column"):
        judge_rows(frame, plan(rules=RULES), key=F.col("id"))


def test_a_plan_and_arguments_that_do_not_fit_the_columns(spark):
    frame = spark.sql(ORDERS)
    row_plan = plan(rules={"typo": "value.ammount > 0"})
    for function in (judge_rows, split_rows, audit_rows):
        with pytest.raises(ConfigurationError, match=r"_rows: rules.typo reads .* mean amount\?"):
            function(frame, row_plan)
    good = plan(rules=RULES)
    for part in ("key", "headers", "timestamp", "topic"):
        with pytest.raises(ConfigurationError, match=f": {part}: there is no column x; the rows h"):
            judge_rows(frame, good, **{part: "x"})
    with pytest.raises(ConfigurationError, match="headers: id must be an array of structs of key"):
        judge_rows(frame, good, headers="id")
    with pytest.raises(
        ConfigurationError, match="the frame has two columns id; rename or drop one"
    ):
        judge_rows(frame.select("*", "id"), good)


def test_a_frame_of_another_library(spark):
    row_plan = plan(rules=RULES)
    with pytest.raises(
        ConfigurationError, match=r"frame.DataFrame; make one with spark.createData"
    ):
        judge_rows(spark.range(1).toPandas(), row_plan)
    with pytest.raises(ConfigurationError, match=r"not str; of a table: spark.table\('orders'\)"):
        audit_rows("orders", row_plan)


def test_a_frame_needs_a_column_for_the_value(spark):
    keys = spark.range(1)
    row_plan = plan(rules={"any": "true"})
    for function in (judge_rows, split_rows):
        with pytest.raises(ConfigurationError, match=r"_rows: the frame has no column for the val"):
            function(keys, row_plan, key="id")


def test_signatures():
    keywords = ["key", "headers", "timestamp", "topic", "observation"]
    for function in (judge_rows, split_rows):
        assert list(inspect.signature(function).parameters) == ["frame", "plan", *keywords]
    assert list(inspect.signature(plan).parameters) == [
        "rules", "schema", "contract", "policies", "topic", "nulls",
    ]  # fmt: skip

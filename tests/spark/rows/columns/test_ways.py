"""Which plans and frames are judged by columns, and that their verdicts are those by values."""

from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.jobs.evaluation import Evaluator
from penstock.policies.json_schema.column_schema import ColumnSchema, names_read
from penstock.spark import judge_rows, plan
from penstock.spark.rows import judged as module
from penstock.spark.rows.batches import judged_rows
from penstock.spark.rows.columns.row_texts import row_texts
from penstock.spark.rows.columns.schema_judge import SchemaJudge
from penstock.spark.rows.columns.ways import columns_to_judge
from penstock.spark.rows.values import RecordColumns
from tests.spark.rows import generated

RULES = {
    "positive": "value.amount > 0",
    "known": "value.currency in ['EUR', 'USD', '']",
    "adult": "value.customer.age >= 18 || value.customer == null",
    "numbered": "!(value.id < 0)",
    "coloured": "has(value.currency) && value.currency != 'e'",
    "mailed": "value.customer.email.contains('@')",
    "finite": "value.ratio > -1.5",
}
SCHEMA = generated.JSON_SCHEMA | {
    "properties": {
        **generated.JSON_SCHEMA["properties"],
        "day": {"type": ["string", "null"], "minLength": 10, "pattern": "^20(23|24)-"},
        "at": {"type": ["string", "null"]},
        "tags": {"type": ["array", "null"], "maxItems": 3, "items": {"enum": ["x", "y", "z"]}},
        "counts": {"type": ["object", "null"], "additionalProperties": {"maximum": 3}},
    }
}  # fmt: skip
CONTRACT = """
apiVersion: v3.0.2
kind: DataContract
id: rows
version: 1.0.0
status: active
schema:
  - name: rows
    properties:
      - {name: id, logicalType: integer, required: true}
      - {name: amount, logicalType: number, logicalTypeOptions: {minimum: -100}}
      - {name: currency, logicalType: string, logicalTypeOptions: {maxLength: 3}}
      - {name: ok, logicalType: boolean}
"""


DEEP = reduce(lambda kind, _: T.ArrayType(kind), range(128), T.LongType())


def schema_of(**properties):
    schema = {"type": "object", "properties": properties}
    return ColumnSchema(schema, 2020, False, names_read(schema))


def fields(**types):
    return [T.StructField(name, kind) for name, kind in types.items()]


def ways(schemas, given, left_out=("verdict",)):
    return columns_to_judge(schemas, given, left_out=set(left_out), keeps_nulls=True)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("schema", "given", "expected"),
    [
        (schema_of(a={"minimum": 1}), fields(a=T.LongType(), f=T.FloatType()), ["a"]),
        (schema_of(a={"minimum": 1}), fields(A=T.LongType()), None),
        (schema_of(a={"minimum": 1}), fields(a=T.FloatType()), None),
        (schema_of(a={"pattern": "^x"}), fields(a=T.BinaryType()), None),
        (schema_of(a={"pattern": "^x"}), fields(a=T.DateType()), ["a"]),
        (schema_of(a={"pattern": "^x"}), fields(a=T.TimestampType()), None),
        (schema_of(a={"type": "string"}), fields(a=T.TimestampType()), ["a"]),
        (schema_of(a={}), fields(a=T.DayTimeIntervalType()), None),
        (schema_of(a={}), fields(a=T.LongType(), b=T.VariantType()), None),
        (schema_of(a={}), fields(a=T.LongType(), b=DEEP), None),
        (schema_of(a={}), fields(a=T.MapType(T.DateType(), T.LongType())), None),
        (schema_of(a={}), fields(a=T.MapType(T.LongType(), T.LongType())), ["a"]),
        (schema_of(a={}), fields(a=T.ArrayType(T.FloatType())), None),
        (schema_of(a={}), fields(a=T.StructType(fields(x=T.DecimalType(38, 3)))), ["a"]),
        (schema_of(a={"minimum": 1}), fields(a=T.DecimalType(5, -2)), None),
        (schema_of(a={"not": {"type": "number"}}), fields(a=T.LongType()), None),
        (schema_of(b={}), fields(a=T.LongType()), None),
    ],
)
def test_types(schema, given, expected):
    assert ways([schema], given) == expected


@pytest.mark.unit
def test_all_columns_are_needed_where_others_may_matter():
    schema = {"properties": {"a": {}}, "additionalProperties": {"type": "integer"}}
    strict = ColumnSchema(schema, 2020, False, names_read(schema))
    assert strict.fields is None
    given = fields(a=T.LongType(), b=T.LongType(), verdict=T.FloatType())
    assert ways([strict], given) == ["a", "b"]
    assert ways([schema_of(a={}), schema_of(b={})], given) == ["a", "b"]
    assert ways([strict], given, left_out=("verdict", "B")) is None
    assert ways([schema_of(a={})], fields(a=T.LongType(), A=T.LongType())) is None


@pytest.mark.unit
@pytest.mark.parametrize(("zone", "expected"), [("Asia/Kolkata", ["a"]), ("CTT", None)])
def test_zones_that_only_java_knows(zone, expected):
    given = fields(a=T.ArrayType(T.TimestampType()))
    assert (
        columns_to_judge([schema_of(a={})], given, left_out=(), keeps_nulls=True, zone=zone)
        == expected
    )


def test_plans_say_how_they_judge(tmp_path):
    assert repr(plan(rules={"a": "value.a > 0"})) == "<plan of rows: rules: by columns>"
    by_cel = plan(rules={"a": "value.a > 0", "b": "value.b.exists(x, x > 1)"}, schema={})
    text = "<plan of rows: rules: by value, since CEL judges b, schema: by columns>"
    assert (repr(by_cel), by_cel.schemas) == (text, [])


def compare_arrays(count, folder, nulls):
    """Judge generated rows by columns and by values, without Spark; return how many fit."""
    contract = folder / "rows.odcs.yaml"
    contract.write_text(CONTRACT)
    rows = generated.as_arrow(generated.rows(count, seed=4))
    texts = row_texts(rows, keeps_nulls=nulls == "null")
    fit = 0
    for arguments in ({"rules": RULES}, {"schema": SCHEMA}, {"contract": contract}):
        row_plan = plan(**arguments, nulls=nulls)
        [schema] = row_plan.schemas
        names = [name for name in generated.COLUMNS if name in schema.fields]
        columns = pa.StructArray.from_arrays([rows.field(name) for name in names], names)
        fit += pc.sum(SchemaJudge(schema, keeps_nulls=nulls == "null").fits(columns)).as_py()
        evaluator = Evaluator(row_plan.records)
        for start in range(0, count, 5000):
            by_columns = judged_rows(evaluator, row_plan, {"value": columns.slice(start, 5000)})
            by_values = judged_rows(evaluator, row_plan, {"value": texts.slice(start, 5000)})
            assert by_columns == by_values
            assert 0 < len(by_columns.verdicts) < count
        evaluator.close()
    return fit


@pytest.mark.unit
@pytest.mark.parametrize("nulls", ["null", "missing"])
def test_generated_rows(tmp_path, nulls):
    assert compare_arrays(300, tmp_path, nulls) > 300


@pytest.mark.unit
@pytest.mark.thorough
@pytest.mark.parametrize("count", [10_000, pytest.param(50_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("nulls", ["null", "missing"])
def test_twice_as_many_generated_rows(tmp_path, nulls, count):
    assert compare_arrays(count, tmp_path, nulls) > count


def verdicts(judged):
    return [row.verdict for row in judged.select(F.to_json("verdict").alias("verdict")).collect()]


def compare(monkeypatch, frame, row_plan):
    """Judge rows by columns and by values; return how many are accepted."""
    value = module.value_to_judge(frame, row_plan, RecordColumns())
    assert frame.select(value.alias("value")).schema["value"].dataType.typeName() == "struct"
    by_columns = judge_rows(frame, row_plan)
    with monkeypatch.context() as patched:
        patched.setattr(module, "columns_to_judge", lambda *_, **__: None)
        by_values = judge_rows(frame, row_plan)
    own = verdicts(by_columns)
    assert own == verdicts(by_values)
    return sum('"outcome":"accepted"' in verdict for verdict in own)


def compare_all(spark, monkeypatch, folder, count, nulls):
    contract = folder / "rows.odcs.yaml"
    contract.write_text(CONTRACT)
    rows = generated.rows(count, seed=9)
    frame = spark.createDataFrame(rows, generated.SCHEMA).coalesce(1)
    for arguments in ({"rules": RULES}, {"schema": SCHEMA}, {"contract": contract}):
        accepted = compare(monkeypatch, frame, plan(**arguments, nulls=nulls))
        assert 0 < accepted < count


@pytest.mark.cases(1)
@pytest.mark.parametrize("nulls", ["null", "missing"])
def test_verdicts_by_columns_are_those_by_values(spark, monkeypatch, tmp_path, nulls):
    compare_all(spark, monkeypatch, tmp_path, 400, nulls)


@pytest.mark.slow
@pytest.mark.parametrize("nulls", ["null", "missing"])
def test_verdicts_on_a_hundred_thousand_rows(spark, monkeypatch, tmp_path, nulls):
    compare_all(spark, monkeypatch, tmp_path, 100_000, nulls)

"""Conditions that cannot have a result for the columns of a frame are errors, before there is a row."""

import pytest
from pyspark.sql import types as T

from penstock.spark import plan
from penstock.spark.rows.columns.faults import faults_of

CUSTOMER = T.StructType([T.StructField("name", T.StringType()), T.StructField("age", T.LongType())])
FIELDS = [
    T.StructField("id", T.IntegerType()),
    T.StructField("amount", T.DoubleType()),
    T.StructField("price", T.DecimalType(10, 2)),
    T.StructField("currency", T.StringType()),
    T.StructField("ok", T.BooleanType()),
    T.StructField("at", T.TimestampType()),
    T.StructField("local", T.TimestampNTZType()),
    T.StructField("day", T.DateType()),
    T.StructField("customer", CUSTOMER),
    T.StructField("tags", T.MapType(T.StringType(), T.StringType())),
    T.StructField("lines", T.ArrayType(CUSTOMER)),
    T.StructField("unit price", T.IntegerType()),
    T.StructField("unit.price", T.IntegerType()),
    T.StructField("nothing", T.NullType()),
]


def fault(condition, others=()):
    return faults_of(plan(rules={"a": condition}).demands, FIELDS, set(others)).error


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("value.ammount > 0", "rules.a reads value.ammount, but there is no column ammount, did you m"),
        ("value.ammount > 0", "mean amount?; if it may be missing: !has(value.ammount) || ..."),
        ("value.Amount > 0", "there is no column Amount, did you mean amount?"),
        ("value['unit_pricee'] > 0", "there is no column unit_pricee, did you mean unit"),
        ("value['unit  price'] > 0", "reads value['unit  price'], but there is no column unit  pr"),
        ("value.customer.nmae == 'x'", "there is no field nmae in value.customer, did you mean name?"),
        ("value.zzz == 1", "there is no column zzz; there are id, amount, price, currency"),
        ("value.unit.price > 0", "value.unit.price, but the column unit.price is value['unit.price']"),
        ("value.amount.x > 0", "value.amount is DOUBLE, which has no fields"),
        ("value.lines.name == 'x'", "value.lines is ARRAY, which has no fields"),
        ("value.id > 0 || value.zzz == 1", "there is no column zzz"),
        ("value.linse.all(line, line.age > 0)", "no column linse, did you mean lines?"),
        ("value.currency > 0", "rules.a: value.currency is STRING, and is compared with a number; it"),
        ("value.amount == 'x'", "value.amount is DOUBLE, and is compared with a text; it is a number"),
        ("'x' == value.amount", "value.amount is DOUBLE, and is compared with a text; it is a number"),
        ("value.price > '3'", "value.price is DECIMAL(10,2), and is compared with a text"),
        ("value.id in ['1', '2']", "value.id is INT, and is compared with a text"),
        ("value.ok == 'true'", "value.ok is BOOLEAN, and is compared with a text; it is true or false"),
        ("value.ok == 1", "value.ok is BOOLEAN, and is compared with a number"),
        ("value.customer.age > 'x'", "value.customer.age is BIGINT, and is compared with a text"),
        ("value.at < now", "is compared with a time; write timestamp(value.at)"),
        ("value.at > timestamp('2026-01-31T00:00:00Z')", "a time; write timestamp(value.at)"),
        ("value.day < now", "is compared with a time; compare the text: value.day >= '2026-01-31'"),
        ("timestamp(value.day) < now", "value.day is DATE, without a zone, which timestamp() does not"),
        ("timestamp(value.local) < now", "value.local is TIMESTAMP_NTZ, without a zone"),
        ("size(value.id) > 0", "value.id is INT, which size() does not read"),
        ("value.amount.startsWith('1')", "value.amount is DOUBLE, which startsWith() does not read"),
    ],
)  # fmt: skip
def test_conditions_without_a_result(condition, text):
    assert text in (fault(condition) or "")


@pytest.mark.parametrize(
    "condition",
    [
        "value.amount > 0 && value.currency in ['EUR', 'USD']",
        "!has(value.discount) || value.discount < 5",
        "!has(value.customer.email) || value.customer.email.contains('@')",
        "has(value.x) ? value.x.y > 1 : true",
        "value.tags.any_key == 'x' && value.tags['a'] != ''",
        "value.lines.all(line, line.anything > 0)",
        "value.amount != 'NaN'",
        "value.id in [1, '1']",
        "value.at >= '2026-01-01' && value.day >= '2026-01-31'",
        "timestamp(value.at) < now",
        "value.price == 3.10",
        "value.currency == null || value.currency != ''",
        "type(value.id) == string ? value.id == 'x' : value.id > 0",
        "value.nothing == 'x' || value.nothing == 1",
        "value == {'amount': 3.0}",
        "value['unit price'] > 1",
        "key == 'x' && topic == 'rows' && headers.h == 'v'",
        "true",
    ],
)
def test_other_conditions(condition):
    assert fault(condition) is None


def test_parts_of_the_record_are_not_in_the_value():
    text = "rules.a reads value.id, but the column id is another part of the record, and not in the"
    assert text in fault("value.id > 0", ["id"])


def test_a_frame_without_columns():
    demands = plan(rules={"a": "value.id > 0"}).demands
    assert "no column id; if it may be missing" in faults_of(demands, [], set()).error

"""The JSON of rows is what Spark's `to_json` writes, with numbers of the same value."""

import json
import random
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.pandas import functions as pandas_functions

from penstock.spark.rows.columns.row_texts import row_texts
from penstock.spark.rows.values import value_of
from tests.spark.rows import generated

ROW = r"""
    SELECT 1Y b, -32768S s, 1 i, 9223372036854775807L l, cast(1.50 AS decimal(10,2)) d,
    cast(100 AS decimal(38,0)) d0, cast('0.0000001' AS decimal(10,7)) small,
    cast(1e20 AS decimal(38,10)) large, cast(0 AS decimal(38,10)) zero,
    double('NaN') nan, double('-Infinity') inf, 1e300D big, 1e-300D tiny, 1e22D exact, 100D hundred,
    -0D negative, 0.1D tenth, true t, false f, cast(NULL AS string) n,
    concat('ü"\\\n\t', char(0), char(31), char(127), '\u2028') text, cast(X'61ff62' AS string) bad,
    date'2024-02-29' day, date'0001-01-01' first, date'+10000-01-01' long, date'-0221-09-04' early,
    date'0000-03-01' year0, timestamp'2024-07-01 12:34:56.123456' ts, timestamp'1812-01-01' lmt,
    timestamp'1969-12-31 23:59:59.999999' old, timestamp'+12345-07-01 00:00:00' far,
    timestamp'2024-10-27 00:30:00Z' twice, timestamp_ntz'2024-07-01 12:34:56.123456' ntz,
    X'00ff10' bin, X'' none, named_struct('a"', 1, 'n', cast(NULL AS string)) st,
    map('k"\n', 1, 'z', NULL) m, map(1, 'x') mi, array(1, NULL, 3) arr,
    cast(array() AS array<int>) empty, cast(NULL AS array<int>) na,
    cast(map() AS map<string, int>) em, cast(NULL AS map<string, int>) nm,
    cast(NULL AS struct<a: int>) ns,
    array(named_struct('t', timestamp'2024-01-01 00:00:00', 'b', X'01',
                       'd', cast(2.50 AS decimal(5,2)), 'm', map('x', date'2024-01-01')), NULL) deep
"""


@pytest.fixture
def in_zone(spark, request):
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield spark
    spark.conf.set("spark.sql.session.timeZone", zone)


def texts_of_both(frame, nulls):
    """Return the JSON of each row by Spark, and by its columns."""

    def write(rows: pa.Array) -> pa.Array:
        return row_texts(rows, keeps_nulls=nulls == "null")

    write_texts = pandas_functions.arrow_udf(write, "string")
    both = frame.select(value_of([], nulls).alias("spark"), write_texts(F.struct("*")).alias("own"))
    return [tuple(row) for row in both.collect()]


def read(text):
    return json.loads(text, parse_float=lambda digits: ("fraction", Decimal(digits).normalize()))


@pytest.mark.cases(3)
@pytest.mark.parametrize("nulls", ["null", "missing"])
@pytest.mark.parametrize(
    "in_zone", ["Europe/Berlin", "UTC", "America/St_Johns", "+05:30"], indirect=True
)
def test_the_forms_are_those_of_spark(in_zone, nulls):
    [(expected, own)] = texts_of_both(in_zone.sql(ROW), nulls)
    assert read(own) == read(expected)
    assert list(read(own)) == list(read(expected))


def test_generated_rows(spark):
    frame = spark.createDataFrame(generated.rows(500, seed=5), generated.SCHEMA)
    for expected, own in texts_of_both(frame, "null"):
        assert read(own) == read(expected)


@pytest.mark.unit
def test_doubles_have_a_fraction_and_lead_back_to_themselves():
    rng = random.Random(2)
    doubles = [rng.choice([rng.uniform(-1e3, 1e3), rng.random() * 10.0 ** rng.randint(-300, 300),
                           float(rng.randint(-(10**17), 10**17))]) for _ in range(2000)]  # fmt: skip
    texts = row_texts(pa.array(doubles), keeps_nulls=True).to_pylist()
    assert [float(text) for text in texts] == doubles
    assert all("." in text or "e" in text for text in texts)


@pytest.mark.unit
def test_slices_and_large_types():
    rows = pa.array([{"a": [1], "b": None}, {"a": None, "b": "x"}, {"a": [], "b": '"'}]).slice(1)
    kind = pa.struct([("a", pa.list_(pa.int64())), ("b", pa.large_string())])
    assert row_texts(rows.cast(kind), keeps_nulls=False).to_pylist() == [
        '{"b":"x"}', '{"a":[],"b":"\\""}'
    ]  # fmt: skip
    assert row_texts(pa.array([b"a"], pa.large_binary()), keeps_nulls=True).to_pylist() == [
        '"YQ=="'
    ]
    assert row_texts(pa.array([{}], pa.struct([])), keeps_nulls=True).to_pylist() == ["{}"]

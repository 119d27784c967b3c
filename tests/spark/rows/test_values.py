"""The value of a row: what Spark's `to_json` writes of it, in exact forms."""

import datetime as dt
import json
from decimal import Decimal

import pytest

from penstock.configuration import ConfigurationError
from penstock.spark.rows.values import RecordColumns, value_of

ROW = r"""
    SELECT 1 i, 9223372036854775807L l, cast(1.50 AS decimal(10,2)) d, cast(100 AS decimal(38,0)) d0,
    cast('0.0000001' AS decimal(10,7)) small, cast(1e20 AS decimal(38,10)) large,
    double('NaN') nan, double('-Infinity') inf, 1e300D big, float(0.1) f, true b, NULL v,
    cast(NULL AS string) n, 'ü"\n' s, date'2024-02-29' day, date'0001-01-01' first,
    timestamp'2024-07-01 12:34:56.123456' ts, timestamp_ntz'2024-07-01 12:34:56.123456' ntz,
    X'00ff10' bin, named_struct('a', 1, 'n', cast(NULL AS string)) st,
    map('k', 1, 'z', NULL) m, map(1, 'x') mi, array(1, NULL, 3) arr, array() empty,
    cast(NULL AS array<int>) na, cast(NULL AS map<string, int>) nm,
    array(named_struct('t', timestamp'2024-01-01 00:00:00', 'b', X'01',
                       'd', cast(2.50 AS decimal(5,2)), 'm', map('x', date'2024-01-01'))) deep,
    'old' verdict, 'the key' `my key`
"""
WITH_NULLS = (
    '{"i":1,"l":9223372036854775807,"d":1.50,"d0":100,"small":1E-7,'
    '"large":100000000000000000000.0000000000,"nan":"NaN","inf":"-Infinity","big":1.0E300,"f":0.1,'
    '"b":true,"v":null,"n":null,"s":"ü\\"\\n","day":"2024-02-29","first":"0001-01-01",'
    '"ts":"2024-07-01T12:34:56.123+02:00","ntz":"2024-07-01T12:34:56.123","bin":"AP8Q",'
    '"st":{"a":1,"n":null},"m":{"k":1,"z":null},"mi":{"1":"x"},"arr":[1,null,3],"empty":[],'
    '"na":null,"nm":null,"deep":[{"t":"2024-01-01T00:00:00.000+01:00","b":"AQ==","d":2.50,'
    '"m":{"x":"2024-01-01"}}],"verdict":"old"}'
)
NULL_COLUMNS = ('"v":null,', '"n":null,', ',"n":null', '"na":null,', '"nm":null,')


@pytest.fixture
def in_berlin(spark):
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", zone)


def test_the_forms(in_berlin):
    """Nulls of a map and of an array stay in either way: only fields can be missing."""
    expected = WITH_NULLS
    for text in NULL_COLUMNS:
        expected = expected.replace(text, "", 1)
    row = in_berlin.sql(ROW).select(
        value_of(["my key"], "null").alias("null"), value_of(["my key"], "missing").alias("missing")
    )
    [(with_nulls, without)] = row.collect()
    assert with_nulls == WITH_NULLS
    assert without == expected
    value = json.loads(with_nulls, parse_float=Decimal)
    assert (value["d"], value["small"]) == (Decimal("1.50"), Decimal("0.0000001"))
    assert dt.datetime.fromisoformat(value["ts"]).utcoffset() == dt.timedelta(hours=2)


def test_parts_of_the_record(spark):
    frame = spark.sql(
        "SELECT 1 a, 'old' verdict, X'00ff' `the.key`, map('h', 'v') `b``q`, "
        "date'2024-01-01' day, 7 number"
    )
    columns = RecordColumns("the.key", "b`q", "day", "number")
    columns.check("judge_rows")
    value = value_of([name for name in columns if name is not None], "null")
    parts = {"value": value, **columns.arguments()}
    [row] = frame.select(*(part.alias(name) for name, part in parts.items())).collect()
    assert row.value == '{"a":1,"verdict":"old"}'
    assert (bytes(row.key), row.headers, row.topic) == (b"\x00\xff", {"h": "v"}, "7")
    assert row.timestamp.date() == dt.date(2024, 1, 1)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (RecordColumns(key=1), "f: key: the name of a column is required, not int"),
        (RecordColumns(key="a", headers="a"), "f: key and headers name the same column"),
    ],
)
def test_wrong_columns(columns, text):
    with pytest.raises(ConfigurationError, match=text):
        columns.check("f")

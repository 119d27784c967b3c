"""Values become the struct, array or map of a table's column, or do not fit it."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from penstock.policies.decoded.floats import Single
from penstock.policies.decoded.unclear import UNCLEAR
from penstock.spark.values.conversion import conversion_of
from penstock.spark.values.misfits import MisfitError

pytestmark = pytest.mark.unit
UTC = dt.UTC


def of(kind):
    """Return the conversion of a column of one field `a`."""
    return conversion_of(T.StructType().add("a", kind))


def converted(kind, value):
    """Return what Arrow has of a field's value."""
    made = of(kind)
    return pa.array([made.convert({"a": value})], made.arrow).to_pylist()[0]["a"]


def flaw(kind, value):
    with pytest.raises(MisfitError) as raised:
        of(kind).convert({"a": value})
    return str(raised.value)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (T.BooleanType(), True, True),
        (T.ByteType(), -128, -128),
        (T.ShortType(), 32767, 32767),
        (T.IntegerType(), -(2**31), -(2**31)),
        (T.LongType(), 2**63 - 1, 2**63 - 1),
        (T.LongType(), Decimal("12.0"), 12),
        (T.LongType(), 3.0, 3),
        (T.FloatType(), Decimal("0.5"), 0.5),
        (T.DoubleType(), 7, 7.0),
        (T.DoubleType(), Decimal("0.1"), 0.1),
        (T.DoubleType(), float("inf"), float("inf")),
        (T.DecimalType(5, 2), Decimal("123.4"), Decimal("123.40")),
        (T.DecimalType(5, 2), 7, Decimal("7.00")),
        (T.DecimalType(5, 2), 0.1, Decimal("0.10")),
        (T.DecimalType(5, 2), "-1.5", Decimal("-1.50")),
        (T.DecimalType(5, 2), "0e99", Decimal("0.00")),
        (T.DecimalType(5, 2), Single(0.10000000149011612), Decimal("0.10")),
        (T.DoubleType(), Single(0.10000000149011612), 0.10000000149011612),
        (T.FloatType(), Single(0.5), 0.5),
        (T.LongType(), Single(3), 3),
        (T.DecimalType(38, 0), 10**37, Decimal(10**37)),
        (T.StringType(), "\xe4", "\xe4"),
        (T.BinaryType(), b"\0\1", b"\0\1"),
        (T.BinaryType(), "AAE=", b"\0\1"),
        (T.DateType(), "2026-11-17", dt.date(2026, 11, 17)),
        (T.DateType(), dt.date(1, 1, 1), dt.date(1, 1, 1)),
        (T.TimestampType(), "2026-11-17T10:00:00.5+02:00",
         dt.datetime(2026, 11, 17, 8, 0, 0, 500_000, UTC)),
        (T.TimestampType(), "2026-11-17T10:00:00", dt.datetime(2026, 11, 17, 10, tzinfo=UTC)),
        (T.TimestampType(), "2026-11-17 10:00Z", dt.datetime(2026, 11, 17, 10, tzinfo=UTC)),
        (T.TimestampType(), "2026-11-17T10:00:00.1234567-0130",
         dt.datetime(2026, 11, 17, 11, 30, 0, 123_456, UTC)),
        (T.TimestampType(), dt.datetime(1960, 1, 1, tzinfo=UTC),
         dt.datetime(1960, 1, 1, tzinfo=UTC)),
        (T.TimestampNTZType(), "2026-11-17T10:00:00", dt.datetime.fromisoformat("2026-11-17T10:00")),
        (T.ArrayType(T.LongType()), [1, None], [1, None]),
        (T.MapType(T.StringType(), T.LongType()), {"x": 1, "y": None}, [("x", 1), ("y", None)]),
        (T.StructType().add("b", T.StringType()), {"b": "c", "more": 1}, {"b": "c"}),
        (T.StructType().add("b", T.StringType()), {}, {"b": None}),
        (T.StringType(), None, None),
    ],
)  # fmt: skip
def test_values_that_fit(kind, value, expected):
    found = converted(kind, value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (T.BooleanType(), 1, "is a number, not BOOLEAN"),
        (T.BooleanType(), "true", "is a string, not BOOLEAN"),
        (T.ByteType(), 128, "is out of the range of TINYINT"),
        (T.IntegerType(), 2**31, "is out of the range of INT"),
        (T.LongType(), 2**63, "is out of the range of BIGINT"),
        (T.LongType(), Decimal("1e999999"), "is out of the range of BIGINT"),
        (T.LongType(), Decimal("1.5"), "is a number with a fraction, not BIGINT"),
        (T.LongType(), float("nan"), "is a number with a fraction, not BIGINT"),
        (T.LongType(), float("inf"), "is out of the range of BIGINT"),
        (T.LongType(), "1", "is a string, not BIGINT"),
        (T.LongType(), True, "is true or false, not BIGINT"),
        (T.FloatType(), Decimal("1e39"), "is out of the range of FLOAT"),
        (T.DoubleType(), Decimal("1e400"), "is out of the range of DOUBLE"),
        (T.DoubleType(), 10**400, "is out of the range of DOUBLE"),
        (T.DoubleType(), "1", "is a string, not DOUBLE"),
        (T.DoubleType(), True, "is true or false, not DOUBLE"),
        (T.DecimalType(5, 2), Decimal("1.234"), "has more digits than DECIMAL(5,2)"),
        (T.DecimalType(5, 2), 1000, "has more digits than DECIMAL(5,2)"),
        (T.DecimalType(5, 2), Decimal("1e999999"), "has more digits than DECIMAL(5,2)"),
        (T.DecimalType(5, 2), float("nan"), "is not a number, as DECIMAL(5,2) is"),
        (T.DecimalType(5, 2), "1e9999999999999999999", "has more digits than DECIMAL(5,2)"),
        (T.DecimalType(5, 2), "1e-9999999999999999999", "has more digits than DECIMAL(5,2)"),
        (T.DecimalType(5, 2), Single("nan"), "is not a number, as DECIMAL(5,2) is"),
        (T.DecimalType(5, 2), "NaN", "is a string, not DECIMAL(5,2)"),
        (T.DecimalType(5, 2), "1_0", "is a string, not DECIMAL(5,2)"),
        (T.DecimalType(5, 2), True, "is true or false, not DECIMAL(5,2)"),
        (T.StringType(), 5, "is a number, not STRING"),
        (T.StringType(), {"a": 1}, "is an object, not STRING"),
        (T.StringType(), "\ud800", "has half a surrogate pair, which STRING cannot have"),
        (T.BinaryType(), "%", "is a string that is not base64, not BINARY"),
        (T.BinaryType(), [1], "is an array, not BINARY"),
        (T.LongType(), UNCLEAR,
         "is of one of several types of a union, which its value does not show, not BIGINT"),
        (T.DateType(), "yesterday", "is a string, not a DATE such as 2026-11-17"),
        *((T.DateType(), text, "is a string, not a DATE such as 2026-11-17") for text in (
            "20261117", "2026-W47-2", "2026-02-30", "\uff12026-11-17", "2026-11-17\n",
            "2026-11-17T10:00:00")),
        *((T.TimestampType(), text, "is a string, not a TIMESTAMP such as 2026-11-17T10:00:00Z")
          for text in (
            "20261117T100000", "2026-11-17x10:00", "2026-W47-2T10:00", "2026-11-17\ud80010:00:00",
            "2026-11-17T10:00:00,5", "2026-11-17T24:00:00", "2026-11-17T10:00:60Z", "2026-11-17",
            "2026-11-17T10:00:00Z\n", "2026-11-17T10:00:00+25:00")),
        (T.DateType(), dt.datetime(2026, 1, 1, tzinfo=UTC), "is a time, not DATE"),
        (T.DateType(), 1, "is a number, not DATE"),
        (T.TimestampType(), "yesterday",
         "is a string, not a TIMESTAMP such as 2026-11-17T10:00:00Z"),
        (T.TimestampType(), 1_700_000_000_000, "is a number, not TIMESTAMP"),
        (T.TimestampNTZType(), "2026-11-17T10:00:00Z",
         "is a time with a zone, not TIMESTAMP_NTZ"),
        (T.ArrayType(T.LongType()), {"x": 1}, "is an object, not ARRAY"),
        (T.MapType(T.StringType(), T.LongType()), [1], "is an array, not MAP"),
        (T.StructType(), "x", "is a string, not STRUCT"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit(kind, value, text):
    assert flaw(kind, value) == f"at /a {text}"


def test_the_place_of_a_flaw_has_no_name_of_the_record():
    line = T.StructType().add("b/c", T.LongType())
    assert flaw(T.ArrayType(line), [{"b/c": 1}, {"b/c": "x"}]) == (
        "at /a/1/b~1c is a string, not BIGINT"
    )
    assert flaw(T.MapType(T.StringType(), line), {"secret": {"b/c": "x"}}) == (
        "at /a/*/b~1c is a string, not BIGINT"
    )
    secret = "\ud800"
    assert flaw(T.MapType(T.StringType(), line), {secret: {"b/c": 1}}) == (
        "at /a/* has half a surrogate pair, which STRING cannot have"
    )


def test_a_field_in_other_letters():
    """A field that was renamed does not empty the column silently."""
    kind = T.StructType().add("orderId", T.LongType())
    text = "is missing: the name of a field differs from it in case only"
    for value in ({"orderid": 1}, {"ORDERID": None}):
        assert flaw(kind, value) == f"at /a/orderId {text}"
    assert converted(kind, {"orderId": 1, "orderid": 2}) == {"orderId": 1}
    assert converted(kind, {"orderId": None, "orderid": 2}) == {"orderId": None}


def test_a_small_value_that_fills_many_fields():
    """Each empty object would become all the fields of the column."""
    line = T.StructType([T.StructField(f"f{number}", T.LongType()) for number in range(50)])
    made = conversion_of(T.ArrayType(T.ArrayType(line)))
    with pytest.raises(MisfitError, match=r"fills more than 1,000,000 fields of the column$"):
        made.convert([[{}]] * 20_001)
    for _ in range(2):  # each value has the limit
        assert len(made.convert([[{}]] * 15_000)) == 15_000
    with pytest.raises(MisfitError, match=r"fills more than 1,000,000 fields of the column$"):
        conversion_of(T.ArrayType(T.ArrayType(T.LongType()))).convert([[]] * 1_000_001)


def test_nulls_where_the_table_has_none():
    required = T.StructType().add("b", T.LongType(), nullable=False)
    assert flaw(required, {"b": None}) == "at /a/b is null or missing, but NOT NULL"
    assert flaw(required, {}) == "at /a/b is null or missing, but NOT NULL"
    assert flaw(T.ArrayType(T.LongType(), False), [None]) == "at /a/0 is null, but NOT NULL"
    assert flaw(T.MapType(T.StringType(), T.LongType(), False), {"x": None}) == (
        "at /a/* is null, but NOT NULL"
    )


def test_a_null_struct_with_a_field_that_is_not_null():
    """Delta looks at the field alone, and Iceberg at the struct first."""
    inner = T.StructType().add("b", T.StructType().add("c", T.LongType(), nullable=False))
    kind = T.StructType().add("a", inner)
    assert conversion_of(kind).convert({"a": {}}) == {"a": {"b": None}}
    made = conversion_of(kind, checks_nulls=True)
    for value, place in (({}, "/a"), ({"a": {}}, "/a/b")):
        with pytest.raises(MisfitError) as raised:
            made.convert(value)
        assert str(raised.value) == (
            f"at {place} is null or missing, but a field of it is NOT NULL"
        )


def test_a_value_that_is_no_object():
    made = of(T.LongType())
    with pytest.raises(MisfitError, match=r"^is an array, not STRUCT$"):
        made.convert([1])


def test_spark_gets_types_without_not_null():
    kind = T.ArrayType(T.StructType().add("b", T.LongType(), nullable=False), False)
    assert conversion_of(kind).spark == T.ArrayType(T.StructType().add("b", T.LongType()))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (T.DayTimeIntervalType(), "value.a is INTERVAL DAY TO SECOND"),
        (T.ArrayType(T.NullType()), "value.a[] is VOID"),
        (T.MapType(T.LongType(), T.LongType()), "the keys of value.a are BIGINT, not STRING"),
        (T.MapType(T.StringType(), T.NullType()), "value.a{} is VOID"),
    ],
)
def test_types_that_no_value_has(kind, text):
    with pytest.raises(ValueError) as raised:
        of(kind)
    assert str(raised.value) == text

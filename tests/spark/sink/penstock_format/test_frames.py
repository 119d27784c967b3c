"""Rows of PySpark 4.0 become the Arrow batches that later versions bring."""

import datetime as dt

from pyspark.sql import types as T
from pyspark.sql.types import Row

from penstock.spark.sink.penstock_format.frames import record_batches

HEADER = T.StructType().add("key", T.StringType()).add("value", T.BinaryType())
COLUMNS = {
    "key": T.StringType(), "value": T.BinaryType(), "partition": T.IntegerType(),
    "offset": T.LongType(), "timestamp": T.TimestampType(), "headers": T.ArrayType(HEADER),
    "verdict": T.StructType().add("outcome", T.StringType()),
}  # fmt: skip


def schema(*names):
    return T.StructType([T.StructField(name, COLUMNS[name]) for name in names])


def test_columns_of_kafka_are_made_and_others_left_out():
    naive = dt.datetime.fromtimestamp(1_700_000_000.123456)  # noqa: DTZ006 - as PySpark gives it
    rows = [
        Row(
            "k", bytearray(b"v"), 3, 2**40, naive, [Row("h", bytearray(b"1")), Row("h", None)], None
        ),
        Row(None, None, None, None, None, None, None),
    ]
    (batch,) = record_batches(iter(rows), schema(*COLUMNS))
    first, two = batch.to_pylist()
    assert first["timestamp"] == dt.datetime.fromtimestamp(1_700_000_000.123456, dt.UTC)
    assert (first["key"], first["value"], first["partition"], first["offset"]) == (
        "k",
        b"v",
        3,
        2**40,
    )
    assert first["headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert set(two.values()) == {None}
    assert "verdict" not in first


def test_batches_are_of_a_bounded_number_of_rows():
    rows = (Row(b"") for _ in range(4001))
    found = record_batches(rows, schema("value"))
    assert [len(row) for row in found] == [2000, 2000, 1]

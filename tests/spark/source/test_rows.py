"""Stored batches as Arrow record batches: the types that Spark wants, in bounded sizes."""

import random

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from penstock.configuration import ConfigurationError
from penstock.engine.verdict import dropped, refused_record
from penstock.kafka.records.stored_batch import read_stored_batch
from penstock.policy import Header, Record
from penstock.spark.frames.arrow_records import ArrowRecords
from penstock.spark.source.rows import TYPES, RowBatches, check_types
from tests.kafka.records.encoding import encode_batch
from tests.kafka.records.implementations import IMPLEMENTATIONS, use

pytestmark = pytest.mark.unit
ALL = tuple(TYPES)
HEADERS = StructType().add("key", StringType()).add("value", BinaryType())
VERDICT = (
    StructType()
    .add("outcome", StringType())
    .add("policy", StringType())
    .add("code", IntegerType())
    .add("message", StringType())
)
SCHEMA = (
    StructType()
    .add("key", BinaryType())
    .add("value", BinaryType())
    .add("topic", StringType())
    .add("partition", IntegerType())
    .add("offset", LongType())
    .add("timestamp", TimestampType())
    .add("timestampType", IntegerType())
    .add("headers", ArrayType(HEADERS))
    .add("verdict", VERDICT)
)


@pytest.fixture(params=IMPLEMENTATIONS, autouse=True)
def implementation(request, monkeypatch):
    """Batches are read by each implementation."""
    use(request.param, monkeypatch)
    return request.param


def stored(records, base=100, **fields):
    data = encode_batch(records, base_offset=base, **fields)
    return read_stored_batch(data, max_decompressed_bytes=2**27)


def rows(batch, verdicts=(), columns=ALL, **limits):
    making = RowBatches(columns, **limits)
    return [*making.add("t", 3, batch, verdicts), *making.rest()]


def test_the_types_are_those_that_spark_checks_for():
    (made,) = rows(stored([Record(1, b"k", b"v", (Header("a", b"1"),))]))
    wanted = to_arrow_schema(SCHEMA, timezone="UTC")
    assert {field.name: field.dataType.simpleString() for field in SCHEMA} == {
        name: kind.replace(" ", "") for name, kind in TYPES.items()
    }
    assert wanted.equals(made.schema)
    (without,) = rows(stored([Record(1, None, None, ())]))
    assert wanted.equals(without.schema)


def test_values():
    records = [
        Record(5, b"k", None, (Header("a", b"1"), Header("a", None))),
        Record(-1, None, b"", ()),
        Record(7, b"", b"v", (Header("\xe4", b""),)),
    ]
    verdicts = [(2, dropped("p.D")), (0, refused_record("bad", "p.P"))]
    (made,) = rows(stored(records), verdicts)
    assert made.column("key").to_pylist() == [b"k", None, b""]
    assert made.column("value").to_pylist() == [None, b"", b"v"]
    assert set(made.column("topic").to_pylist()) == {"t"}
    assert set(made.column("partition").to_pylist()) == {3}
    assert made.column("offset").to_pylist() == [100, 101, 102]
    assert made.column("timestamp").cast(pa.int64()).to_pylist() == [5000, -1000, 7000]
    assert set(made.column("timestampType").to_pylist()) == {0}
    assert made.column("headers").to_pylist() == [
        [{"key": "a", "value": b"1"}, {"key": "a", "value": None}],
        None,
        [{"key": "\xe4", "value": b""}],
    ]
    outcomes = [verdict["outcome"] for verdict in made.column("verdict").to_pylist()]
    assert outcomes == ["refused", "accepted", "dropped"]


def test_a_timestamp_that_spark_cannot_have_is_null_and_in_a_header():
    fits = (2**63 - 1) // 1000
    given = [5, fits, -fits, fits + 1, 2**62, -(2**62)]
    (made,) = rows(stored([Record(timestamp, None, b"", ()) for timestamp in given]))
    in_micros = made.column("timestamp").cast(pa.int64()).to_pylist()
    assert in_micros == [5000, fits * 1000, -fits * 1000, None, None, None]
    assert made.column("headers").to_pylist() == [None] * 3 + [
        [{"key": "__penstock.timestamp", "value": b"%d" % timestamp}] for timestamp in given[3:]
    ]
    columns = ArrowRecords(dict(zip(made.schema.names, made.columns, strict=True))).columns(
        0, len(given)
    )
    assert list(columns.timestamps) == given
    assert not any(columns.headers)


def test_a_part_of_a_batch():
    batch = stored([Record(n, b"%d" % n, b"", ()) for n in range(10)]).between(103, 105)
    (made,) = rows(batch, [(1, refused_record("bad", "p.P"))])
    assert made.column("offset").to_pylist() == [103, 104]
    assert made.column("key").to_pylist() == [b"3", b"4"]
    assert [verdict["outcome"] for verdict in made.column("verdict").to_pylist()] == [
        "accepted",
        "refused",
    ]


def test_small_batches_are_merged_and_large_batches_divided():
    chance, making, sent = random.Random(5), RowBatches(ALL, rows_max=50, bytes_max=20_000), []
    made = []
    for number in range(40):
        count = chance.choice([1, 3, 120])
        records = [Record(n, None, bytes(chance.choice([0, 10, 3000])), ()) for n in range(count)]
        sent += [len(record.value) for record in records]
        made += making.add("t", 0, stored(records, base=number * 1000), ())
    made += making.rest()
    assert [len(value) for batch in made for value in batch.column("value").to_pylist()] == sent
    assert all(len(item) <= 50 and (item.nbytes <= 20_000 or len(item) == 1) for item in made)
    assert len(made) < 400
    assert list(making.rest()) == []


def test_a_single_row_may_be_larger():
    made = rows(stored([Record(1, None, bytes(50_000), ()) for _ in range(3)]), bytes_max=20_000)
    assert [len(item) for item in made] == [1, 1, 1]


def test_only_some_columns_in_their_order():
    (made,) = rows(stored([Record(1, None, b"v", ())]), columns=("offset", "value"))
    assert made.schema.names == ["offset", "value"]


def test_columns_of_a_user():
    check_types({"value": "binary", "headers": "array<struct<key:string,value:binary>>"})
    with pytest.raises(ConfigurationError, match="no column values; there are key, value,"):
        check_types({"values": "binary"})
    with pytest.raises(ConfigurationError, match="column offset is bigint, not int"):
        check_types({"offset": "int"})

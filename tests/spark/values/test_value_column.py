"""The column `value` of a table: which types are parsed, and what becomes of a batch."""

import pickle

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from penstock.configuration import ConfigurationError
from penstock.engine.verdict import Outcome, PolicyVerdict
from penstock.policies.decoded.errors import NotDecodedError
from penstock.policy import RetriableException
from penstock.spark.frames.arrow_records import verdict_array
from penstock.spark.values.value_column import PARSED, ValueColumn

pytestmark = pytest.mark.unit
ORDER = T.StructType().add("id", T.LongType(), nullable=False).add("note", T.StringType())


def table(kind, **options):
    return T.StructType().add("key", T.BinaryType()).add("value", kind, **options)


def batch(*values, refused=()):
    verdict = PolicyVerdict(outcome=Outcome.REFUSED, policy="a.Policy", code=87, message="bad")
    return pa.RecordBatch.from_pydict(
        {
            "value": pa.array(values, pa.binary()),
            "topic": pa.array(["t"] * len(values), pa.string()),
            "partition": pa.array(range(len(values)), pa.int32()),
            "verdict": verdict_array(len(values), [(row, verdict) for row in refused]),
        }
    )


def added(column, *values, **options):
    """Return the rows of a batch with its parsed values."""
    return column.added_to(batch(*values, **options), lambda _: None).to_pylist()


@pytest.mark.parametrize("kind", [T.BinaryType(), T.StringType(), T.LongType(), T.StringType()])
def test_bytes_are_not_parsed(kind):
    assert ValueColumn.of("orders", table(kind)) is None


def test_a_table_without_values():
    assert ValueColumn.of("orders", T.StructType()) is None


@pytest.mark.parametrize(
    "kind", [ORDER, T.ArrayType(ORDER), T.MapType(T.StringType(), T.LongType())]
)
def test_structs_arrays_and_maps_are_parsed(kind):
    column = ValueColumn.of("orders", table(kind))
    assert pickle.loads(pickle.dumps(column)).kind == kind
    assert ValueColumn.of("orders", T.StructType().add("VALUE", kind)) == column


@pytest.mark.parametrize(
    ("kind", "metadata", "text"),
    [
        (T.StructType().add("a", T.NullType()), None,
         "table:db.orders: value.a is VOID, which no value can be parsed to: change its type"),
        (ORDER, {"__CHAR_VARCHAR_TYPE_STRING": "struct<id:bigint,note:varchar(3)>"},
         "table:db.orders: value has a CHAR or VARCHAR, whose length is not checked before"),
    ],
)  # fmt: skip
def test_types_that_are_refused_at_the_start(kind, metadata, text):
    with pytest.raises(ConfigurationError) as raised:
        ValueColumn.of("db.orders", table(kind, metadata=metadata))
    assert str(raised.value).startswith(text)


def test_values_are_parsed():
    column = ValueColumn.of("orders", table(ORDER))
    rows = added(column, b'{"id": 1, "note": "x", "more": 2}', None, b'{"id": 2}')
    assert [row[PARSED] for row in rows] == [
        {"id": 1, "note": "x"}, None, {"id": 2, "note": None},
    ]  # fmt: skip
    assert {row["verdict"]["outcome"] for row in rows} == {"accepted"}
    assert rows[0]["value"] == b'{"id": 1, "note": "x", "more": 2}'


def test_values_that_do_not_fit_are_refused():
    column = ValueColumn.of("db.orders", table(ORDER))
    rows = added(column, b'{"id": "secret"}', b'{"id": 1}', b"secret", refused=[2])
    assert [row[PARSED] for row in rows] == [None, {"id": 1, "note": None}, None]
    assert rows[0]["verdict"] == {
        "outcome": "refused",
        "policy": "table",
        "code": 87,
        "message": "the value does not fit table db.orders: at /id is a string, not BIGINT",
    }
    assert rows[1]["verdict"]["outcome"] == "accepted"
    assert rows[2]["verdict"]["policy"] == "a.Policy"


def test_values_that_no_policy_reads():
    (row,) = added(ValueColumn.of("orders", table(ORDER)), b"\0secret")
    assert row["verdict"]["message"] == (
        "the value does not fit table orders: is not JSON, and no policy of its topic reads it by "
        "a schema"
    )


@pytest.mark.parametrize("value", [b"9" * 5000, b"[" * 100_000, b'{"id": 1e9999999999999999999}'])
def test_json_that_is_too_large(value):
    (row,) = added(ValueColumn.of("orders", table(ORDER)), value)
    assert row["verdict"]["message"] == (
        "the value does not fit table orders: has thousands of digits or levels"
    )


@pytest.mark.parametrize(
    ("kind", "name"),
    [(ORDER, "STRUCT"), (T.ArrayType(ORDER), "ARRAY"), (T.MapType(T.StringType(), ORDER), "MAP")],
)
def test_the_text_null(kind, name):
    """The record is no tombstone, whose value is null."""
    rows = added(ValueColumn.of("orders", table(kind)), b"null", None)
    assert rows[0]["verdict"]["message"] == (
        f"the value does not fit table orders: is null, not {name}"
    )
    assert rows[1]["verdict"]["outcome"] == "accepted"


def test_a_record_that_nobody_expects():
    """It becomes a dead letter, so the stream continues; the text of the exception has content."""

    class Surprised:
        reads_headers = False

        def read(self, value, _headers, _wanted):
            if value == b"{}":
                raise ZeroDivisionError("secret")
            return {"id": 1}

    column = ValueColumn.of("orders", table(ORDER))
    rows = column.added_to(batch(b"{}", b"[]"), lambda _: Surprised()).to_pylist()
    assert rows[0]["verdict"]["message"] == (
        "the value does not fit table orders: cannot be read (ZeroDivisionError)"
    )
    assert (rows[1]["verdict"]["outcome"], rows[1][PARSED]) == (
        "accepted", {"id": 1, "note": None},
    )  # fmt: skip


@pytest.mark.parametrize(
    "error", [RetriableException("now"), MemoryError(), OSError(), ImportError()]
)
def test_errors_that_are_not_of_the_record(error):
    class Away:
        reads_headers = False

        def read(self, *_):
            raise error

    with pytest.raises(type(error)):
        ValueColumn.of("orders", table(ORDER)).added_to(batch(b"{}"), lambda _: Away())


def test_the_fields_that_readers_are_given():
    column = ValueColumn.of("orders", table(T.ArrayType(ORDER)))
    wanted = column.wanted
    assert wanted.of("id") is not None
    assert wanted.of("Note") is not None
    assert wanted.of("more") is None
    assert ValueColumn.of("orders", table(T.MapType(T.StringType(), ORDER))).wanted.of("x").of("id")


def test_a_null_where_the_column_has_none():
    column = ValueColumn.of("orders", table(ORDER, nullable=False))
    (row,) = added(column, None)
    assert row["verdict"]["message"] == (
        "the value does not fit table orders: is null, but NOT NULL"
    )


def test_a_null_that_delta_refuses():
    column = ValueColumn.of("orders", table(ORDER), "delta")
    (row,) = added(column, None)
    assert row["verdict"]["message"] == (
        "the value does not fit table orders: is null, but a field of it is NOT NULL"
    )
    (row,) = added(ValueColumn.of("orders", table(ORDER), "iceberg"), None)
    assert row["verdict"]["outcome"] == "accepted"


def test_an_empty_batch():
    assert added(ValueColumn.of("orders", table(ORDER))) == []


class Reader:
    """Reads values by their header."""

    reads_headers = True

    def read(self, value, headers, _wanted):
        if value == b"secret":
            raise NotDecodedError("does not fit its schema")
        return {"id": len(value), "note": headers[0].value.decode() if headers else None}


def test_values_that_a_policy_reads():
    column = ValueColumn.of("orders", table(ORDER))
    given = batch(b"secret", b"abc", b"{}", None)
    of_kafka = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.array([None, [("h", b"x")], None, None], of_kafka)
    given = given.append_column("headers", headers)
    readers = {"t": Reader()}
    for topic in (None, "t"):
        rows = column.added_to(given, readers.get, topic).to_pylist()
        assert [row[PARSED] for row in rows] == [
            None, {"id": 3, "note": "x"}, {"id": 2, "note": None}, None,
        ]  # fmt: skip
        assert rows[0]["verdict"]["message"] == (
            "the value does not fit table orders: does not fit its schema"
        )

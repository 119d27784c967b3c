"""Columns of a batch: their content, for which records, and as Arrow."""

import pyarrow as pa
import pytest

from penstock.engine.stored_columns import StoredColumns
from penstock.kafka.records.batch import read_batch
from penstock.policy import Header, Record
from tests.kafka.records.encoding import encode_batch
from tests.kafka.records.implementations import IMPLEMENTATIONS, use

RECORDS = [
    Record(5, b"a", b"one", (Header("h", b"x"),)),
    Record(6, None, b"", ()),
    Record(4, b"", None, (Header("h", None), Header("i", b""))),
    *(Record(7 + i, None, b"%d" % i * 3, ()) for i in range(20)),
]


@pytest.fixture(params=IMPLEMENTATIONS)
def columns(request, monkeypatch):
    use(request.param, monkeypatch)
    data = encode_batch(RECORDS)
    read = read_batch(data, api_version=9, max_decompressed_bytes=1 << 20)
    return StoredColumns(read.records)


def rows(columns):
    return list(zip(columns.timestamps, columns.keys, columns.values, columns.headers, strict=True))


def test_all_of_them(columns):
    assert columns.count == len(RECORDS)
    assert rows(columns) == [tuple(record) for record in RECORDS]
    assert rows(columns) == rows(columns)


def test_a_column_is_a_sequence_and_is_made_once(columns):
    assert len(columns.values) == len(RECORDS)
    assert columns.values[2] is None
    assert columns.values[-1] == b"19" * 3
    assert all(value is other for value, other in zip(columns.values, columns.values, strict=True))
    with pytest.raises(IndexError):
        columns.values[len(RECORDS)]


def test_some_of_them(columns):
    some = columns.pick([0, 2, 7])
    assert some.count == len(some.keys) == 3
    assert rows(some) == [tuple(RECORDS[at]) for at in (0, 2, 7)]
    assert some.keys[1] == b""
    assert rows(some.pick([1, 2])) == [tuple(RECORDS[at]) for at in (2, 7)]
    assert rows(some.pick([])) == []
    assert some.values.arrow is None


def test_as_arrow(columns):
    for column in (columns.keys, columns.values):
        array = column.arrow
        if array is not None:
            array.validate(full=True)
            assert array.type == pa.binary()
            assert array.to_pylist() == list(column)
    assert getattr(columns.headers, "arrow", None) is None


def test_the_rest_after_a_prefix_in_all_and_in_some(columns):
    assert columns.values_after(b"") is None  # a value is null
    assert columns.pick(range(3, 13)).values_after(b"") == tuple(b"%d" % i * 3 for i in range(10))
    tens = columns.pick(range(13, 23)).values_after(b"1")
    assert tens == tuple((b"%d" % i * 3)[1:] for i in range(10, 20))
    assert columns.pick([3, 4]).values_after(b"1") is None
    assert columns.pick([0]).keys_after(b"a") == (b"",)
    assert columns.pick([0]).keys_after(b"ab") is None
    assert columns.pick([0, 1]).keys_after(b"") is None
    assert columns.pick([]).keys_after(b"a") == ()


def test_headers_of_a_name_in_all_and_in_some(columns):
    assert [columns.has_header(name) for name in ("h", "i", "", "hi")] == [True, True, False, False]
    assert columns.pick([0, 5]).has_header("h")
    assert not columns.pick([0, 5]).has_header("i")
    assert not columns.pick([]).has_header("h")

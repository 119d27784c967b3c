"""The batch that policies get: its content, which does not change."""

import sys

import numpy as np
import pyarrow as pa
import pytest

from penstock.engine.columns import Columns, columns_of
from penstock.engine.interceptors.policy_batch import ArrowMissingError, PolicyBatch, binary_array
from penstock.engine.stored_columns import StoredColumns
from penstock.kafka.records.batch import read_batch
from penstock.policy import Header, Record, RecordIntrospectionHints
from tests.kafka.records.encoding import encode_batch

RECORDS = [
    Record(5, b"key", b"value", (Header("h", b"1"), Header("h", None))),
    Record(-1, None, None),
    Record(7, b"", b""),
]


class Counted:
    """A column that counts how often it is read."""

    def __init__(self, items):
        self.items, self.times = items, 0

    def __iter__(self):
        self.times += 1
        return iter(self.items)


def test_columns_equal_the_records():
    batch = PolicyBatch(columns_of(RECORDS))
    assert len(batch) == 3
    assert batch.keys == (b"key", None, b"")
    assert batch.values == (b"value", None, b"")
    assert batch.headers == (RECORDS[0].headers, (), ())
    assert batch.timestamps == (5, -1, 7)
    assert (batch.keys_arrow.type, batch.values_arrow.type) == (pa.binary(), pa.binary())
    assert batch.keys_arrow.to_pylist() == [b"key", None, b""]
    assert batch.values_arrow.to_pylist() == [b"value", None, b""]
    batch.values_arrow.validate(full=True)


def test_a_column_is_made_once_and_only_if_it_is_looked_at():
    made = [Counted([1, 2]), Counted([b"a", b"b"]), Counted([b"c", b"d"]), Counted([(), ()])]
    batch = PolicyBatch(Columns(2, *made))
    assert [item.times for item in made] == [0, 0, 0, 0]
    assert batch.values is batch.values
    assert batch.values_arrow is batch.values_arrow
    assert [item.times for item in made] == [0, 0, 1, 0]


@pytest.mark.parametrize("count", [0, 1, 4, 2**31 - 1, 2**63 - 1])
def test_hints_bound_the_columns(count):
    hints = RecordIntrospectionHints(False, count, count)
    batch = PolicyBatch(columns_of(RECORDS), hints)
    expected = [record.value[:count] if record.value is not None and count else None
                for record in RECORDS]  # fmt: skip
    assert list(batch.values) == expected
    assert batch.values_arrow.to_pylist() == expected
    assert list(batch.keys) == batch.keys_arrow.to_pylist()
    assert batch.headers == ((), (), ())


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_an_arrow_array_is_not_copied_and_hints_bound_it_too(kind):
    class Column(list):
        arrow = pa.array([b"abc", None, b"defg", b""], kind)[1:]

    values = Column(Column.arrow.to_pylist())
    records = Columns(3, [0, 0, 0], [None] * 3, values, [()] * 3)
    array = PolicyBatch(records).values_arrow
    assert array.to_pylist() == [None, b"defg", b""]
    assert array.type == kind
    assert array.buffers()[2].address == Column.arrow.buffers()[2].address
    assert array.offset == 1
    hinted = PolicyBatch(records, RecordIntrospectionHints(True, 0, 2))
    assert hinted.values_arrow.to_pylist() == [None, b"de", b""]
    assert hinted.keys_arrow.to_pylist() == [None] * 3


ALIKE = [
    Record(0, b"abk", b"abcde", (Header("h", b"1"),)),
    Record(0, b"ab", b"abcdx"),
    Record(0, b"abkk", b"abcd", (Header("i", None),)),
]


@pytest.mark.parametrize("picked", [False, True])
@pytest.mark.parametrize("stored", [False, True])
def test_the_rest_after_a_prefix_within_the_hints(stored, picked):
    records = columns_of(ALIKE)
    if stored:
        data = encode_batch(ALIKE)
        records = StoredColumns(
            read_batch(data, api_version=9, max_decompressed_bytes=1 << 20).records
        )
    if picked:
        records = records.pick([0, 1, 2])
    whole = PolicyBatch(records)
    assert whole.values_after(b"ab") == (b"cde", b"cdx", b"cd")
    assert whole.keys_after(b"ab") == (b"k", b"", b"kk")
    assert whole.keys_after(b"") == whole.keys
    assert (whole.values_after(b"abcde"), whole.keys_after(b"b")) == (None, None)
    assert [whole.has_header(name) for name in ("h", "i", "j")] == [True, True, False]

    cut = PolicyBatch(records, RecordIntrospectionHints(False, 0, 3))
    assert cut.values_after(b"ab") == (b"c",) * 3
    assert cut.values_after(b"abc") == (b"",) * 3
    assert cut.values_after(b"abcd") is None
    assert cut.keys_after(b"") is None
    assert not cut.has_header("h")


def test_a_null_has_no_rest_and_no_column_is_made():
    batch = PolicyBatch(columns_of(RECORDS))
    assert batch.values_after(b"") is None
    assert PolicyBatch(columns_of([RECORDS[2]])).values_after(b"") == (b"",)
    made = [Counted([1, 2]), Counted([b"a", b"b"]), Counted([b"c", b"d"]), Counted([(), ()])]
    batch = PolicyBatch(Columns(2, *made))
    assert batch.values_after(b"") == (b"c", b"d")
    assert not batch.has_header("h")
    assert [item.times for item in made] == [0, 0, 1, 1]


def test_nothing_can_be_altered():
    batch = PolicyBatch(columns_of(RECORDS))
    for name in ("keys", "values", "headers", "timestamps", "values_arrow", "other"):
        with pytest.raises(AttributeError):
            setattr(batch, name, ())
    assert batch.values
    with pytest.raises(AttributeError):
        del batch.values
    with pytest.raises(TypeError):
        batch.values[0] = b"other"
    with pytest.raises(AttributeError):
        batch.headers[0][0].value = b"other"
    for array in (batch.values_arrow, batch.keys_arrow):
        for buffer in filter(None, array.buffers()):
            with pytest.raises(ValueError, match="read-only"):
                np.frombuffer(buffer, np.uint8)[:1] = 0


def test_arrays_of_nothing_and_of_much():
    batch = PolicyBatch(columns_of([Record(0, None, None)]))
    assert batch.values_arrow.to_pylist() == [None]
    assert binary_array(pa, [b"abc", None, b"d"], 4).type == pa.binary()
    large = binary_array(pa, [b"abc", None, b"d"], 3)
    assert large.type == pa.large_binary()
    assert large.to_pylist() == [b"abc", None, b"d"]


def test_without_pyarrow_the_error_names_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    batch = PolicyBatch(columns_of(RECORDS))
    assert batch.values[0] == b"value"
    with pytest.raises(ArrowMissingError, match="need pyarrow, which is not installed"):
        _ = batch.values_arrow


def test_its_repr_does_not_show_its_contents():
    assert repr(PolicyBatch(columns_of(RECORDS))) == "PolicyBatch(3 records)"

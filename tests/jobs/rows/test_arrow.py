"""Records as batches of Arrow, and back."""

import random

import pyarrow as pa
import pytest

from penstock.errors import MalformedError
from penstock.jobs.rows.arrow import HEADERS, SCHEMA, batch_of, headers_array, rows_of
from penstock.jobs.rows.records import RecordRow
from penstock.policy import Header

NUMBERS = [0, 1, -1, 2**31 - 1, -(2**31), None]
TIMES = [0, 5, -1, 1_700_000_000_000, 2**62, -(2**62), 2**63 - 1, -(2**63), None]
CONTENTS = [None, b"", b"a", b"\xff" * 300]
HEADER_LISTS = [
    (), (Header("a", b"1"),), (Header("", None), Header("__penstock.timestamp", b"7")),
    (Header("__penstock.timestamp", b"x"), Header("a", b"")), (Header(None, b"1"),),
]  # fmt: skip


def record(chance):
    return RecordRow(
        chance.choice(["t", "u", None]), chance.choice(NUMBERS), chance.choice([*NUMBERS, 2**63 - 1]),
        chance.choice(TIMES), chance.choice([0, 1, None]), chance.choice(CONTENTS),
        chance.choice(CONTENTS), chance.choice(HEADER_LISTS),
    )  # fmt: skip


def columns_of(batch):
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def test_records_come_back_from_a_batch():
    chance = random.Random(53)
    rows = [record(chance) for _ in range(2000)]
    batch = batch_of(rows)
    assert batch.schema == SCHEMA
    assert list(rows_of(columns_of(batch))) == rows
    assert list(rows_of(columns_of(batch.slice(500, 700)))) == rows[500:1200]
    assert batch_of([]).num_rows == 0


def test_types_and_kinds_of_columns_that_files_have():
    batch = batch_of([RecordRow("t", 1, 2, 3000, None, b"k", b"v", ())])
    columns = columns_of(batch)
    del columns["timestampType"], columns["headers"]
    for unit in ("ms", "ns"):
        columns["timestamp"] = pa.array([3_000_000], pa.timestamp("us")).cast(pa.timestamp(unit))
        assert list(rows_of(columns)) == [RecordRow("t", 1, 2, 3000, None, b"k", b"v", ())]


def test_a_header_that_is_null_is_refused():
    columns = columns_of(batch_of([RecordRow("t", 1, 2, 3, 0, b"k", b"v", (Header("a", b"1"),))]))
    columns["headers"] = pa.array([[None]], HEADERS)
    with pytest.raises(MalformedError, match="a header that is null"):
        list(rows_of(columns))


def test_headers_have_the_type_of_their_column():
    kind = pa.list_(pa.field("item", pa.struct([("key", pa.string()), ("value", pa.binary())])))
    some = headers_array([(), (Header("a", None),)], kind)
    assert some.type == kind
    assert some.to_pylist() == [None, [{"key": "a", "value": None}]]
    assert headers_array([(), ()], kind).null_count == 2

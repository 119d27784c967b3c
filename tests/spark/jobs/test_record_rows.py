"""Rows of frames as records, and back."""

import pytest

from penstock.jobs.rows.arrow import SCHEMA, batch_of
from penstock.jobs.rows.records import RecordRow
from penstock.jobs.rows.row_jobs import OutgoingRow
from penstock.policy import Header
from penstock.spark.jobs import record_rows as module
from penstock.spark.jobs.record_rows import OUTCOME, outgoing_batches, record_rows
from penstock.spark.sink.topic_rows import SINK


def row(number, value=b"v", timestamp=5):
    return RecordRow("t", 1, number, timestamp, 0, b"k", value, (Header("own", None),))


def test_records_of_all_batches_come_in_order():
    rows = [row(number) for number in range(7)]
    assert list(record_rows(iter([batch_of(rows[:3]), batch_of([]), batch_of(rows[3:])]))) == rows


def test_rows_have_their_sink_and_their_outcome():
    rows = [OutgoingRow("returned", "returned", row(1)), OutgoingRow(None, "dropped", row(2)),
            OutgoingRow("again", None, row(3, timestamp=2**62))]  # fmt: skip
    [batch] = outgoing_batches(iter(rows))
    assert batch.schema.names == [*SCHEMA.names, SINK, OUTCOME]
    assert batch.column(SINK).to_pylist() == ["returned", None, "again"]
    assert batch.column(OUTCOME).to_pylist() == ["returned", "dropped", None]
    assert list(record_rows(iter([batch]))) == [row.row for row in rows]
    assert list(outgoing_batches(iter([]))) == []


@pytest.mark.parametrize(("limit", "sizes"), [
    (("_ROWS_MAX", 3), [3, 3, 1]),
    (("_BYTES_MAX", 250), [3, 3, 1]),  # a row has 104 bytes
])  # fmt: skip
def test_batches_are_bounded(monkeypatch, limit, sizes):
    monkeypatch.setattr(module, *limit)
    rows = [OutgoingRow("accepted", "accepted", row(number, b"x" * 100)) for number in range(7)]
    assert [len(batch) for batch in outgoing_batches(iter(rows))] == sizes

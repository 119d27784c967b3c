"""Judged columns with their sinks: as each row is split without Spark."""

import random

import pyarrow as pa
import pytest

from penstock.engine.chain import RecordVerdicts
from penstock.engine.verdict import Outcome, PolicyVerdict, dropped, refused
from penstock.jobs.rows.arrow import SCHEMA, batch_of, rows_of
from penstock.jobs.rows.records import RecordRow
from penstock.jobs.rows.row_jobs import OutgoingRow, split_rows
from penstock.policy import Header
from penstock.spark.frames.arrow_records import verdict_array
from penstock.spark.jobs.outgoing_records import outgoing

NAMES = [
    "own", "", None, "__dlq.errors.topic", "__dlq.errors.partition", "__dlq.errors.offset",
    "__penstock.timestamp", "__penstock.replays", "__penstock.message", "__dlq.id",
]  # fmt: skip
VALUES = [None, b"", b"t", b"0", b"7", b" 3 ", b"-5", b"x", b"9" * 18, b"%d" % 2**62]
VERDICTS = {
    b"bad": refused(87, "bad", "p.NoBad"),
    b"worse": refused(42, None, "p.NoWorse"),
    b"fail": PolicyVerdict(outcome=Outcome.FAILED, policy="p.Fails", code=-1, message="failed"),
    b"drop": dropped("p.Upper"),
}


class Policies:
    """Refuses, drops and fails on some values, and writes the others in capitals."""

    def digest(self, topic):
        return f"digest-of-{topic}"

    def judge_records(self, topic, partition, columns):
        verdicts = [
            (index, VERDICTS[value])
            for index, value in enumerate(columns.values)
            if value in VERDICTS
        ]
        values = [value and value.upper() for value in columns.values]
        return RecordVerdicts(verdicts, (columns.keys, values))


def record(chance):
    def one_of(*entries):
        return chance.choice([*entries, None])

    headers = [
        Header(chance.choice(NAMES), chance.choice(VALUES)) for _ in range(chance.randrange(5))
    ]
    return RecordRow(
        one_of("t", "u"), one_of(0, 3), one_of(0, 2**40), one_of(0, -1, 5000, 2**62, -(2**62)),
        one_of(0, 1), one_of(b"k"), one_of(b"good", b"", *VERDICTS), tuple(headers),
    )  # fmt: skip


def as_read(rows):
    """Return rows as they are read from a batch: a header may be their timestamp."""
    batch = batch_of(rows)
    return list(rows_of(dict(zip(batch.schema.names, batch.columns, strict=True))))


def judged(rows, *, replacing):
    """Return rows as a batch of Spark's with the columns that a judge adds."""
    batch = batch_of(rows)
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    verdicts = [(i, VERDICTS[row.value]) for i, row in enumerate(rows) if row.value in VERDICTS]
    # Spark's arrays have other names in their types.
    columns["headers"] = columns["headers"].cast(
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    )
    columns["verdict"] = verdict_array(len(rows), verdicts)
    if replacing:
        columns |= {"original_key": columns["key"], "original_value": columns["value"]}
        turned_away = [row.value in VERDICTS for row in rows]
        values = [None if away else row.value and row.value.upper()
                  for row, away in zip(rows, turned_away, strict=True)]  # fmt: skip
        columns["value"] = pa.array(values, pa.binary())
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def outgoing_rows(batch):
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    outcomes = [verdict["outcome"] for verdict in columns["verdict"].to_pylist()]
    for sink, outcome, row in zip(
        columns["sink"].to_pylist(), outcomes, rows_of(columns), strict=True
    ):
        yield OutgoingRow(sink, outcome, row)


@pytest.mark.parametrize("count", [0, 1, 3000])
def test_rows_are_split_as_without_spark(count):
    chance = random.Random(count)
    rows = as_read(record(chance) for _ in range(count))
    expected = list(split_rows(rows, Policies()))
    [batch] = outgoing(iter([judged(rows, replacing=True)]), Policies().digest)
    found = list(outgoing_rows(batch))
    assert [row.sink for row in found] == [row.sink for row in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.outcome == theirs.outcome
        if theirs.sink is not None:
            assert ours.row == theirs.row


def test_columns_of_accepted_records_are_not_copied():
    rows = [RecordRow("t", 0, i, 5, 0, b"k", b"good", (Header("own", b"1"),)) for i in range(10)]
    batch = judged(rows, replacing=False)
    [result] = outgoing(iter([batch]), Policies().digest)
    for name in SCHEMA.names:
        ours, theirs = (some.column(name).buffers() for some in (result, batch))
        assert [b and b.address for b in ours] == [b and b.address for b in theirs]
    assert set(result.column("sink").to_pylist()) == {"accepted"}


def test_a_batch_that_is_part_of_another():
    rows = [RecordRow("t", 0, i, 5, 0, b"k", b"bad" if i % 3 else b"good", ()) for i in range(90)]
    batch = judged(rows, replacing=False)
    [part] = outgoing(iter([batch.slice(30, 31)]), Policies().digest)
    expected = list(split_rows(rows[30:61], Policies()))
    assert [(row.sink, row.row.headers) for row in outgoing_rows(part)] == [
        (row.sink, row.row.headers) for row in expected
    ]


def test_a_record_is_refused_later_if_its_verdict_has_changed():
    rows = [RecordRow("t", 0, i, 5, 0, b"k", value, ()) for i, value in
            enumerate([b"good", b"bad", b"drop", b"good"])]  # fmt: skip
    [first] = outgoing(iter([judged(rows, replacing=True)]), Policies().digest)
    columns = dict(zip(first.schema.names, first.columns, strict=True))
    verdicts = columns["verdict"].to_pylist()
    verdicts[3] = {"outcome": "refused", "policy": "table", "code": 87, "message": "no fit"}
    columns["verdict"] = pa.array(verdicts, columns["verdict"].type)
    again = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
    [second] = outgoing(iter([again]), Policies().digest)
    assert second.column("sink").to_pylist() == ["accepted", "rejected", None, "rejected"]
    assert second.slice(0, 3).equals(first.slice(0, 3))
    last = list(outgoing_rows(second))[3].row
    assert (last.value, dict(last.headers)["__penstock.message"]) == (b"good", b"no fit")
    assert dict(last.headers)["__dlq.plan"] == b"digest-of-t"

"""Columns of rows as policies and sinks see them."""

import pyarrow as pa
import pytest

from penstock.engine.all_objections import AllVerdicts, NamedObjection
from penstock.engine.verdict import Outcome, PolicyVerdict
from penstock.spark.frames.arrow_records import ArrowRecords, verdict_with_objections

pytestmark = pytest.mark.unit


def test_timestamps_of_every_year_are_in_ms_rounded_down():
    micros = [0, 999, -1, -1000, -1001, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), None]
    column = pa.array(micros, pa.int64()).cast(pa.timestamp("us", "UTC"))
    expected = [-1 if micro is None else micro // 1000 for micro in micros]
    rows = ArrowRecords({"timestamp": column})
    assert list(rows.columns(0, len(micros)).timestamps) == expected
    assert list(rows.columns(5, len(micros)).timestamps) == expected[5:]


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def test_a_far_timestamp_is_that_of_the_last_header():
    own = [{"key": "a", "value": b"1"}]
    far = [*own, {"key": "__penstock.timestamp", "value": b"%d" % -(2**62)}]
    times = pa.array([5_000, None, None, 7_000, None], pa.timestamp("us", "UTC"))
    rows = ArrowRecords(
        {"timestamp": times, "headers": pa.array([far, far, own, None, None], HEADERS)}
    )
    columns = rows.columns(0, 5)
    assert list(columns.timestamps) == [5, -(2**62), -1, 7, -1]
    assert [len(headers) for headers in columns.headers] == [2, 1, 1, 0, 0]
    later = rows.columns(1, 3)
    assert (list(later.timestamps), [len(headers) for headers in later.headers]) == (
        [-(2**62), -1], [1, 1],
    )  # fmt: skip
    without = ArrowRecords({"timestamp": times}, no_time=9)
    assert list(without.columns(0, 5).timestamps) == [5, 9, 9, 7, 9]


@pytest.mark.parametrize("count", [10, 12])
def test_each_row_has_its_own_objections(count):
    objections = {
        row: [NamedObjection("rules", f"rule-{n}", 87, "no") for n in range(row % 3)]
        for row in (9, 1, 5, 3)
    }
    verdict = PolicyVerdict(outcome=Outcome.REFUSED, policy="rules", code=87, message="no")
    decisions = AllVerdicts([(row, verdict) for row in (1, 5)], objections)
    column = verdict_with_objections(count, decisions)
    column.validate(full=True)
    assert not column.null_count
    for row, found in enumerate(column.to_pylist()):
        assert found["outcome"] == ("refused" if row in {1, 5} else "accepted")
        rules = [objection["rule"] for objection in found["objections"]]
        assert rules == [objection.rule for objection in objections.get(row, ())]


def test_no_rows_have_no_verdicts():
    assert verdict_with_objections(0, AllVerdicts([], {})).to_pylist() == []

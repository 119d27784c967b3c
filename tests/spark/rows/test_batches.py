"""What runs in Python workers, with Arrow's columns and without Spark."""

import datetime as dt

import pyarrow as pa
import pytest

from penstock.policy import BrokerRecordValidator, InvalidRecordException
from penstock.spark.rows.batches import rows_with_verdicts, verdicts
from penstock.spark.rows.plan import plan

TEXTS = pa.array(['{"amount":1}', '{"amount":-1}', '{"amount":null}'])


class Shown(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        return InvalidRecordException(
            f"{tuple(topic_partition)} {key} {value} {[*map(tuple, headers)]}"
        )


def judged(row_plan, **parts):
    function = verdicts(row_plan, list(parts))
    columns = tuple(parts.values())
    [result] = function(iter([columns[0] if len(columns) == 1 else columns]))
    return result.to_pylist()


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()])
def test_values(kind):
    found = judged(plan(rules={"positive": "value.amount > 0"}), value=TEXTS.cast(kind))
    assert [(row["outcome"], row["code"], row["objections"] == []) for row in found] == [
        ("accepted", 0, True), ("refused", 87, False), ("refused", 87, False),
    ]  # fmt: skip
    assert found[1]["objections"] == [
        {"policy": "rules", "rule": "positive", "code": 87, "mode": "enforce",
         "message": 'rule "positive" failed: value.amount > 0'}
    ]  # fmt: skip
    assert found[1]["message"] == 'rule "positive" failed: value.amount > 0'


def test_a_batch_without_rows():
    assert judged(plan(rules={"a": "value.x > 0"}), value=TEXTS[:0]) == []


LISTS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
REVERSED = pa.list_(pa.struct([("value", pa.binary()), ("key", pa.string())]))
MAPS = pa.map_(pa.string(), pa.binary())


@pytest.mark.parametrize(
    "headers",
    [
        pa.array([None, [{"key": "x", "value": "0"}], [{"key": "h", "value": "1"}], []], LISTS),
        pa.array([None, [], [{"key": "h", "value": b"1"}], []], REVERSED),
        pa.array([None, [("x", b"0")], [("h", b"1")], []], MAPS),
        pa.array([None, [("x", b"0")], [("h", b"1")], []], MAPS).slice(0),
    ],
)
def test_parts_of_the_record(headers):
    found = judged(
        plan(policies=[Shown]),
        value=TEXTS,
        key=pa.array([b"k", None, b""], pa.binary()),
        headers=headers.slice(1),
        topic=pa.array(["a", "b", "b"]),
    )
    texts = [row["message"] for row in found]
    assert texts[0].startswith("""('a', 0) b'k' b'{"amount":1}' [""")
    assert texts[1].startswith("('b', 0) None ")
    assert texts[1].endswith(" [('h', b'1')]")
    assert texts[2].endswith(" []")


def test_timestamps_and_topics():
    row_plan = plan(
        rules={"new": "timestamp > timestamp('2024-01-01T00:00:00Z')", "t": "topic == 'a'"}
    )
    times = [dt.datetime(2024, 1, 2, tzinfo=dt.UTC), dt.datetime(2023, 1, 2, tzinfo=dt.UTC), None]
    found = judged(
        row_plan,
        value=TEXTS,
        timestamp=pa.array(times, pa.timestamp("us", "UTC")),
        topic=pa.array(["a", "b", None]),
    )
    assert [[objection["rule"] for objection in row["objections"]] for row in found] == [
        [], ["new", "t"], [None],
    ]  # fmt: skip
    assert (found[2]["outcome"], found[2]["code"]) == ("failed", -1)


def test_headers_of_another_type_are_an_error():
    with pytest.raises(TypeError, match="headers must be an array of structs of key and value"):
        judged(plan(policies=[Shown]), value=TEXTS, headers=pa.array([1, 2, 3]))


def test_rows_with_their_columns():
    batch = pa.RecordBatch.from_arrays(
        [pa.array([1, 2, 3]), pa.array(["a", "b", "c"]), TEXTS], ["id", "id", "__penstock_value"]
    )
    function = rows_with_verdicts(plan(rules={"positive": "value.amount > 0"}), ["value"])
    [found] = function(iter([batch]))
    assert found.schema.names == ["id", "id", "verdict"]
    assert found.column(1).to_pylist() == ["a", "b", "c"]
    assert [row["outcome"] for row in found.column(2).to_pylist()] == [
        "accepted", "refused", "refused",
    ]  # fmt: skip

"""Policies that judge columns, over Spark's rows: the same verdicts as record by record."""

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.configuration import ConfigurationError
from penstock.jobs.evaluation import Evaluator
from penstock.spark import apply, evaluation, judge
from tests.spark.verdicts import verdicts

# Each class returns its input in its message, so a different input results in another message.
POLICIES = """
import numpy as np
import pyarrow.compute as pc
from penstock.policy import *

class Keyed(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if key == b"":
            return InvalidRecordException(f"{topic_partition.partition} {value} {headers}")
        if key == b"fail":
            raise KeyError

class KeyedBatch(BrokerRecordValidator):
    def validate_batch(self, topic_partition, batch):
        for index, (key, value) in enumerate(zip(batch.keys, batch.values)):
            if key == b"":
                yield index, f"{topic_partition.partition} {value} {batch.headers[index]}"
            if key == b"fail":
                raise KeyError

class Short(RecordValidationPolicy):
    def get_hints(self):
        return RecordIntrospectionHints(False, 0, 4)
    def validate(self, topic, record):
        if record.value is not None and len(record.value) > 3:
            raise InvalidRecordException(f"{topic.topic_id_partition.partition} {record.value}")

class ShortBatch(RecordValidationPolicy):
    def get_hints(self):
        return RecordIntrospectionHints(False, 0, 4)
    def validate_batch(self, topic, batch):
        values = batch.values_arrow
        long = pc.fill_null(pc.greater(pc.binary_length(values), 3), False)
        for index in np.flatnonzero(long.to_numpy(zero_copy_only=False)):
            yield index, f"{topic.topic_id_partition.partition} {values[index].as_py()}"

class Edit(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return ""
    def process_record(self, key, value, topic, partition, headers):
        if value == b"drop": raise ProduceRequestInterceptorSkipRecordException()
        if value == b"wrong": raise ValueError
        if value == b"edit": return ProduceRequestInterceptorResult(key, b"ok")
        return ProduceRequestInterceptorResult(key, value)

class EditBatch(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return ""
    def process_batch(self, topic, partition, batch):
        for index, value in enumerate(batch.values):
            if value == b"drop": yield index, ProduceRequestInterceptorSkipRecordException
            if value == b"wrong": yield index, ValueError()
            if value == b"edit": yield index, ProduceRequestInterceptorResult(batch.keys[index], b"ok")

class Late(RecordValidationPolicy):
    def validate_batch(self, topic, batch):
        return [(n, str(time)) for n, time in enumerate(batch.timestamps) if time % 2000]
"""


def lines(suffix=""):
    return {
        "produce.request.interceptors": f"policies.Edit{suffix}",
        "record.validator.classes": f"policies.Keyed{suffix}",
        "record.validation.policy.class.name": f"policies.Short{suffix}",
        "topics.*.record.validation.policy": "x",
    }


MIXED = {**lines(), "record.validator.classes": "policies.KeyedBatch"}
VALUES = [None, b"", b"abc", b"abcd", b"abcde", b"drop", b"wrong", b"edit"]
records = st.fixed_dictionaries(
    {
        "key": st.sampled_from([None, b"k", b"k", b"k", b"", b"fail"]),
        "value": st.sampled_from(VALUES),
        "partition": st.integers(0, 1),
        "topic": st.sampled_from(["t", "t", "u"]),
        "headers": st.sampled_from([None, [], [("h", None), ("h", b"1")]]),
    }
)
FIRST = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def arrays(some, cut):
    """Return Spark's columns of some records, as a slice of longer columns if `cut`."""
    before = {"key": b"fail", "value": b"before", "partition": 9, "topic": "z", "headers": None}
    some = [before, *some]
    kinds = {
        "topic": pa.string(), "partition": pa.int32(), "key": pa.binary(), "value": pa.binary(),
        "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    }  # fmt: skip
    columns = {
        name: pa.array(
            [[dict(zip(("key", "value"), h, strict=True)) for h in item[name]]
             if name == "headers" and item[name] is not None else item[name] for item in some],
            kind,
        )
        for name, kind in kinds.items()
    }  # fmt: skip
    times = [FIRST + dt.timedelta(seconds=n) for n in range(len(some))]
    columns["timestamp"] = pa.array(times, pa.timestamp("us", "UTC"))
    if cut:
        return {name: array.slice(1) for name, array in columns.items()}
    return {name: array.take(pa.array(range(1, len(some)))) for name, array in columns.items()}


def without_names(array):
    """Return verdicts without the names that distinguish the two kinds of classes."""

    def plain(field):
        if isinstance(field, dict):
            return {name: plain(value) for name, value in field.items()}
        return field.rpartition(".")[2].replace("Batch", "") if isinstance(field, str) else field

    return [plain(value) for value in array.to_pylist()]


@pytest.fixture
def evaluators(plan):
    made = [Evaluator(plan(given, POLICIES)) for given in (lines(), lines("Batch"), MIXED)]
    yield made
    for opened in made:
        opened.close()


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(some=st.lists(records, min_size=1, max_size=12), cut=st.booleans())
def test_the_same_rows_have_the_same_verdicts(evaluators, some, cut):
    columns = arrays(some, cut)
    before = {name: array.to_pylist() for name, array in columns.items()}
    expected = without_names(evaluation.apply(evaluators[0], columns, None))
    alone = without_names(evaluation.judge(evaluators[0], columns, None))
    for evaluator in evaluators[1:]:
        assert without_names(evaluation.apply(evaluator, columns, None)) == expected
        assert without_names(evaluation.judge(evaluator, columns, None)) == alone
    assert {name: array.to_pylist() for name, array in columns.items()} == before


def test_through_spark(rows, plan):
    """With slices of three records, which end anywhere in a partition."""
    given = [
        {"key": b"" if n % 5 == 0 else b"k", "value": VALUES[n % 8], "partition": n // 7}
        for n in range(40)
    ]
    spark = rows(b"").sparkSession
    key = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(key)
    spark.conf.set(key, "3")
    try:
        found = {}
        for suffix in ("", "Batch"):
            df = apply(rows(*given), plan(lines(suffix), POLICIES))
            values = [row.value for row in df.orderBy("offset").collect()]
            found[suffix] = [(*verdict[:1], *verdict[2:]) for verdict in verdicts(df)], values
    finally:
        spark.conf.set(key, before)
    outcomes = {row[0] for row in found[""][0]}
    assert outcomes == {"accepted", "refused", "dropped", "failed"}
    normal = [[(o, c, m and m.rpartition(": ")[2]) for o, c, m in row] for row, _ in found.values()]
    assert normal[0] == normal[1]
    assert found[""][1] == found["Batch"][1]


def test_policies_that_judge_columns_get_timestamps(rows, plan):
    late = {
        "record.validation.policy.class.name": "policies.Late",
        "topics.*.record.validation.policy": "x",
    }
    df = rows(b"a", b"b", b"c")
    assert [verdict[0] for verdict in verdicts(judge(df, plan(late, POLICIES)))] == [
        "accepted", "refused", "accepted"
    ]  # fmt: skip
    with pytest.raises(ConfigurationError, match="no column timestamp"):
        judge(df.drop("timestamp"), plan(late, POLICIES))
    short = {**late, "record.validation.policy.class.name": "policies.Short"}
    assert verdicts(judge(df.drop("timestamp", "headers", "key"), plan(short, POLICIES)))

"""`judge` and `apply` as a notebook uses them."""

import os

import pytest
from pyspark.sql import Observation
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from penstock.configuration import ConfigurationError
from penstock.spark import apply, close_policies, judge, load_plan
from tests.limits import HANGS_S
from tests.spark.conftest import NO_BAD
from tests.spark.verdicts import verdicts

ACCEPTED = ("accepted", None, 0, None)


def test_each_record_gets_the_verdict_it_would_get_alone(rows, plan):
    df = judge(rows(b"good", b"bad", None, b"", b"raise", b"sys.exit", b"odd \xc3\xa4"), plan())
    assert verdicts(df) == [
        ACCEPTED,
        ("refused", "NoBad", 87, "bad is not good"),
        ACCEPTED,
        ACCEPTED,
        ("failed", "NoBad", -1, _failed(plan, "ZeroDivisionError", df)),
        ("failed", "NoBad", -1, _failed(plan, "SystemExit", df)),
        ("refused", "NoBad", 87, "odd \xe4"),
    ]


def _failed(plan, kind, df):
    name = df.where("verdict.outcome = 'failed'").select("verdict.policy").first()[0]
    return f"The policy {name} failed: {kind}"


def test_topics_without_a_policy_and_records_without_a_topic(rows, plan):
    only_t = {**NO_BAD, "topics.t.record.validation.policy": "x"}
    del only_t["topics.*.record.validation.policy"]
    df = rows({"value": b"bad"}, {"value": b"bad", "topic": "u"}, {"value": b"bad", "topic": None})
    assert [v[0] for v in verdicts(judge(df, plan(only_t)))] == ["refused", "accepted", "failed"]


def test_a_single_topic_for_all_records_needs_no_column(rows, plan):
    only_t = {**NO_BAD, "topics.t.record.validation.policy": "x"}
    del only_t["topics.*.record.validation.policy"]
    df = rows(b"bad", {"value": b"bad", "partition": 1}).drop("topic")
    assert [v[0] for v in verdicts(judge(df, plan(only_t), topic="t"))] == ["refused"] * 2
    assert [v[0] for v in verdicts(apply(df, plan(only_t), topic="u"))] == ["accepted"] * 2


def test_where_no_column_is_judged_records_of_a_single_topic_are_accepted(rows, plan):
    assert verdicts(judge(rows(b"bad", b"good"), plan({}), topic="t")) == [ACCEPTED] * 2


def test_partitions_headers_and_ids_reach_the_policy(rows, plan):
    import uuid

    policies = """
from penstock.policy import *
class Tell(RecordValidationPolicy):
    def validate(self, topic, record):
        raise InvalidRecordException(repr((
            str(topic.topic_id_partition.topic_id), topic.topic_id_partition.partition,
            topic.validation_policy, record.key, [tuple(h) for h in record.headers])))
"""
    properties = {
        "record.validation.policy.class.name": "policies.Tell",
        "topics.*.record.validation.policy": "x=1",
    }
    topic_id = uuid.uuid4()
    df = rows(
        {"value": b"", "partition": 3, "key": b"\x00\xff", "headers": [("a", b"1"), ("a", None)]},
        {"value": b"", "partition": 4, "headers": []},
        {"value": b"", "partition": 4, "headers": None, "key": b""},
    )
    expected = [
        m for *_, m in verdicts(judge(df, plan(properties, policies, topic_ids={"t": topic_id})))
    ]
    assert [eval(item) for item in expected] == [
        (str(topic_id), 3, "x=1", b"\x00\xff", [("a", b"1"), ("a", None)]),
        (str(topic_id), 4, "x=1", None, []),
        (str(topic_id), 4, "x=1", b"", []),
    ]


def test_only_columns_of_the_hints_are_read(rows, plan):
    policies = """
from penstock.policy import *
class FirstBytes(RecordValidationPolicy):
    def get_hints(self): return RecordIntrospectionHints(False, 0, 5)
    def validate(self, topic, record):
        raise InvalidRecordException(repr((record.key, record.value, len(record.headers))))
"""
    properties = {
        "record.validation.policy.class.name": "policies.FirstBytes",
        "topics.*.record.validation.policy": "",
    }
    loaded = plan(properties, policies)
    assert dict(loaded.columns) == {"value": 5}
    df = rows({"value": b"0123456789", "key": b"k", "headers": [("a", b"1")]}).drop("headers")
    assert verdicts(judge(df, loaded))[0][3] == "(None, b'01234', 0)"


def test_a_missing_column_of_a_policy_is_named(rows, plan):
    with pytest.raises(ConfigurationError, match=r"no column headers.*includeHeaders"):
        judge(rows(b"x").drop("headers"), plan())


def test_batch_policies_get_consecutive_records_of_a_partition(rows, plan):
    policies = """
from penstock.policy import *
class Tell(RecordsPolicy):
    def validate(self, topic, partition, records):
        raise PolicyViolationException(f"{partition}: {[r.value for r in records]} {records[0].timestamp}")
"""
    properties = {
        "topics.*.records.policy.class.name": "policies.Tell",
        "topics.*.records.policy.enabled": "true",
    }
    records = [{"value": b"%d" % i, "partition": i // 5} for i in range(10)]
    found = [v[2:] for v in verdicts(judge(rows(*records), plan(properties, policies)))]
    assert found[0] == (44, "0: [b'0'] 1700000000000")
    batched = plan(properties, policies, records_policy_batch=3)
    found = [m for *_, m in verdicts(judge(rows(*records), batched))]
    assert (
        found[:5]
        == ["0: [b'0', b'1', b'2'] 1700000000000"] * 3 + ["0: [b'3', b'4'] 1700000003000"] * 2
    )
    assert found[5].startswith("1: [b'5', b'6', b'7']")


def test_the_value_on_a_topic_wins_over_the_file(rows, configured):
    policies = """
from penstock.policy import *
class Whole(RecordsPolicy):
    def validate(self, topic, partition, records):
        raise PolicyViolationException(f"no records of {topic} at {[r.timestamp for r in records]}")
"""
    properties = {"records.policy.class.names.allowed": "policies.Whole"}
    file = configured(properties, policies)
    (module,) = (path.stem for path in file.parent.glob("*.py"))
    own = {"records.policy.class.name": f"{module}.Whole", "records.policy.enabled": "true"}
    other = {**own, "records.policy.class.name": "os.Whole"}
    df = rows(
        {"value": b"", "topic": "a"}, {"value": b"", "topic": "b"}, {"value": b"", "topic": "c"}
    )
    judged = judge(df, load_plan(file, topic_settings={"a": own, "b": other}))
    found = [(o, c, m) for o, _, c, m in verdicts(judged)]
    assert found[0][:2] == ("refused", 44)
    assert found[0][2].startswith("no records of a at [")
    assert found[1][:2] == ("failed", -1), "a class that may not be named judges nothing"
    assert found[2][0] == "accepted"


def test_interceptors_run_first_and_drop_replace_or_fail(rows, plan):
    properties = {**NO_BAD, "produce.request.interceptors": "policies.Repair"}
    loaded = plan(properties)
    df = apply(rows(b"good", b"bad1", b"bad7", b"drop", b"fail", None), loaded)
    got = df.orderBy("offset").select("value", "verdict.*").collect()
    assert [(r.value and bytes(r.value), r.outcome, r.code) for r in got] == [
        (b"good", "accepted", 0),
        (b"good1", "accepted", 0),
        (b"bad7", "refused", 87),
        (None, "dropped", 0),
        (None, "failed", -1),
        (None, "accepted", 0),
    ]
    assert "secret" not in str(got)
    assert [v[0] for v in verdicts(judge(rows(b"bad1", b"drop"), loaded))] == [
        "accepted",
        "dropped",
    ]


def test_a_record_is_judged_once_however_its_verdict_is_used(rows, plan, tmp_path):
    calls = tmp_path / "calls"
    policies = f"""
from penstock.policy import *
class Count(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        with open({str(calls)!r}, "a") as file: file.write("x")
"""
    df = judge(rows(*[b"x"] * 50), plan({"record.validator.classes": "policies.Count"}, policies))
    used = (
        df.where(F.col("verdict.outcome") == "accepted")
        .withColumn("again", F.col("verdict.code"))
        .groupBy("verdict.outcome", "again")
        .count()
    )
    assert used.collect()[0]["count"] == 50
    assert len(calls.read_text()) == 50


def test_policies_are_configured_once_a_worker_and_closed(spark, rows, plan, tmp_path):
    trace = tmp_path / "trace"
    policies = f"""
import os
from penstock.policy import *
def note(what):
    with open({str(trace)!r}, "a") as file: file.write(f"{{what}} {{os.getpid()}}\\n")
class Traced(RecordValidationPolicy):
    def configure(self, configs): note("configured")
    def validate(self, topic, record): note("asked")
    def close(self): note("closed")
"""
    properties = {
        "record.validation.policy.class.name": "policies.Traced",
        "topics.*.record.validation.policy": "x",
    }
    loaded = plan(properties, policies)
    for _ in range(3):
        judge(rows(*[b"x"] * 20).repartition(4), loaded).count()
        judge(rows(*[b"x"] * 20).repartition(4), loaded).collect()
    close_policies(spark, workers=2)
    lines = [line.split() for line in trace.read_text().splitlines()]
    workers = {pid for what, pid in lines if what == "asked"}
    assert str(os.getpid()) not in workers
    for pid in workers:
        assert [what for what, who in lines if who == pid and what != "asked"] == [
            "configured",
            "closed",
        ]


def test_on_a_stream(spark, rows, plan, tmp_path):
    rows(b"good", b"bad", b"good").write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(rows(b"x").schema).parquet(str(tmp_path / "in"))
    query = (
        judge(stream, plan())
        .writeStream.format("memory")
        .queryName("judged")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = spark.table("judged").groupBy("verdict.outcome").count().collect()
    assert {row[0]: row[1] for row in found} == {"accepted": 2, "refused": 1}


@pytest.mark.parametrize(
    "properties", [NO_BAD, {**NO_BAD, "produce.request.interceptors": "policies.Repair"}]
)
def test_without_udfs_over_arrow_the_verdicts_are_the_same(rows, plan, properties):
    from penstock.spark.verdicts import by_rows

    frame = rows(b"good", b"bad1", b"bad7", None, b"drop", b"fail", b"odd", partitions=2)
    frame = frame.withColumn("more", F.lit(1))
    loaded = plan(properties)
    assertDataFrameEqual(by_rows(frame, loaded, None, replacing=False), judge(frame, loaded))
    assertDataFrameEqual(
        by_rows(frame, loaded, "t", replacing=True).select(*apply(frame, loaded).columns),
        apply(frame, loaded),
    )


def test_an_observation_counts_what_is_judged(spark, rows, topic_plan, tmp_path):
    plan = topic_plan(**{"type": "MaxBytes", "value.max.bytes": "4"})
    seen, df = Observation(), rows(b"good", b"too long", b"too long")
    assert judge(df, plan, observation=seen).count() == 3
    counts = {"judged": 3, "accepted": 1, "refused": 2, "dropped": 0, "failed": 0}
    assert seen.get == counts

    df.write.parquet(str(tmp_path / "in"))
    stream = judge(spark.readStream.schema(df.schema).parquet(str(tmp_path / "in")), plan,
                   observation="orders")  # fmt: skip
    query = stream.writeStream.format("noop").trigger(availableNow=True).start()
    assert query.awaitTermination(HANGS_S)
    observed = [progress.observedMetrics.get("orders") for progress in query.recentProgress]
    assert [row.asDict() for row in observed if row and row.judged] == [counts]


@pytest.mark.parametrize("given", [3, "", ["orders"]])
def test_anything_else_is_no_observation(rows, topic_plan, given):
    plan = topic_plan(type="Required", fields="id")
    with pytest.raises(ConfigurationError, match="observation: pass an Observation or a name"):
        judge(rows(b"x"), plan, observation=given)

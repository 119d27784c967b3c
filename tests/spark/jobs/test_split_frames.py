"""`penstock.spark.split`: two frames of one evaluation."""

import pytest
from pyspark.sql import Observation
from pyspark.sql import functions as F

from penstock.configuration import ConfigurationError
from penstock.spark import split
from tests.integration.reading import read_topic
from tests.jobs.digests import of_wire
from tests.limits import HANGS_S
from tests.spark.conftest import NO_BAD
from tests.spark_connector import read_by_connector

# Decides by chance, and keeps a note of each call.
CHANCE = """
import os, random, uuid
from pathlib import Path
from penstock.policy import *

class Chance(RecordValidationPolicy):
    def validate(self, topic, record):
        with open(Path(__file__).with_name(f"calls-{os.getpid()}"), "ab") as calls:
            calls.write(record.value + b"\\n")
        if random.random() < 0.5: raise InvalidRecordException("bad luck")
"""
KAFKA = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]


def values(frame):
    return [row.value for row in frame.orderBy("offset").select("value").collect()]


def test_each_record_is_in_a_single_frame_and_judged_once(rows, configured, spark):
    properties = {**NO_BAD, "record.validation.policy.class.name": "policies.Chance"}
    file = configured(properties, CHANCE)
    from penstock.spark import load_plan

    sent = [b"%03d" % number for number in range(200)]
    accepted, rejected = split(rows(*sent, partitions=2), load_plan(file))
    for _ in range(2):
        assert sorted(values(accepted) + values(rejected)) == sent
    assert accepted.columns == rejected.columns == KAFKA
    assert 50 < accepted.count() < 150
    calls = b"".join(
        calls_file.read_bytes() for calls_file in file.parent.glob("calls-*")
    ).splitlines()
    assert sorted(calls) == sent


def test_interceptors_dropped_and_failed_records(rows, plan):
    loaded = plan({**NO_BAD, "produce.request.interceptors": "policies.Repair"})
    seen = Observation()
    df = rows(b"good", b"bad1", b"bad7", b"drop", b"fail", None)
    accepted, rejected = split(df.withColumn("more", F.lit(1)), loaded, observation=seen)
    assert accepted.columns == rejected.columns == [*KAFKA, "more"]
    assert values(accepted) == [b"good", b"good1", None]
    assert values(rejected) == [b"bad7", b"fail"]
    counts = seen.get
    assert {name: counts[name] for name in ("accepted", "refused", "dropped", "failed")} == {
        "accepted": 3, "refused": 1, "dropped": 1, "failed": 1,
    }  # fmt: skip
    found = {
        (reason.topic, reason.outcome, reason.code, reason["count"]) for reason in counts["reasons"]
    }
    assert found == {("t", "refused", 87, 1), ("t", "dropped", 0, 1), ("t", "failed", -1, 1)}


def test_columns_of_the_frame_stay_whatever_they_are_called(rows, topic_plan):
    df = rows(b"good", b"too long").drop("timestamp", "key").withColumns(
        {"sink": F.col("offset") * 2, "verdict": F.lit("old"), "own 0": F.struct("offset")}
    )  # fmt: skip
    df = df.withColumnRenamed("own 0", "sink 2").select("sink", "*")
    accepted, rejected = split(df, topic_plan(**{"type": "MaxBytes", "value.max.bytes": "4"}))
    assert accepted.columns == rejected.columns == [*KAFKA, "sink", "sink", "sink 2"]
    assert [tuple(row)[8:] for row in accepted.collect()] == [(0, 0, (0,))]
    assert [tuple(row)[8:] for row in rejected.collect()] == [(2, 2, (1,))]


def test_counts_of_reasons_are_exact_and_bounded(rows, plan):
    sent = [b"odd %d" % (number % 1500) for number in range(3000)] + [b"bad"] * 40 + [b"good"] * 9
    seen = Observation()
    split(rows(*sent, partitions=2), plan(), observation=seen)
    found = seen.get
    assert (found["accepted"], found["refused"]) == (9, 3040)
    counts = {reason.message: reason["count"] for reason in found["reasons"]}
    assert len(found["reasons"]) == len(counts) == 1000
    assert counts.pop("bad is not good") == 40
    assert set(counts.values()) == {2}


def test_a_long_message_is_cut(rows, plan):
    seen = Observation()
    split(rows(b"odd" + b"\xc3\xa4" * 4000), plan(), observation=seen)
    (reason,) = seen.get["reasons"]
    assert reason.message == "odd" + "\xe4" * 497


@pytest.mark.slow
def test_the_headers_are_those_of_the_command(
    command, configured, produce, topic, kafka, spark, tmp_path
):
    """Also those of records that are dead letters already."""
    from penstock.spark import load_plan

    before = [("a", b"1"), ("a", None), ("__dlq.errors.topic", b"first"),
              ("__dlq.errors.partition", b" 7 "), ("__dlq.errors.offset", b"x"),
              ("__penstock.timestamp", b"123"), ("__penstock.replays", b"2")]  # fmt: skip
    negative = [("__dlq.errors.topic", b"first"), ("__dlq.errors.partition", b"-7")]
    no_topic = [("__dlq.errors.topic", None), ("__dlq.errors.partition", b"7")]
    sent = [{"value": b"bad", "key": b"%d" % n, "headers": headers, "timestamp": 1_700_000_000_000 + n}
            for n, headers in enumerate((None, before, negative, no_topic, [("x", b"\xff")]))]  # fmt: skip
    source, file = topic("in"), configured()
    produce(source, sent)
    expected = {}
    for good in (topic("good"), f"path:{tmp_path / 'good'}"):
        dead = topic("dead")
        assert command("split", file, "--topic", source, "--accepted", good, "--rejected",
                       dead).code == 0  # fmt: skip
        letters = read_topic(kafka.bootstrap_servers, dead)
        expected[good] = {key: headers for _, key, _, headers in letters}
    raw, through_frames = expected.values()
    assert raw == through_frames
    df = read_by_connector(spark, kafka.bootstrap_servers, source)
    _, rejected = split(df, load_plan(file))
    found = {row.key: [tuple(header) for header in row.headers] for row in rejected.collect()}
    assert found == raw
    assert dict(found[b"1"])["__dlq.errors.partition"] == b"7"


def test_in_foreach_batch(spark, rows, plan, tmp_path):
    loaded, found = plan(), []

    def write(frame, number):
        seen = Observation()
        accepted, rejected = split(frame, loaded, observation=seen)
        found.append((accepted.count(), rejected.count(), seen.get["refused"]))

    rows(b"good", b"bad", b"bad").write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(rows().schema).parquet(str(tmp_path / "in"))
    query = stream.writeStream.foreachBatch(write).trigger(availableNow=True).start()
    assert query.awaitTermination(HANGS_S)
    assert found == [(1, 2, 2)]


def test_a_stream_itself_is_refused(spark, plan):
    stream = spark.readStream.format("rate").load()
    with pytest.raises(ConfigurationError, match="call split in foreachBatch"):
        split(stream, plan())


@pytest.mark.parametrize("missing", ["headers", "key", "partition"])
def test_a_missing_column_is_named(rows, plan, missing):
    with pytest.raises(ConfigurationError, match=f"no column {missing}"):
        split(rows(b"x").drop(missing), plan())


def test_a_single_topic(rows, plan):
    only_t = {**NO_BAD, "topics.t.record.validation.policy": "x"}
    del only_t["topics.*.record.validation.policy"]
    seen = Observation()
    _, rejected = split(rows(b"bad").drop("topic"), plan(only_t), topic="t", observation=seen)
    (row,) = rejected.collect()
    assert (row.topic, dict(row.headers)["__dlq.errors.topic"]) == ("t", b"t")
    assert [reason.topic for reason in seen.get["reasons"]] == ["t"]
    assert seen.get["refused"] == 1


def test_dead_letters_have_the_digest_of_the_plan_on_the_wire(spark, rows, configured):
    """Of frames, of frames written to folders, and of the plan that check prints."""
    from penstock.spark import load_plan

    file = configured()
    checked = of_wire(file, "t")
    for loaded in (load_plan(file), load_plan(file, topic="t")):
        _, rejected = split(rows(b"bad", b"good"), loaded)
        [letter] = rejected.collect()
        assert dict(letter.headers)["__dlq.plan"].decode() == checked

"""Audits on raw batches of a real Kafka: in Spark's Python workers, and in this process."""

import pytest
from confluent_kafka import Producer, TopicPartition

from penstock.jobs.audit import add_payloads, audit_raw
from penstock.jobs.evaluation import close_all
from penstock.jobs.runner import LocalRunner
from penstock.jobs.topics.access import ClusterAccess
from penstock.kafka.cluster.offsets import Cluster
from penstock.kafka.cluster.ranges import OffsetRange
from penstock.spark.execution.task_runner import SparkRunner
from tests.integration.reading import read_topic
from tests.spark.conftest import BOTH

RECORDS = 900


@pytest.fixture
def audited(request, runner, kafka, plan):
    """Audits topics; each task has at most `records` records."""
    runs = SparkRunner(request.getfixturevalue("spark")) if runner == "spark" else LocalRunner()
    properties = {"bootstrap.servers": kafka.bootstrap_servers}

    def audit(*topics, start="earliest", **options):
        loaded = plan()
        cluster = Cluster(properties, loaded.path)
        access = ClusterAccess.of(properties, loaded.path)
        ranges = cluster.ranges(cluster.topics(",".join(topics)), start)
        return access, audit_raw(runs, access, ranges, loaded, **options)

    yield audit
    close_all()


@BOTH
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(audited, produce, topic, codec):
    name = topic("raw", 3)
    values = [b"bad" if n % 9 == 0 else b"good" for n in range(RECORDS)]
    sent = [{"value": value, "partition": n % 3} for n, value in enumerate(values)]
    produce(name, sent, **{"compression.type": codec, "batch.size": 3000})
    _, found = audited(name)
    assert dict(found.counts.outcomes) == {"accepted": RECORDS * 8 // 9, "refused": RECORDS // 9}
    assert found.counts.judged == RECORDS
    assert not found.coverage.lost


@BOTH
def test_aborted_transactions_are_left_out(audited, kafka, topic):
    name = topic("raw")
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": f"t-{name}"}
    )
    producer.init_transactions()
    for number, value in enumerate([b"good", b"bad", b"good", b"bad"]):
        producer.begin_transaction()
        for _ in range(10):
            producer.produce(name, value, partition=0)
        producer.flush(30)
        end = producer.abort_transaction if number < 2 else producer.commit_transaction
        end(30)
    # The broker answers a commit before its marker is in the partition.
    committed = read_topic(kafka.bootstrap_servers, name, isolation="read_committed")
    assert len(committed) == 20
    _, found = audited(name)
    assert dict(found.counts.outcomes) == {"accepted": 10, "refused": 10}
    assert not found.coverage.lost


@BOTH
def test_several_topics_are_counted_separately(audited, produce, topic):
    names = [topic("raw", 2), topic("raw", 1), topic("raw")]
    for name, count in zip(names, (20, 30, 0), strict=True):
        produce(name, [{"value": b"bad" if n % 10 == 0 else b"good"} for n in range(count)])
    done = audited(*names)[1].counts.by_topic()
    assert {name: dict(done[name]) for name in names[:2]} == {
        names[0]: {"accepted": 18, "refused": 2},
        names[1]: {"accepted": 27, "refused": 3},
    }


@BOTH
def test_an_empty_range_needs_no_task(audited, topic):
    _, found = audited(topic("raw"))
    assert (found.counts.judged, found.coverage.lost) == (0, ())


@BOTH
def test_a_deleted_sample_has_no_contents(audited, produce, topic, admin):
    name = topic("raw")
    produce(name, [{"value": b"bad"}, {"value": b"bad", "key": b"k"}])
    access, found = audited(name)
    for future in admin.delete_records([TopicPartition(name, 0, 1)]).values():
        future.result(60)
    add_payloads(access.connect(), found.counts)
    [samples] = found.counts.samples.values()
    assert [(sample.offset, sample.key, sample.value) for sample in samples] == [
        (0, None, None),
        (1, b"k", b"bad"),
    ]


@BOTH
def test_long_contents_are_cut(audited, produce, topic):
    name = topic("raw")
    produce(name, [{"value": b"bad" + b"x" * 1000}])
    access, found = audited(name)
    add_payloads(access.connect(), found.counts, max_bytes=5)
    [[sample]] = found.counts.samples.values()
    assert (sample.key, sample.value) == (None, b"badxx")


def test_offsets_that_a_range_lost_are_reported(kafka, plan, produce, topic, admin):
    name = topic("raw")
    produce(name, [{"value": b"good"} for _ in range(10)])
    for future in admin.delete_records([TopicPartition(name, 0, 4)]).values():
        future.result(60)
    loaded = plan()
    access = ClusterAccess.of({"bootstrap.servers": kafka.bootstrap_servers}, loaded.path)
    found = audit_raw(LocalRunner(), access, [OffsetRange(name, 0, 0, 10)], loaded)
    close_all()
    assert found.coverage.lost == (OffsetRange(name, 0, 0, 4),)
    assert found.counts.judged == 6

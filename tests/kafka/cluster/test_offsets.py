"""Topics and offset ranges of a real cluster."""

import time
from types import SimpleNamespace
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic
from kio.schema.errors import ErrorCode

from penstock.configuration import ConfigurationError
from penstock.kafka.cluster import offsets
from penstock.kafka.cluster.errors import ClusterError, NotDescribedError
from penstock.kafka.cluster.offsets import Cluster
from penstock.kafka.cluster.ranges import OffsetRange, Partition
from tests.gateways import wait_until
from tests.kafka.client.described_cluster import DescribedCluster
from tests.kafka.client.settings import FILE

JANUARY, FEBRUARY = 1_767_225_600_000, 1_769_904_000_000


@pytest.fixture
def cluster(kafka):
    return Cluster({"bootstrap.servers": kafka.bootstrap_servers}, FILE)


@pytest.fixture
def produce(kafka):
    def send(topic, *timestamps, partition=0, **settings):
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, **settings})
        if "transactional.id" in settings:
            producer.init_transactions(60)
            producer.begin_transaction()
        for timestamp in timestamps:
            producer.produce(topic, b"x", partition=partition, timestamp=timestamp)
        assert producer.flush(60) == 0
        return producer

    return send


def test_topics_by_name_and_glob(cluster, topic):
    prefix = f"glob-{uuid4().hex}"  # other tests' topics are in the cluster, too
    first, two, other = topic(prefix, 2), topic(prefix), topic("other")
    found = cluster.topics(f"{other},{prefix}-*")
    assert [t.name for t in found] == [other, *sorted([first, two])]
    assert [t.partitions for t in found if t.name == first] == [(0, 1)]
    assert all(t.topic_id.int for t in found)


def test_a_topic_that_does_not_exist_is_named_with_those_near_it(cluster, topic):
    name = topic("payments")
    with pytest.raises(ConfigurationError, match=f"there is no topic {name}x .*near it: {name}"):
        cluster.topics(f"{name},{name}x")
    with pytest.raises(ConfigurationError, match=r"--topic nothing-\*: no topic"):
        cluster.topics("nothing-*")


def test_topics_that_do_not_exist(cluster, topic):
    name = topic()
    assert cluster.missing({name, f"{name}x", "a b"}) == {f"{name}x", "a b"}
    assert cluster.missing(()) == set()


@pytest.mark.unit
def test_a_topic_that_may_not_be_described_is_not_missing(monkeypatch):
    described = DescribedCluster()
    described.codes = {"orders": [int(ErrorCode.topic_authorization_failed)]}
    monkeypatch.setattr(offsets, "connect", lambda *_: described)
    cluster = Cluster({"bootstrap.servers": "localhost:9"}, FILE)
    with pytest.raises(NotDescribedError, match="topic orders: TOPIC_AUTHORIZATION_FAILED"):
        cluster.missing(["orders"])


def test_topics_that_exist_now(cluster, topic, monkeypatch):
    """Named topics are described by their names: a list of all topics may be long."""
    first, two = topic("there", 2), topic("there")
    with monkeypatch.context() as patched:
        patched.setattr(cluster, "names", None)
        found = cluster.existing_topics(f"{two},{first}x,{first},{two}")
    assert [(t.name, t.partitions) for t in found] == [(two, (0,)), (first, (0, 1))]
    assert cluster.existing_topics(f"{first}*,{two}x") == cluster.existing_topics(first)


def test_the_end_of_a_deleted_topic_is_an_answer_and_not_an_error(cluster, topic):
    there, deleted = Partition(topic("there"), 0), Partition("deleted", 0)
    wait_until(lambda: cluster.log_ends([there])[there] == 0)
    answers = cluster.log_ends([there, deleted])
    assert (answers[there], answers[deleted].code) == (0, ErrorCode.unknown_topic_or_partition)


def test_ranges_of_several_topics(cluster, topic, produce):
    first, two = topic("a", 2), topic("b")
    produce(first, JANUARY, FEBRUARY, partition=1)
    produce(two, FEBRUARY, FEBRUARY, FEBRUARY)
    topics = cluster.topics(f"{first},{two}")
    assert cluster.ranges(topics, "earliest") == (
        OffsetRange(first, 0, 0, 0), OffsetRange(first, 1, 0, 2), OffsetRange(two, 0, 0, 3)
    )  # fmt: skip
    assert cluster.ranges(topics, "2026-01-02", "2026-02-02") == (
        OffsetRange(first, 0, 0, 0), OffsetRange(first, 1, 1, 2), OffsetRange(two, 0, 0, 3)
    )  # fmt: skip
    assert cluster.ranges(topics[1:], "0:1", "0:2") == (OffsetRange(two, 0, 1, 2),)
    for start, end, expected in (
        ("0:1", "latest", "PARTITION:OFFSET needs one topic"),
        ("latest", "earliest", "--from latest is after --to earliest in partition 1"),
        ("yesterday", "latest", "--from yesterday: must be earliest"),
    ):
        with pytest.raises(ConfigurationError, match=expected):
            cluster.ranges(topics, start, end)


@pytest.mark.unit
def test_a_topic_is_created_with_as_many_partitions(monkeypatch):
    described = DescribedCluster()
    monkeypatch.setattr(offsets, "connect", lambda *_: described)
    cluster = Cluster({"bootstrap.servers": "127.0.0.1:1"}, FILE)
    cluster.create_like("new", SimpleNamespace(partitions=(0, 1)))
    assert described.topics == {"new": [1, 1]}


@pytest.mark.unit
def test_a_created_topic_that_no_broker_knows_is_an_error(monkeypatch):
    monkeypatch.setattr("penstock.kafka.cluster.created_topics._APPEARS_WITHIN_S", 0.1)
    described = DescribedCluster()
    described.codes = {"new": [int(ErrorCode.unknown_topic_or_partition)]}
    monkeypatch.setattr(offsets, "connect", lambda *_: described)
    cluster = Cluster({"bootstrap.servers": "127.0.0.1:1"}, FILE)
    with pytest.raises(ClusterError, match=r"new was created on 127\.0\.0\.1:1, but is not found"):
        cluster.create_like("new", SimpleNamespace(partitions=(0,)))


def test_a_time_before_1970_is_the_beginning(cluster, topic, produce):
    """Negative timestamps have another meaning in the protocol: -1 is the end."""
    name = topic()
    produce(name, JANUARY)
    found = cluster.ranges(cluster.topics(name), "1969-12-31T23:59:59.999")
    assert found == (OffsetRange(name, 0, 0, 1),)


def test_the_end_is_before_an_open_transaction(cluster, topic, produce):
    name = topic()
    produce(name, JANUARY)
    open_one = produce(name, JANUARY, **{"transactional.id": name})
    topics = cluster.topics(name)
    assert cluster.ranges(topics, "earliest") == (OffsetRange(name, 0, 0, 1),)
    open_one.commit_transaction(60)
    ended = (OffsetRange(name, 0, 0, 3),)  # with the marker, which is written after the answer
    wait_until(lambda: cluster.ranges(topics, "earliest") == ended, what="the marker")


def test_right_after_creation_leaders_are_waited_for(cluster, admin):
    name = f"new-{time.time_ns()}"
    admin.create_topics([NewTopic(name, 200, 1)])[name].result(30)
    while name not in admin.list_topics(timeout=60).topics:
        time.sleep(0.01)
    assert len(cluster.ranges(cluster.topics(name), "earliest")) == 200


def test_a_record_by_its_offset(cluster, topic, produce, monkeypatch):
    name = topic()
    produce(name, JANUARY, FEBRUARY)
    found = cluster.topic(name)
    record = cluster.record(found, 0, 1)
    assert (record.timestamp, record.key, record.value) == (FEBRUARY, None, b"x")
    with pytest.raises(ConfigurationError, match="holds the offsets from 0 up to 2"):
        cluster.record(found, 0, 3)
    monkeypatch.setattr(offsets, "_TIMEOUT_S", 2.0)
    with pytest.raises(ClusterError, match=f"{name} 0:2 was not sent in time"):
        cluster.record(found, 0, 2)


def test_the_offsets_of_a_group(cluster, topic, produce):
    name = topic("grouped", 2)
    produce(name, JANUARY, FEBRUARY)
    found = cluster.topic(name)
    assert cluster.committed(found, "penstock-test") == {0: 0, 1: 0}
    cluster.commit(found, "penstock-test", {0: 2})
    assert cluster.committed(found, "penstock-test") == {0: 2, 1: 0}


@pytest.mark.parametrize("look_up", [Cluster.names, lambda cluster: cluster.topic("t")])
def test_the_error_of_an_unavailable_cluster_has_that_of_the_connection(
    look_up, monkeypatch, capsys
):
    monkeypatch.setattr("penstock.kafka.cluster.offsets._TIMEOUT_S", 3.0)
    monkeypatch.setattr("penstock.progress.WAITING_S", 0.0)
    away = Cluster({"bootstrap.servers": "127.0.0.1:1"}, FILE)
    with pytest.raises(ClusterError, match=r"127.0.0.1:1 cannot be reached: .*Connection refused"):
        look_up(away)
    assert "waiting for the cluster at 127.0.0.1:1: gives up after 3 s\n" in capsys.readouterr().err

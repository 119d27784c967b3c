"""Topics that are described and created, in a cluster in memory and at a real broker."""

import pytest
from kio.schema.errors import ErrorCode

from penstock.kafka.client.admin.topics import (
    READ,
    WRITE,
    NewTopic,
    create_topic,
    describe_topics,
    list_topics,
)
from penstock.kafka.client.connections.connection import Connection
from penstock.kafka.client.errors import BrokerUnreachableError, ResponseError
from tests.kafka.client.described_cluster import NO_LEADER, DescribedCluster
from tests.kafka.client.settings import FILE

UNKNOWN = int(ErrorCode.unknown_topic_or_partition)
NOT_CONTROLLER = int(ErrorCode.not_controller)
EXISTS = int(ErrorCode.topic_already_exists)


@pytest.fixture
def connection(kafka):
    with Connection({"bootstrap.servers": kafka.bootstrap_servers}, FILE) as running:
        yield running


def test_topics_are_described_by_name():
    cluster = DescribedCluster({"a": [1, NO_LEADER], "b": [2]})
    topics = describe_topics(cluster, ["a", "b", "c"], 1.0)
    assert [topic.code for topic in topics.values()] == [0, 0, UNKNOWN]
    assert [topic.has_leaders for topic in topics.values()] == [False, True, False]
    assert topics["b"].partitions[0].replicas == 3


def test_many_topics_are_described_with_several_requests():
    names = [f"t{number}" for number in range(1001)]
    cluster = DescribedCluster({name: [1] for name in names})
    assert list(describe_topics(cluster, iter(names), 1.0)) == names
    assert len(cluster.requests) == 3


@pytest.mark.parametrize(
    ("bits", "allowed"), [(-(2**31), True), (1 << READ | 1 << WRITE, True), (1 << READ, False)]
)
def test_operations_that_brokers_do_not_report_are_allowed(bits, allowed):
    cluster = DescribedCluster({"a": [1]})
    cluster.operations = bits
    topic = describe_topics(cluster, ["a"], 1.0, operations=True)["a"]
    assert topic.allows(READ, WRITE) is allowed
    assert cluster.requests[0][1].include_topic_authorized_operations


def test_an_error_that_may_pass_is_retried_until_the_time_is_over():
    cluster = DescribedCluster({"a": [1]})
    cluster.failures = [BrokerUnreachableError("away")] * 2
    assert describe_topics(cluster, ["a"], 60.0)["a"].has_leaders
    cluster.failures = [BrokerUnreachableError("away")]
    with pytest.raises(BrokerUnreachableError):
        describe_topics(cluster, ["a"], 0.0)


def test_all_topics_are_counted():
    cluster = DescribedCluster({"a": [1, 2], "b": [1]}, replicas=2)
    assert [(t.name, t.partitions, t.replication_factor) for t in list_topics(cluster, 1.0)] == [
        ("a", 2, 2), ("b", 1, 2)
    ]  # fmt: skip


def test_a_topic_is_created_at_the_controller():
    cluster = DescribedCluster()
    cluster.controller = 2
    cluster.refusals = [(NOT_CONTROLLER, None)]
    create_topic(cluster, NewTopic("a", 2, 1, {"x": "y"}), 60.0)
    request = cluster.requests[-1][1].topics[0]
    assert cluster.topics == {"a": [1, 1]}
    assert [(config.name, config.value) for config in request.configs] == [("x", "y")]


def test_a_topic_is_not_created_without_a_controller():
    cluster = DescribedCluster()
    cluster.controller = -1
    with pytest.raises(ResponseError, match="no controller now"):
        create_topic(cluster, NewTopic("a"), 0.0)


def test_the_brokers_message_says_why_a_topic_is_refused():
    cluster = DescribedCluster()
    cluster.refusals = [(44, "not like that")]
    with pytest.raises(ResponseError, match=r"topic a: POLICY_VIOLATION \(44\): not like that"):
        create_topic(cluster, NewTopic("a"), 60.0)


def test_at_a_broker(connection, topic):
    name = topic("described", 3)
    described = describe_topics(connection, [name, f"{name}x"], 30.0, operations=True)
    assert described[name].has_leaders
    assert len(described[name].partitions) == 3
    assert described[name].allows(READ, WRITE)
    assert described[f"{name}x"].code == UNKNOWN
    found = {t.name: (t.partitions, t.replication_factor) for t in list_topics(connection, 30.0)}
    assert found[name] == (3, 1)
    with pytest.raises(ResponseError) as error:
        create_topic(connection, NewTopic(name, 1, 1), 30.0)
    assert error.value.code == EXISTS

"""Offsets of many partitions, from their leaders."""

import pytest
from kio.schema.errors import ErrorCode

from penstock.kafka.client.admin.offsets import ListedOffset, list_offsets
from penstock.kafka.client.connections.connection import Connection
from penstock.kafka.client.errors import BrokerUnreachableError, ResponseError
from penstock.kafka.client.protocol.log_offsets import EARLIEST, LATEST
from tests.kafka.client.described_cluster import LIST_OFFSETS, NO_LEADER, DescribedCluster
from tests.kafka.client.settings import FILE

FENCED, DENIED = int(ErrorCode.fenced_leader_epoch), int(ErrorCode.topic_authorization_failed)
PLACES = [("a", 0), ("a", 1), ("b", 0)]


def requested(cluster):
    """For each ListOffsets request the node, and how many partitions it has."""
    return [
        (request[1], sum(len(topic.partitions) for topic in request[2].topics))
        for request in cluster.requests
        if request[0] == LIST_OFFSETS
    ]


def test_each_leader_gets_one_request():
    cluster = DescribedCluster({"a": [1, 2], "b": [1]})
    cluster.offsets = {("a", 0): (5, 3), ("a", 1): (6, 0), ("b", 0): (-1, -1)}
    for _ in range(2):
        assert list_offsets(cluster, PLACES, LATEST, 1.0) == {
            ("a", 0): ListedOffset(5, 3),
            ("a", 1): ListedOffset(6, 0),
            ("b", 0): ListedOffset(-1, -1),
        }
    assert requested(cluster) == [(1, 2), (2, 1)] * 2
    assert len(cluster.requests) == 5, "topics are described once"


@pytest.mark.parametrize(("code", "is_looked_up"), [(FENCED, True), (DENIED, False)])
def test_a_leader_that_has_moved_is_looked_up_again(code, is_looked_up):
    cluster = DescribedCluster({"a": [1, 2], "b": [1]})
    cluster.offsets = {("a", 0): code}
    answers = list_offsets(cluster, PLACES, EARLIEST, 1.0)
    assert answers["a", 0].code == code
    assert isinstance(answers["b", 0], ListedOffset)
    assert cluster.refreshed == (["a"] if is_looked_up else [])


def test_partitions_without_a_leader():
    cluster = DescribedCluster({"a": [1, NO_LEADER]})
    cluster.codes = {"secret": [DENIED]}
    answers = list_offsets(cluster, [("a", 0), ("a", 1), ("a", 7), ("b", 0), ("secret", 0)],
                           LATEST, 1.0)  # fmt: skip
    codes = [a.code if isinstance(a, ResponseError) else 0 for _, a in sorted(answers.items())]
    assert codes == [0, 5, 3, 3, DENIED]


def test_a_leader_that_cannot_be_reached():
    cluster = DescribedCluster({"a": [1, 2]})
    cluster.offsets = {("a", 0): BrokerUnreachableError("away")}
    answers = list_offsets(cluster, PLACES[:2], LATEST, 1.0)
    assert isinstance(answers["a", 0], BrokerUnreachableError)
    assert isinstance(answers["a", 1], ListedOffset)


def test_at_a_broker(kafka, topic):
    name = topic("listed", 2)
    with Connection({"bootstrap.servers": kafka.bootstrap_servers}, FILE) as connection:
        answers = list_offsets(connection, [(name, 0), (name, 1), (name, 2)], LATEST, 30.0)
    assert answers[name, 0] == answers[name, 1] == ListedOffset(0, 0)
    assert answers[name, 2].code == ErrorCode.unknown_topic_or_partition

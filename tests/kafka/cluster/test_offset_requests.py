"""Offsets of many partitions: in chunks, and again where a leader is not known yet."""

from collections import Counter

import pytest
from kio.schema.errors import ErrorCode

from penstock.kafka.client.errors import BrokerUnreachableError
from penstock.kafka.cluster import offset_requests
from penstock.kafka.cluster.errors import ClusterError
from penstock.kafka.cluster.offset_requests import (
    NO_ANSWER,
    OffsetRefusal,
    all_offsets,
    earliest_of,
    latest_of,
    since,
)
from penstock.kafka.cluster.ranges import Partition
from tests.kafka.client.described_cluster import LIST_OFFSETS, DescribedCluster

FENCED, DENIED = int(ErrorCode.fenced_leader_epoch), int(ErrorCode.topic_authorization_failed)
NO_LEADER = OffsetRefusal(int(ErrorCode.not_leader_or_follower), "not leader")
PARTITIONS = [Partition("t", number) for number in range(10)]


class Cluster:
    """Answers with ten times the partition's number; some partitions have no leader at first."""

    def __init__(self, without_leader=()):
        self.without_leader = Counter(without_leader)
        self.requests = []
        self.now = 0.0

    def request(self, partitions):
        self.requests.append([partition.number for partition in partitions])
        return {partition: self._answer(partition) for partition in partitions}

    def _answer(self, partition):
        if self.without_leader[partition.number] > 0:
            self.without_leader[partition.number] -= 1
            return NO_LEADER
        return 10 * partition.number

    def pause(self, seconds):
        self.now += seconds

    def offsets(self, partitions=PARTITIONS, **options):
        return all_offsets(
            partitions, self.request, clock=lambda: self.now, pause=self.pause, **options
        )


def test_all_partitions_are_in_a_request():
    cluster = Cluster()
    assert cluster.offsets() == {partition: 10 * partition.number for partition in PARTITIONS}
    assert (len(cluster.requests), cluster.now) == (1, 0)


def test_many_partitions_are_requested_in_chunks():
    cluster = Cluster()
    many = [Partition("t", number) for number in range(10_000)]
    assert len(cluster.offsets(many)) == 10_000
    assert [len(requested) for requested in cluster.requests] == [5000, 5000]


def test_only_partitions_without_a_leader_are_requested_again_with_growing_pauses():
    cluster = Cluster([3, 7, 7, 7, 7, 7, 7])
    assert cluster.offsets(chunk=4) == {
        partition: 10 * partition.number for partition in PARTITIONS
    }
    assert cluster.requests == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], [3, 7], [7], [7], [7], [7], [7]]
    assert cluster.now == pytest.approx(0.1 + 0.2 + 0.4 + 0.8 + 1 + 1)


def test_a_partition_that_gets_no_leader_is_named_after_some_time():
    cluster = Cluster([3] * 1000)
    with pytest.raises(ClusterError, match="the offsets of t-3 cannot be listed: not leader"):
        cluster.offsets()
    assert 15 <= cluster.now < 17


def test_other_errors_are_not_waited_for():
    answers = {PARTITIONS[0]: OffsetRefusal(DENIED, "not authorized")}
    with pytest.raises(ClusterError, match="t-0 cannot be listed: not authorized"):
        all_offsets(PARTITIONS[:1], lambda _: answers, pause=lambda _: pytest.fail("waited"))


@pytest.mark.parametrize("request_of", [earliest_of, latest_of])
@pytest.mark.parametrize("code", [FENCED, NO_LEADER.code])
def test_the_next_caller_looks_up_a_leader_that_has_moved(request_of, code):
    cluster, partition = DescribedCluster({"moved": [1], "t": [1]}), Partition("moved", 0)
    cluster.offsets = {("moved", 0): code, ("t", 0): (7, 0)}
    answers = request_of(cluster)([partition, Partition("t", 0)])
    assert (answers[partition].code, answers["t", 0]) == (code, 7)
    assert cluster.refreshed == ["moved"]


def test_metadata_are_not_requested_after_other_errors():
    cluster, partition = DescribedCluster({"t": [1]}), Partition("t", 0)
    cluster.offsets = {("t", 0): DENIED}
    for _ in range(2):
        assert earliest_of(cluster)([partition])[partition].code == DENIED
    assert cluster.refreshed == []


@pytest.mark.parametrize(("timestamp_ms", "requested"), [(17, 17), (-5, 0)])
def test_a_time_is_no_name_of_an_offset(timestamp_ms, requested):
    cluster = DescribedCluster({"t": [1]})
    since(cluster, timestamp_ms)([Partition("t", 0)])
    [request] = [request[2] for request in cluster.requests if request[0] == LIST_OFFSETS]
    assert request.topics[0].partitions[0].timestamp == requested


def test_a_cluster_that_does_not_answer_is_no_error_of_a_partition(monkeypatch):
    monkeypatch.setattr(offset_requests, "RETRY_FOR_S", 0.0)
    cluster, partition = DescribedCluster({"t": [1]}), Partition("t", 0)
    cluster.failures = [BrokerUnreachableError("away")]
    assert latest_of(cluster)([partition]) == {partition: OffsetRefusal(NO_ANSWER, "away")}
    cluster.offsets = {("t", 0): BrokerUnreachableError("gone")}
    assert latest_of(cluster)([partition]) == {partition: OffsetRefusal(NO_ANSWER, "gone")}

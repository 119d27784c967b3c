"""Offsets of many partitions: in chunks, and again where a leader is not known yet."""

from collections import Counter

import pytest
from confluent_kafka import KafkaError

from penstock.cluster.errors import ClusterError
from penstock.cluster.offset_requests import Refusal, all_offsets
from penstock.cluster.ranges import Partition

NO_LEADER = Refusal(KafkaError.NOT_LEADER_FOR_PARTITION, "not leader")
PARTITIONS = [Partition("t", number) for number in range(10)]


class Cluster:
    """Answers with ten times the partition's number; some partitions have no leader at first."""

    def __init__(self, without_leader=()):
        self.without_leader = Counter(without_leader)
        self.asked = []
        self.now = 0.0

    def ask(self, partitions):
        self.asked.append([one.number for one in partitions])
        return {one: self._answer(one) for one in partitions}

    def _answer(self, partition):
        if self.without_leader[partition.number] > 0:
            self.without_leader[partition.number] -= 1
            return NO_LEADER
        return 10 * partition.number

    def pause(self, seconds):
        self.now += seconds

    def offsets(self, partitions=PARTITIONS, **options):
        return all_offsets(
            partitions, self.ask, clock=lambda: self.now, pause=self.pause, **options
        )


def test_all_are_asked_about_at_once():
    cluster = Cluster()
    assert cluster.offsets() == {one: 10 * one.number for one in PARTITIONS}
    assert (len(cluster.asked), cluster.now) == (1, 0)


def test_many_are_asked_about_in_chunks():
    cluster = Cluster()
    many = [Partition("t", number) for number in range(10_000)]
    assert len(cluster.offsets(many)) == 10_000
    assert [len(asked) for asked in cluster.asked] == [5000, 5000]


def test_only_partitions_without_a_leader_are_asked_about_again_in_growing_pauses():
    cluster = Cluster([3, 7, 7, 7, 7, 7, 7])
    assert cluster.offsets(chunk=4) == {one: 10 * one.number for one in PARTITIONS}
    assert cluster.asked == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], [3, 7], [7], [7], [7], [7], [7]]
    assert cluster.now == pytest.approx(0.1 + 0.2 + 0.4 + 0.8 + 1 + 1)


def test_a_partition_that_gets_no_leader_is_named_after_some_time():
    cluster = Cluster([3] * 1000)
    with pytest.raises(ClusterError, match="the offsets of t-3 cannot be listed: not leader"):
        cluster.offsets()
    assert 15 <= cluster.now < 17


def test_other_errors_are_not_waited_for():
    answers = {PARTITIONS[0]: Refusal(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not authorized")}
    with pytest.raises(ClusterError, match="t-0 cannot be listed: not authorized"):
        all_offsets(PARTITIONS[:1], lambda _: answers, pause=lambda _: pytest.fail("waited"))

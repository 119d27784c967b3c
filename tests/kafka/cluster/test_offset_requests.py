"""Offsets of many partitions: in chunks, and again where a leader is not known yet."""

from collections import Counter
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.kafka.cluster.errors import ClusterError
from penstock.kafka.cluster.offset_requests import (
    OffsetRefusal,
    all_offsets,
    earliest_of,
    latest_of,
)
from penstock.kafka.cluster.ranges import Partition

NO_LEADER = OffsetRefusal(KafkaError.NOT_LEADER_FOR_PARTITION, "not leader")
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
    answers = {
        PARTITIONS[0]: OffsetRefusal(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not authorized")
    }
    with pytest.raises(ClusterError, match="t-0 cannot be listed: not authorized"):
        all_offsets(PARTITIONS[:1], lambda _: answers, pause=lambda _: pytest.fail("waited"))


class Admin:
    """As librdkafka's client: uses a leader that has moved until the metadata are requested."""

    def __init__(self, refusals):
        self.refusals = dict(refusals)
        self.requested = []

    def list_offsets(self, wanted, **_):
        return {entry: self._answer(entry.topic) for entry in wanted}

    def _answer(self, topic):
        answer = Future()
        if topic in self.refusals:
            answer.set_exception(KafkaException(KafkaError(self.refusals[topic])))
        else:
            answer.set_result(SimpleNamespace(offset=7))
        return answer

    def list_topics(self, topic=None, **_):
        self.requested.append(topic)
        self.refusals.pop(topic, None)


@pytest.mark.parametrize("request_of", [earliest_of, latest_of])
@pytest.mark.parametrize(
    "code", [KafkaError.FENCED_LEADER_EPOCH, KafkaError.NOT_LEADER_FOR_PARTITION]
)
def test_the_next_caller_knows_a_leader_that_has_moved(request_of, code):
    admin, partition = Admin({"moved": code}), Partition("moved", 0)
    assert request_of(admin)([partition, Partition("t", 0)]) == {
        partition: OffsetRefusal(code, KafkaError(code).str()),
        Partition("t", 0): 7,
    }
    assert admin.requested == ["moved"]
    assert request_of(admin)([partition]) == {partition: 7}
    assert admin.requested == ["moved"]


def test_metadata_are_not_requested_after_other_errors():
    admin, partition = Admin({"t": KafkaError.TOPIC_AUTHORIZATION_FAILED}), Partition("t", 0)
    for _ in range(2):
        assert earliest_of(admin)([partition])[partition].code == (
            KafkaError.TOPIC_AUTHORIZATION_FAILED
        )
    assert admin.requested == []

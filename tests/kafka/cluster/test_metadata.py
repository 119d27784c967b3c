"""The cluster's metadata, from the answers of an admin client."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from penstock.kafka.cluster.metadata import ClusterMetadata, MetadataUnavailableError


def answered(epoch):
    future = Future()
    future.set_result(SimpleNamespace(leader_epoch=epoch))
    return future


def refused():
    future = Future()
    future.set_exception(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
    return future


class Admin:
    """An admin client that has one answer for each partition."""

    def __init__(self, answers):
        self.answers = {TopicPartition(*partition): answer for partition, answer in answers.items()}

    def list_offsets(self, wanted, **_):
        return {partition: self.answers[partition] for partition in wanted}


def test_leader_epochs_that_are_not_known_are_left_out(tmp_path):
    cluster = ClusterMetadata({"bootstrap.servers": "127.0.0.1:1"}, tmp_path)
    answers = {("t", 0): answered(7), ("t", 1): answered(None), ("secret", 0): refused()}
    cluster._admin = Admin(answers)
    assert cluster.leader_epochs(answers) == {("t", 0): 7}


def test_nothing_is_requested_for_no_partition(tmp_path):
    cluster = ClusterMetadata({"bootstrap.servers": "127.0.0.1:1"}, tmp_path)
    assert cluster.leader_epochs([]) == {}
    assert cluster._admin is None


OFFSETS = {"offsets.topic.num.partitions": "50", "offsets.topic.replication.factor": "3"}
SHARES = {
    "share.coordinator.state.topic.num.partitions": "40",
    "share.coordinator.state.topic.replication.factor": "2",
}


@pytest.mark.parametrize(
    ("configs", "topic", "expected"),
    [
        (OFFSETS | SHARES, "__share_group_state", (40, 2)),
        (OFFSETS | SHARES, "__consumer_offsets", (50, 3)),
        (OFFSETS | SHARES, "orders", None),
        # Brokers before share groups create no such topic.
        (OFFSETS, "__share_group_state", None),
    ],
)
async def test_an_internal_topic_is_missing_as_its_brokers_would_create_it(
    tmp_path, monkeypatch, configs, topic, expected
):
    cluster = ClusterMetadata({"bootstrap.servers": "127.0.0.1:1"}, tmp_path)
    monkeypatch.setattr(cluster, "_list", dict)
    monkeypatch.setattr(cluster, "_describe_broker", lambda: configs)
    missing = await cluster.missing_internal_topic(topic)
    assert (missing and missing[1:3]) == expected


async def test_a_missing_topic_without_the_brokers_configs_cannot_be_judged(tmp_path, monkeypatch):
    cluster = ClusterMetadata({"bootstrap.servers": "127.0.0.1:1"}, tmp_path)
    monkeypatch.setattr(cluster, "_list", dict)
    monkeypatch.setattr(cluster, "_describe_broker", dict)
    with pytest.raises(MetadataUnavailableError, match="do not return offsets"):
        await cluster.missing_internal_topic("__consumer_offsets")

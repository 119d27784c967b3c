"""The cluster's metadata, from the answers of an admin client."""

from concurrent.futures import Future
from types import SimpleNamespace

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from penstock.cluster.metadata import ClusterMetadata


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

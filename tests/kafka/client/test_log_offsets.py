"""The responses of a real leader about the offsets of its log."""

import pytest
from confluent_kafka import Producer, TopicPartition
from kio.schema.errors import ErrorCode

from penstock.kafka.client.connections.connection import Connection
from penstock.kafka.client.connections.metadata import PartitionLeader
from penstock.kafka.client.errors import ResponseError
from penstock.kafka.client.protocol.log_offsets import (
    EARLIEST,
    LATEST,
    LogPartition,
    epoch_end,
    list_offset,
    local_log_start,
)
from tests.kafka.client.settings import FILE


@pytest.fixture
def connection(kafka):
    with Connection({"bootstrap.servers": kafka.bootstrap_servers}, FILE) as running:
        yield running


@pytest.fixture
def partition(kafka, admin, topic):
    """A partition with the offsets from 3 to 9."""
    name = topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for _ in range(10):
        producer.produce(name, b"value", partition=0)
    assert producer.flush(60) == 0
    admin.delete_records([TopicPartition(name, 0, 3)])[TopicPartition(name, 0)].result(60)
    return LogPartition(name, 0)


def test_the_start_and_the_end_of_a_log(connection, partition, monkeypatch):
    leader = connection.leader(*partition)
    assert list_offset(connection, leader, partition, EARLIEST) == 3
    assert list_offset(connection, leader, partition, LATEST) == 10
    assert local_log_start(connection, leader, partition) == 3
    monkeypatch.setattr(connection, "versions", lambda *_: range(8))
    assert local_log_start(connection, leader, partition) == 3


def test_the_end_of_an_epoch(connection, partition):
    leader = connection.leader(*partition)
    assert epoch_end(connection, leader, partition, leader.epoch) == (leader.epoch, 10)
    assert epoch_end(connection, leader, partition, leader.epoch + 5).end == -1


@pytest.mark.parametrize("find", [list_offset, epoch_end])
def test_an_epoch_that_the_leader_does_not_know(connection, partition, find):
    leader = connection.leader(*partition)
    ahead = PartitionLeader(leader.node, leader.epoch + 1)
    with pytest.raises(ResponseError, match=f"topic {partition.topic}, partition 0: ") as caught:
        find(connection, ahead, partition, 0)
    assert caught.value.code == ErrorCode.unknown_leader_epoch
    assert caught.value.retriable

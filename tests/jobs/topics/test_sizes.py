"""Sizes of records, from the log sizes of brokers."""

import os
from pathlib import Path

from penstock.jobs.tasks.planning import Sizes
from penstock.jobs.topics.sizes import measured
from penstock.kafka.client.connections.connection import Connection
from penstock.kafka.cluster.offsets import Cluster
from penstock.kafka.cluster.ranges import Partition


def topics_of(kafka, *topics):
    """Return the cluster, and its topics."""
    cluster = Cluster({"bootstrap.servers": kafka.bootstrap_servers}, Path())
    return cluster, cluster.topics(",".join(topics))


def test_sizes_are_those_of_the_logs(kafka, topic, produce):
    large, small = topic("large", 2), topic("small")
    produce(large, [{"value": os.urandom(50_000), "partition": 0}] * 20)
    produce(small, [{"value": os.urandom(100)}] * 50)
    properties = {"bootstrap.servers": kafka.bootstrap_servers}
    with Connection(properties, Path("penstock.properties")) as connection:
        sizes = measured(connection, *topics_of(kafka, large, small))
    assert set(sizes.offset_bytes) == {Partition(large, 0), Partition(small, 0)}
    assert 50_000 < sizes.offset_bytes[Partition(large, 0)] < 52_000
    assert 100 < sizes.offset_bytes[Partition(small, 0)] < 200
    assert 14_000 < sizes.default_bytes < 15_000


def test_without_an_answer_there_are_defaults(kafka, topic, produce):
    name = topic()
    produce(name, [{"value": b"x"}])
    properties = {
        "bootstrap.servers": "127.0.0.1:1",
        "default.api.timeout.ms": "500",
        "request.timeout.ms": "500",
        "socket.connection.setup.timeout.ms": "500",
    }
    with Connection(properties, Path("penstock.properties")) as connection:
        assert measured(connection, *topics_of(kafka, name)) == Sizes()

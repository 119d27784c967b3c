"""Configs that are described, in a cluster in memory and at a real broker."""

import pytest

from penstock.kafka.client.admin.configs import (
    DescribedConfig,
    broker_configs,
    configs_of_topic,
    topic_configs,
)
from penstock.kafka.client.connections.connection import Connection
from penstock.kafka.client.errors import DeniedError
from tests.kafka.client.described_cluster import DescribedCluster
from tests.kafka.client.settings import FILE

KEY = "cleanup.policy"


@pytest.fixture
def connection(kafka):
    with Connection({"bootstrap.servers": kafka.bootstrap_servers}, FILE) as running:
        yield running


def test_each_topic_has_configs_or_an_error():
    cluster = DescribedCluster()
    cluster.configs = {"a": {KEY: "compact", "x": None}, "secret": 29}
    cluster.set_on_topics = {KEY}
    answers = topic_configs(cluster, ["a", "secret"], 1.0)
    assert answers["a"] == {
        KEY: DescribedConfig("compact", True), "x": DescribedConfig(None, False)
    }  # fmt: skip
    assert isinstance(answers["secret"], DeniedError)
    assert list(configs_of_topic(cluster, "a", 1.0, keys=("x",))) == ["x"]
    with pytest.raises(DeniedError, match="topic secret: TOPIC_AUTHORIZATION_FAILED"):
        configs_of_topic(cluster, "secret", 1.0)


def test_nothing_is_requested_for_no_topic():
    cluster = DescribedCluster()
    assert topic_configs(cluster, [], 1.0) == {}
    assert cluster.requests == []


def test_a_broker_describes_itself():
    cluster = DescribedCluster()
    cluster.configs = {"1": {"num.partitions": "5"}}
    assert broker_configs(cluster, 1.0)["num.partitions"].value == "5"


def test_at_a_broker(connection, topic):
    name = topic("configured")
    configs = configs_of_topic(connection, name, 30.0)
    assert configs[KEY] == DescribedConfig("delete", False)
    assert int(broker_configs(connection, 30.0)["num.partitions"].value) > 0

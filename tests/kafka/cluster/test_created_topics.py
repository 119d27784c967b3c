"""Penstock's own topics: how many brokers have their records, their configs, and their creation."""

import pytest

from penstock.kafka.client.admin.topics import NewTopic
from penstock.kafka.client.errors import BrokerUnreachableError, DeniedError, ResponseError
from penstock.kafka.cluster import created_topics
from penstock.kafka.cluster.created_topics import Replicas, configs_of, create, describe
from tests.kafka.client.described_cluster import NO_LEADER, DescribedCluster

UNKNOWN, DENIED, EXISTS, POLICY = 3, 29, 36, 44


@pytest.mark.parametrize(
    ("brokers", "replicas"), [(1, (1, 1)), (2, (2, 1)), (3, (3, 2)), (9, (3, 2))]
)
def test_state_outlives_the_loss_of_one_of_three_brokers(brokers, replicas):
    assert Replicas.of(DescribedCluster(brokers=brokers), 1.0) == replicas


@pytest.mark.parametrize(
    ("has", "wanted", "are_fewer"),
    [
        ((1, 1), (3, 2), True),
        ((3, 1), (3, 2), True),
        ((2, 2), (3, 2), True),
        ((3, 2), (3, 2), False),
        ((5, 3), (3, 2), False),
        ((1, 1), (1, 1), False),
    ],
)
def test_fewer_replicas_are_noticed(has, wanted, are_fewer):
    assert Replicas(*has).are_fewer_than(Replicas(*wanted)) is are_fewer


def test_configs_are_texts():
    cluster = DescribedCluster()
    cluster.configs = {"a": {"cleanup.policy": "compact", "x": None}}
    assert configs_of(cluster, "a", 1.0) == {"cleanup.policy": "compact", "x": ""}


def test_configs_that_may_not_be_described_are_not_known():
    cluster = DescribedCluster()
    cluster.configs = {"a": DENIED}
    assert configs_of(cluster, "a", 1.0) is None


def test_another_error_is_raised():
    cluster = DescribedCluster()
    cluster.failures = [BrokerUnreachableError("away")]
    with pytest.raises(BrokerUnreachableError):
        configs_of(cluster, "a", 0.0)


def test_a_topic_that_does_not_exist_has_no_description():
    cluster = DescribedCluster({"a": [1]})
    cluster.codes = {"secret": [DENIED]}
    assert describe(cluster, "b", 1.0) is None
    assert describe(cluster, "a", 1.0).name == "a"
    with pytest.raises(DeniedError, match="topic secret: TOPIC_AUTHORIZATION_FAILED"):
        describe(cluster, "secret", 1.0)


def test_a_created_topic_is_waited_for():
    cluster = DescribedCluster()
    cluster.codes = {"new": [UNKNOWN, UNKNOWN, 0]}
    assert create(cluster, NewTopic("new", 2), 60.0)
    assert cluster.codes["new"] == [0]


@pytest.mark.parametrize("codes", [[UNKNOWN], [0]])
def test_a_created_topic_that_no_broker_knows_or_leads(monkeypatch, codes):
    monkeypatch.setattr(created_topics, "_APPEARS_WITHIN_S", 0.1)
    cluster = DescribedCluster({"new": [NO_LEADER]})
    cluster.refusals, cluster.codes = [(EXISTS, None)], {"new": codes}
    assert not create(cluster, NewTopic("new"), 60.0)


def test_a_topic_that_another_has_created_meanwhile_is_used():
    cluster = DescribedCluster({"new": [1]})
    cluster.refusals = [(EXISTS, "exists")]
    assert create(cluster, NewTopic("new"), 60.0)
    cluster.refusals = [(POLICY, "no")]
    with pytest.raises(ResponseError, match="no"):
        create(cluster, NewTopic("new"), 60.0)

"""The cluster's metadata, from the answers of a cluster in memory."""

import pytest

from penstock.kafka.client.errors import BrokerUnreachableError
from penstock.kafka.cluster import metadata
from penstock.kafka.cluster.metadata import ClusterMetadata, MetadataUnavailableError
from tests.kafka.client.described_cluster import NO_LEADER, DescribedCluster
from tests.kafka.client.settings import FILE

DENIED = 29
KEY = "cleanup.policy"


@pytest.fixture
def cluster(monkeypatch):
    """A cluster with some topics."""
    described = DescribedCluster({"t": [1, 2], "secret": [1]})
    described.settings = described.settings._replace(api_timeout_s=0.0)
    monkeypatch.setattr(metadata, "connect", lambda *_: described)
    monkeypatch.setattr(metadata, "_TIMEOUT_S", 0.0)
    return described


@pytest.fixture
def view(cluster):
    return ClusterMetadata({"bootstrap.servers": "127.0.0.1:1"}, FILE)


def test_leader_epochs_that_are_not_known_are_left_out(cluster, view):
    cluster.offsets = {("t", 0): (5, 7), ("t", 1): (5, -1), ("secret", 0): DENIED}
    assert view.leader_epochs(cluster.offsets) == {("t", 0): 7}
    cluster.failures = [BrokerUnreachableError("away")]
    assert view.leader_epochs([("u", 0)]) == {}


def test_nothing_is_requested_for_no_partition_and_no_topic(cluster, view):
    assert view.leader_epochs([]) == {}
    assert view.ids([]) == {}
    assert cluster.requests == []


def test_ids_of_topics_with_none_for_those_that_do_not_exist(cluster, view):
    cluster.codes = {"secret": [DENIED]}
    ids = view.ids(iter(["t", "secret", "gone"]))
    assert list(ids) == ["t", "gone"]
    assert ids["t"].int
    assert ids["gone"] is None
    cluster.failures = [BrokerUnreachableError("away")]
    assert view.ids(["t"]) == {}


async def test_topics_have_counts_once_they_are_accepted(cluster, view):
    assert await view.topics() == {"t": (2, 3), "secret": (1, 3)}
    view.allow("new", 4, 2)
    assert (await view.topics())["new"] == (4, 2)
    cluster.topics["new"] = [NO_LEADER] * 4
    cluster.replicas = 2
    await view.topics()
    view.disallow("new")
    assert (await view.topics())["new"] == (4, 2)
    cluster.failures = [BrokerUnreachableError("k:1 is away")]
    with pytest.raises(MetadataUnavailableError, match="topics cannot be listed: k:1 is away"):
        await view.topics()


def test_configs_that_are_set_on_topics(cluster, view):
    cluster.configs = {"t": {KEY: "compact", "x": "1", "y": None}}
    cluster.set_on_topics = {KEY, "y"}
    assert view.configs(["t"]) == {"t": {KEY: "compact"}}
    assert view.configs([]) == {}
    cluster.configs["secret"] = DENIED
    with pytest.raises(MetadataUnavailableError, match="topic secret: TOPIC_AUTHORIZATION_FAILED"):
        view.configs(["t", "secret"])


def test_cleanup_policies_and_why_some_are_not_known(cluster, view):
    cluster.configs = {"t": {KEY: "compact", "x": "1"}}
    assert view.cleanup_policies(["t"]) == ({"t": "compact"}, "")
    policies, why = view.cleanup_policies(["t", "gone"])
    assert policies == {"t": "compact"}
    assert "topic gone: UNKNOWN_TOPIC_OR_PARTITION" in why
    cluster.failures = [BrokerUnreachableError("away")]
    assert view.cleanup_policies(["t"]) == ({}, "away")


async def test_defaults_of_the_cluster(cluster, view):
    cluster.configs = {"1": {"num.partitions": "6", "default.replication.factor": "3"}}
    assert await view.counts(-1, -1) == (6, 3)
    assert await view.counts(1, 2) == (1, 2)
    assert await view.creates_topics()
    with pytest.raises(MetadataUnavailableError, match="do not return x"):
        await view.default("x")
    assert len(cluster.requests) == 1


async def test_without_the_brokers_configs_topics_may_be_created_automatically(cluster, view):
    cluster.failures = [BrokerUnreachableError("away")]
    assert await view.creates_topics()
    cluster.configs = {"1": {"auto.create.topics.enable": "false"}}
    assert not await view.creates_topics()


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
    cluster, view, configs, topic, expected
):
    cluster.configs = {"1": configs}
    missing = await view.missing_internal_topic(topic)
    assert (missing and missing[1:3]) == expected


async def test_a_missing_topic_without_the_brokers_configs_cannot_be_judged(cluster, view):
    cluster.configs = {"1": {}}
    with pytest.raises(MetadataUnavailableError, match="do not return offsets"):
        await view.missing_internal_topic("__consumer_offsets")


async def test_an_internal_topic_that_exists_is_not_missing(cluster, view):
    cluster.topics["__consumer_offsets"] = [1]
    for _ in range(2):
        assert await view.missing_internal_topic("__consumer_offsets") is None

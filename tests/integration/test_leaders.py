"""Leaders of real brokers before and after all replicas have a record of their epoch."""

import asyncio
import time

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.gateway.produce.producer_state.leaders import leaders_of
from penstock.kafka.cluster.metadata import ClusterMetadata
from penstock.kafka.local import LocalKafka
from penstock.kafka.wire.requests import leaders
from penstock.kafka.wire.requests.leaders import Leader
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import RawClient, produce_request, produced

pytestmark = pytest.mark.slow

TOPIC, TIMEOUT_S = "moved", 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with LocalKafka(
        nodes=3, folder=tmp_path_factory.mktemp("leaders"), properties={"min.insync.replicas": "2"}
    ) as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster):
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers})


def leader_of(admin, *, other_than=-1):
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        found = admin.list_topics(TOPIC, timeout=TIMEOUT_S).topics[TOPIC].partitions
        if found and found[0].leader not in {-1, other_than}:
            return found[0].leader
        time.sleep(0.1)
    raise AssertionError(f"{TOPIC} has no other leader")


def describe(client):
    """Return the leader's description of itself; None before it knows its replicas' offsets."""
    client.send(leaders.request(1, partitions={TOPIC: {0: 0}}))
    offsets = leaders.response(client.receive())
    if offsets[TOPIC, 0].code:
        return None
    client.send(leaders.epochs_request(2, epochs={TOPIC: {0: offsets[TOPIC, 0].epoch}}))
    return leaders.leaders(client.receive(), offsets=offsets).get((TOPIC, 0))


def described(client):
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        if (leader := describe(client)) is not None:
            return leader
        time.sleep(0.1)
    raise AssertionError("the leader never knows the end of its replicas")


def store(client):
    answer = client.call(produce_request([(TOPIC, [(0, encode_batch(values(b"v")))])]))
    assert produced(answer)[TOPIC, 0].error_code == 0


def test_a_leader_has_committed_once_a_record_of_its_epoch_is_stored(cluster, admin, tmp_path):
    admin.create_topics([NewTopic(TOPIC, 1, 3)])[TOPIC].result(TIMEOUT_S)
    nodes = {node.node_id: node for node in cluster.nodes}
    first = leader_of(admin)
    with RawClient(f"127.0.0.1:{nodes[first].port}", TIMEOUT_S) as client:
        assert described(client) == Leader(0, has_committed=True), "there was no leader before"
        store(client)
    nodes[first].stop()
    second = leader_of(admin, other_than=first)
    with RawClient(f"127.0.0.1:{nodes[second].port}", TIMEOUT_S) as client:
        leader = described(client)
        assert leader.epoch > 0
        assert not leader.has_committed, (
            "a former leader could have more records, and become the leader again"
        )
        metadata = ClusterMetadata(
            {"bootstrap.servers": cluster.bootstrap_servers}, tmp_path / "file"
        )
        known = asyncio.run(leaders_of(metadata, lambda topic: topic == TOPIC, 10))
        assert known == {(TOPIC, 0): leader.epoch}
        store(client)
        assert described(client) == leader._replace(has_committed=True)

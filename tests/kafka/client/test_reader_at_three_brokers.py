"""Leaders that move, brokers that die, and followers in the client's rack, while a range is read."""

import random
import time
import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.kafka.client.connections.connection import Connection
from penstock.kafka.client.reading.offset_ranges import WantedRange
from penstock.kafka.client.reading.reader import RangeReader
from penstock.kafka.local import LocalKafka
from tests.chaos.leaders import move_leaders
from tests.kafka.client.settings import FILE

pytestmark = [pytest.mark.system, pytest.mark.slow]
BATCHES = 200
RACKS = {1: "west", 2: "east", 3: "north"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Three brokers, each in a separate rack."""
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    running = LocalKafka(
        nodes=3, first_node_id=1, folder=tmp_path_factory.mktemp("racks"),
        properties={"default.replication.factor": "3", "replica.selector.class": selector,
                    "auto.leader.rebalance.enable": "false"},
    )  # fmt: skip
    prepare = running._prepare

    def with_racks():
        prepare()
        for node in running.nodes:
            with node.properties.open("a") as file:
                file.write(f"broker.rack={RACKS[node.node_id]}\n")

    running._prepare = with_racks
    with running:
        yield running


@pytest.fixture
def topic(cluster):
    """A topic with many small batches."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(name, 1, 3)])[name].result(30)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5000})
    for number in range(BATCHES):
        for two in range(5):
            producer.produce(name, b"%d-%d" % (number, two) + bytes(1000), partition=0)
        assert producer.flush(30) == 0
    return name


def connected(cluster, **more):
    return Connection(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "fetch.max.bytes": "20000",
            "default.api.timeout.ms": "60000",
            **more,
        },
        FILE,
    )


def reader(connection, topic):
    return RangeReader(connection, WantedRange(topic, 0, 0, BATCHES * 5), on_lost=pytest.fail)


def disturbed(batches, disturb):
    """Read on, with disturbances on the way; return the offsets."""
    found = []
    for number, batch in enumerate(batches):
        found += range(batch.first, batch.end)
        if number in {50, 100, 150}:
            disturb()
    return found


def test_leaders_move(cluster, topic):
    with connected(cluster) as connection:
        first = connection.leader(topic, 0)

        def move():
            move_leaders(cluster.bootstrap_servers, [topic], random.Random(5))
            time.sleep(0.3)

        found = disturbed(reader(connection, topic), move)
        assert found == list(range(BATCHES * 5))
        assert connection.leader(topic, 0).epoch > first.epoch


def test_the_leader_dies(cluster, topic):
    with connected(cluster) as connection:
        leader = connection.leader(topic, 0).node
        killed = next(node for node in cluster.nodes if node.node_id == leader)
        try:
            found = disturbed(reader(connection, topic), killed.kill)
        finally:
            killed.start()
            cluster.wait_ready()
        assert found == list(range(BATCHES * 5))
        assert connection.leader(topic, 0).node != leader


def test_a_follower_in_the_rack(cluster, topic):
    with connected(cluster) as connection:
        leader = connection.leader(topic, 0).node
    follower = next(node for node in cluster.nodes if node.node_id != leader)
    with connected(cluster, **{"client.rack": RACKS[follower.node_id]}) as connection:
        read_from = set()
        begin = connection.begin

        def recorded(node, request, **more):
            read_from.add(node)
            return begin(node, request, **more)

        connection.begin = recorded
        batches = iter(reader(connection, topic))
        found = [batch.first for batch in (next(batches) for _ in range(20))]
        assert read_from == {leader, follower.node_id}
        try:
            follower.kill()
            found += [batch.first for batch in batches]
        finally:
            follower.start()
            cluster.wait_ready()
        assert found == list(range(0, BATCHES * 5, 5))

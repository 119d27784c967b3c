"""franz-go continues after the broker behind a gateway was killed and started again.

A gateway accepts connections that a stopped broker would refuse. franz-go takes the end of a
connection before its first response for missing authentication, and fails its records.
"""

import time

import pytest
from confluent_kafka.admin import AdminClient

from penstock.kafka.local.broker import LocalKafka
from tests.chaos.producers import Producer, Running
from tests.chaos.world import Way
from tests.conftest import create_topic, started_gateways
from tests.gateways import wait_until
from tests.go import go_program

pytestmark = [pytest.mark.slow, pytest.mark.go]

TIMES = 3
UNAVAILABLE_S = 4.0
BACK_S = 1.0


@pytest.fixture
def cluster():
    with LocalKafka() as running:
        yield running


@pytest.fixture
def producers(cluster):
    """Three of each kind, with a topic for each."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    made = [
        Producer("franz-go", kind, Way.ALONE, f"{kind}-{number}")
        for kind in ("idempotent", "transactional")
        for number in range(3)
    ]
    for producer in made:
        create_topic(admin, producer.topic)
    return made


def disturb(cluster: LocalKafka) -> None:
    [node] = cluster.nodes
    for _ in range(TIMES):
        node.kill()
        time.sleep(UNAVAILABLE_S)
        node.start()
        cluster.wait_ready()
        time.sleep(BACK_S)


@pytest.mark.timeout(300)
def test_franz_go_continues_when_the_broker_is_back(cluster, producers, tmp_path):
    with started_gateways(cluster, tmp_path) as start:
        running = start({"advertised.host": "127.0.0.1"})
        clients = Running(
            go_program("chaos"), producers, {Way.ALONE: running.address}, tmp_path / "log"
        )
        try:
            wait_until(lambda: clients.has_begun)
            disturb(cluster)
            clients.finish()
            deliveries = clients.deliveries()
        finally:
            clients.kill()
    texts = [
        text
        for delivery in deliveries.values()
        for text in (*delivery.failed, *delivery.aborted, *delivery.fatal)
    ]
    assert not [text for text in texts if "SASL" in text]
    assert not [delivery.failed for producer, delivery in deliveries.items() if producer.kind == "idempotent"
                and delivery.failed]  # fmt: skip
    assert all(delivery.acknowledged for delivery in deliveries.values())

"""A port that leads to another cluster than before, with a Java client that checks it (KIP-1242)."""

import pytest
from confluent_kafka.admin import AdminClient

from penstock.kafka.local import LocalKafka
from tests.conftest import create_topic
from tests.gateways import RunningGateway, gateway_port, wait_until, write_configuration
from tests.integration.reading import read_topic, values_of
from tests.interop.conftest import JAVA
from tests.interop.programs import running
from tests.java import program
from tests.metrics import scrape
from tests.proxies import Forwarder

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def meant():
    """The cluster that the client means. With a second broker it does not bootstrap by itself."""
    with LocalKafka(nodes=2) as running:
        yield running


class Gateways:
    """Gateways of the test, which end with it."""

    def __init__(self, folder) -> None:
        self._folder = folder
        self._running: list[RunningGateway] = []

    def start(self, upstream: str, host: str = "127.0.0.1", *, port: int = 0) -> int:
        """Start a gateway; return its port, before those of its brokers."""
        port = port or gateway_port()
        folder = self._folder / str(len(self._running))
        folder.mkdir()
        properties = {
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "advertised.host": host,
            "broker.ports": f"{port + 1}-{port + 2}",
            "metrics.listener": f":{port + 3}",
        }
        gateway = RunningGateway(write_configuration(folder, upstream, port, properties))
        self._running.append(gateway)
        return port

    def stop(self) -> None:
        for gateway in self._running:
            assert gateway.stop() == 0


@pytest.fixture
def gateways(tmp_path):
    started = Gateways(tmp_path)
    yield started
    started.stop()


def test_a_record_is_not_stored_in_a_cluster_that_took_over_the_port(kafka, meant, topic, gateways):
    name = topic()  # in the cluster that takes over the port
    admin = AdminClient({"bootstrap.servers": meant.bootstrap_servers})
    create_topic(admin, name)
    leader = admin.list_topics(name).topics[name].partitions[0].leader
    port = gateways.start(meant.bootstrap_servers, Forwarder.host)
    of_other = gateways.start(kafka.bootstrap_servers)
    second = gateway_port()
    servers = f"{Forwarder.host}:{port},127.0.0.1:{second}"
    brokers = {at: at for at in (port + 1, port + 2)}

    with (
        Forwarder({port: port, **brokers}) as forwarder,
        running([*program(JAVA / "MeantBroker.java"), servers, name]) as producer,
    ):
        producer.tell("1")
        wait_until(lambda: producer.lines == [["stored", "1"]])
        gateways.start(meant.bootstrap_servers, port=second)
        forwarder.move({**brokers, port + 1 + leader: of_other + 1})
        producer.tell("2")
        wait_until(lambda: producer.lines[1:] == [["stored", "2"]])

    assert values_of(read_topic(meant.bootstrap_servers, name)) == [b"1", b"2"]
    assert values_of(read_topic(kafka.bootstrap_servers, name)) == []
    assert scrape(of_other + 3)("penstock_requests_total", api="ApiVersions", code="0")

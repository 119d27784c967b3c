"""Transactions whose records are all dropped, ended through another gateway.

There are two brokers, each behind its own gateway: if a partition leader is not the coordinator,
records are dropped by a gateway that does not get the end of their transaction.
"""

import contextlib
import subprocess
import threading
import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from penstock.kafka.local import LocalKafka, free_ports
from tests.conftest import create_topic
from tests.gateways import RunningGateway, wait_until, write_configuration
from tests.integration.reading import read_topic, values_of
from tests.integration.transactional import POLICIES
from tests.interop.conftest import JAVA, JavaClient
from tests.interop.programs import Programs
from tests.java import program
from tests.relay import Relay

HOSTS = ("127.0.0.1", "127.0.0.3")
COUNT, COUNT_OF_STREAMS = 40, 600


class World:
    """Two brokers, each behind its own gateway.

    Attributes:
        kafka: The cluster.
        address: The bootstrap address of both gateways.
    """

    def __init__(self, kafka: LocalKafka, address: str) -> None:
        self.kafka = kafka
        self.address = address
        self._admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})

    def topic(self) -> str:
        """Create a topic of which each broker leads a partition."""
        name = f"t-{uuid.uuid4().hex[:8]}"
        create_topic(self._admin, name, partitions=2)
        leaders = self._admin.list_topics(name, timeout=30).topics[name].partitions.values()
        assert len({leader.leader for leader in leaders}) == 2
        return name

    def committed(self, name: str) -> list[bytes]:
        """Return the values of a topic that consumers with `read_committed` get."""
        return values_of(read_topic(self.kafka.bootstrap_servers, name, isolation="read_committed"))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dropped")
    with contextlib.ExitStack() as ends:
        kafka = ends.enter_context(LocalKafka(nodes=len(HOSTS), folder=folder / "kafka"))
        ports = free_ports(1 + len(HOSTS))
        for host in HOSTS:
            own = folder / host
            own.mkdir()
            properties = {
                "listeners": f"PLAINTEXT://{host}:{ports[0]}",
                "advertised.host": "127.0.0.2",
                "broker.ports": f"{ports[1]}-{ports[-1]}",
                "produce.request.interceptors": "policies.DropsDrop",
            }
            started = RunningGateway(write_configuration(
                own, kafka.bootstrap_servers, ports[0], properties, POLICIES
            ))  # fmt: skip
            ends.callback(started.stop)
        for host, host_ports in zip(HOSTS, (range(ports[0], ports[2]), ports[2:3]), strict=True):
            ends.enter_context(Relay(host_ports, record=False, hosts=(host,)))
        yield World(kafka, f"127.0.0.2:{ports[0]}")


VALUES = [f"{'kept' if number % 5 == 4 else 'drop'}-{number}" for number in range(COUNT)]
KEPT = [value.encode() for value in VALUES if value.startswith("kept")]


@pytest.mark.slow
@pytest.mark.kips("B48")
def test_java_commits_dropped_transactions_through_two_gateways(world):
    """Each transaction has a single record, for the two partitions in turn."""
    name = world.topic()
    client = JavaClient(program(JAVA / "TransactionsOfOne.java"))
    assert client(world.address, name, *VALUES) == [["committed", value] for value in VALUES]
    assert sorted(world.committed(name)) == sorted(KEPT)


@pytest.mark.slow
@pytest.mark.kips("B48")
def test_librdkafka_commits_dropped_transactions_through_two_gateways(world):
    name = world.topic()
    failures = []
    producer = Producer({
        "bootstrap.servers": world.address, "transactional.id": name, "log_level": 0,
        "error_cb": failures.append,
    })  # fmt: skip
    producer.init_transactions(60)
    for number, value in enumerate(VALUES):
        producer.begin_transaction()
        producer.produce(name, value, partition=number % 2)
        producer.commit_transaction(60)
    assert failures == []
    assert sorted(world.committed(name)) == sorted(KEPT)


@pytest.mark.interop
@pytest.mark.kips("B48")
def test_kafka_streams_commits_dropped_transactions_with_exactly_once(world, tmp_path):
    """Its transactions have offsets, too, so commits are not empty if all records are dropped."""
    source, target = world.topic(), world.topic()
    producer = Producer({"bootstrap.servers": world.kafka.bootstrap_servers, "log_level": 0})
    expected = set()
    for number in range(COUNT_OF_STREAMS):
        what, key = ("drop" if number % 3 == 0 else "kept"), f"k{number % 10}"
        producer.produce(source, f"{what}-{number}", key)
        if what == "kept":
            expected.add(f"{what}-{number} {number // 10 + 1}".encode())
    assert producer.flush(60) == 0
    with subprocess.Popen(
        [*Programs.STREAMS.command("Streams.java"), world.address, f"app-{source}", source, target, tmp_path],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip
        lines: list[list[str]] = []
        reader = threading.Thread(
            target=lambda: lines.extend(line.split() for line in running.stdout)
        )
        reader.start()
        try:
            wait_until(
                lambda: failed(lines) or lines.count(["record"]) >= COUNT_OF_STREAMS,
                120,
                what="all records",
            )
            wait_until(
                lambda: failed(lines) or lines[::-1].index(["record"]) >= 10,
                120,
                what="transactions of ticks alone",
            )
        finally:
            running.stdin.close()
            running.wait(60)
            reader.join(60)
    assert failed(lines) == []
    found = world.committed(target)
    assert len(found) == len(expected)
    assert set(found) == expected


def failed(lines):
    """Return the errors that ended stream threads."""
    return [line for line in list(lines) if line[0] == "failed"]

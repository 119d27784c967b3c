"""Nothing acknowledged is lost, nothing refused is stored, while gateways and brokers stop."""

import threading
from collections import Counter
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient
from kio.schema.metadata.v12.request import MetadataRequest

from penstock.kafka.local import LocalKafka
from tests.conftest import create_topic
from tests.gateways import wait_until
from tests.integration.reading import read_topic
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import RawClient, produce_request, produced
from tests.soak.segments import Epochs, batches

POLICIES = """
import time
from penstock.policy import *
class NoBad(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if value == b"wait":
            print("waits", flush=True)
            time.sleep(1)
        if value.startswith(b"bad"): return InvalidRecordException("bad")
"""
JUDGED = {"record.validator.classes": "policies.NoBad"}
COUNT = 6000
METADATA = MetadataRequest(
    topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
)


@pytest.fixture
def own_kafka(tmp_path):
    """A broker that may be restarted."""
    with LocalKafka(folder=tmp_path / "kafka") as running:
        yield running


class Load:
    """A producer that sends numbered records, one in fifty bad, and records the results."""

    def __init__(self, bootstrap: str, topic: str, **settings: object) -> None:
        self.acknowledged: set[bytes] = set()
        self.refused: set[bytes] = set()
        self.unsure: dict[bytes, str] = {}
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 5,
                "batch.num.messages": 20,
                "message.timeout.ms": 240_000,
                "retry.backoff.ms": 50,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
                **settings,
            }
        )

    def run(self, disturb: Callable[[], None]) -> None:
        """Produce while a function runs."""
        thread = threading.Thread(target=disturb)
        thread.start()
        for number in range(COUNT):
            bad = number % 50 == 7
            value = b"%s-%06d" % (b"bad" if bad else b"good", number)
            self._producer.produce(
                self._topic, value, partition=number % 3, on_delivery=self._delivered
            )
            self._producer.poll(0.0005)
        while thread.is_alive():
            self._producer.poll(0.05)
        assert self._producer.flush(250) == 0

    def wait_for_progress(self) -> None:
        """Wait until more records are stored or refused, or all records are."""
        count = min(self._settled + 200, COUNT)
        wait_until(lambda: self._settled >= count, 60)

    @property
    def _settled(self) -> int:
        return len(self.acknowledged) + len(self.refused) + len(self.unsure)

    def _delivered(self, error, message) -> None:
        if error is None:
            self.acknowledged.add(message.value())
        elif error.code() in {KafkaError.INVALID_RECORD, KafkaError._INVALID_DIFFERENT_RECORD}:
            self.refused.add(message.value())
        else:
            self.unsure[message.value()] = error.name()


def check(load: Load, kafka: LocalKafka, topic: str, *, once: bool) -> None:
    """Check what is stored.

    Args:
        load: The producer.
        kafka: The cluster, without a gateway.
        topic: The topic's name.
        once: Whether an epoch stores no record twice. After a refusal, librdkafka begins a new
            epoch, and sends a batch again that has no response (docs/guarantees.md).
    """
    messages = read_topic(kafka.bootstrap_servers, topic, full=True)
    stored = {message.value() for message in messages}
    assert load.acknowledged <= stored
    assert not stored & load.refused
    assert not any(value.startswith(b"bad") for value in stored)
    assert len(load.acknowledged) + len(load.refused) + len(load.unsure) == COUNT
    assert len(load.acknowledged) > COUNT / 4
    assert not load.unsure
    if once:
        epochs = Epochs(batches(kafka, topic))
        copies = Counter(
            (message.value(), epochs.of(message.partition(), message.offset()))
            for message in messages
        )
        assert set(copies.values()) == {1}


@pytest.mark.slow
@pytest.mark.parametrize("idempotent", [True, False])
def test_the_gateway_restarts(gateway, kafka, topic, idempotent):
    name = topic("load", 3)
    running = gateway(JUDGED, POLICIES)
    load = Load(running.address, name, **{"enable.idempotence": idempotent})

    def disturb() -> None:
        for _ in range(3):
            load.wait_for_progress()
            running.restart()

    load.run(disturb)
    check(load, kafka, name, once=idempotent)


@pytest.mark.slow
def test_the_broker_restarts(gateway, own_kafka):
    create_topic(AdminClient({"bootstrap.servers": own_kafka.bootstrap_servers}), "load", 3)
    running = gateway(JUDGED, POLICIES, upstream=own_kafka.bootstrap_servers)
    load = Load(running.address, "load", **{"enable.idempotence": True})

    def disturb() -> None:
        for end in (own_kafka.nodes[0].stop, own_kafka.nodes[0].kill):
            load.wait_for_progress()
            end()
            own_kafka.nodes[0].start()
            own_kafka.wait_ready()

    load.run(disturb)
    check(load, own_kafka, "load", once=True)


def test_requests_in_flight_get_their_responses_after_sigterm(gateway, topic, stored):
    name = topic()
    running = gateway(JUDGED, POLICIES)
    batches = [encode_batch(values(value)) for value in (b"wait", b"bad", b"good")]
    requests = [produce_request([(name, [(0, batch)])]) for batch in batches]

    with RawClient(running.address) as client:
        client.send(b"".join(client.frame(request) for request in requests))
        running.wait_for("policy output")
        stopping = threading.Thread(target=running.stop)
        stopping.start()
        codes = [
            produced(client.response(type(request)))[name, 0].error_code for request in requests
        ]
        assert client.closed()
        stopping.join()

    assert codes == [0, 87, 0]
    assert running.process.returncode == 0
    assert [value for _, _, value, _ in stored(name)] == [b"wait", b"good"]


def test_requests_sent_before_a_client_disconnected_are_stored(gateway, topic, stored):
    name = topic()
    running = gateway(JUDGED, POLICIES)
    for acks in (0, 1):
        with RawClient(running.address) as client:
            for value in (b"wait", b"good-%d" % acks):
                batch = encode_batch(values(value))
                client.send(client.frame(produce_request([(name, [(0, batch)])], acks=acks)))

    wait_until(lambda: len(stored(name)) >= 4)
    assert sorted(value for _, _, value, _ in stored(name)) == [
        b"good-0", b"good-1", b"wait", b"wait",
    ]  # fmt: skip


@pytest.mark.slow
def test_an_unavailable_broker_closes_its_clients_until_it_is_back(gateway, own_kafka):
    create_topic(AdminClient({"bootstrap.servers": own_kafka.bootstrap_servers}), "t")
    running = gateway(JUDGED, POLICIES, upstream=own_kafka.bootstrap_servers)
    own_kafka.nodes[0].stop()
    for address in (running.address, running.broker_address()):
        with RawClient(address) as client:
            # The broker is connected to when a client sends bytes.
            client.send(client.frame(METADATA))
            assert client.closed()
    own_kafka.nodes[0].start()
    own_kafka.wait_ready()

    with RawClient(running.broker_address()) as client:
        request = produce_request([("t", [(0, encode_batch(values(b"v")))])])
        wait_until(lambda: produced(client.call(request))["t", 0].error_code == 0, 30)

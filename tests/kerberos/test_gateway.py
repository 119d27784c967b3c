"""A gateway whose own connections log in by GSSAPI, and clients that do so through it."""

import asyncio
import contextlib
import json
import time

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from penstock.kafka.local.tools import run_tool
from tests.conftest import create_topic
from tests.gateways import RunningGateway, run_penstock
from tests.kerberos.kdc import host
from tests.kerberos.realm import KERBEROS, as_admin, upstream_file
from tests.secured import produce

pytestmark = pytest.mark.kerberos

QUARANTINE = {
    "penstock_mode": "quarantine",
    "errors.deadletterqueue.topic.name": "bad-letters",
    "errors.deadletterqueue.topic.replication.factor": 1,
}


@contextlib.contextmanager
def gateway_of(folder, kafka, **more):
    running = RunningGateway(upstream_file(folder, kafka.bootstrap_servers, **more))
    try:
        yield running
    finally:
        assert running.stop() == 0
        assert not [line for line in running.log if "Traceback" in json.dumps(line)]


def through(running, kafka):
    """Return the settings of librdkafka for a user with a password."""
    return {**as_admin(kafka), "bootstrap.servers": running.address}


def stored(kafka, topic):
    """Return the values of the records of a topic."""
    settings = {**as_admin(kafka), "group.id": "g", "enable.partition.eof": True,
                "auto.offset.reset": "earliest"}  # fmt: skip
    consumer = Consumer(settings)
    values = []
    try:
        consumer.subscribe([topic])
        while (message := consumer.poll(30)) is not None and message.error() is None:
            values.append(message.value())
    finally:
        consumer.close()
    return values


def new_topic(kafka, name):
    create_topic(AdminClient(as_admin(kafka)), name)
    return name


def test_bad_records_go_to_dead_letters(kerberized, environment, tmp_path):
    """The gateway's own connections create the topic and write to it."""
    topic = new_topic(kerberized, "quarantined")
    with gateway_of(tmp_path, kerberized, **QUARANTINE) as running:
        for value in (b"good", b"bad"):
            assert produce(through(running, kerberized), topic, value) == ""
    assert stored(kerberized, topic) == [b"good"]
    assert stored(kerberized, "bad-letters") == [b"bad"]


def test_a_kdc_that_does_not_respond_stops_no_client(kerberized, kdc, environment, tmp_path):
    """Letters wait for the gateway's login, and are sent when the KDC is back."""
    topic = new_topic(kerberized, "while-away")
    letters = {**QUARANTINE, "errors.deadletterqueue.topic.name": "late-letters"}
    with gateway_of(
        tmp_path, kerberized, upstream_connections_max_idle_ms=300, **letters
    ) as running:
        client = through(running, kerberized)
        assert produce(client, topic, b"good") == ""
        time.sleep(1)
        (tmp_path / "tickets").unlink()  # the gateway has closed its idle connections
        with kdc.stopped():
            assert produce(client, topic, b"bad", timeout_s=5) == "_MSG_TIMED_OUT"
            before = time.monotonic()
            for _ in range(5):
                assert produce(client, topic, b"good") == ""
            assert time.monotonic() - before < 10
        assert produce(client, topic, b"bad") == ""
    assert stored(kerberized, topic) == [b"good"] * 6
    assert set(stored(kerberized, "late-letters")) == {b"bad"}


def test_a_gateway_without_a_ticket_does_not_start(kerberized, environment, tmp_path):
    environment.delenv("KRB5_CLIENT_KTNAME")
    ended = run_penstock("gateway", upstream_file(tmp_path, kerberized.bootstrap_servers))
    assert ended.returncode == 3, ended
    assert "No Kerberos credentials available" in ended.stderr
    assert "Traceback" not in ended.stderr


async def send_by_aiokafka(running, topic, **more):
    """Produce a record with aiokafka, which logs in by GSSAPI."""
    producer = AIOKafkaProducer(
        bootstrap_servers=running.address, security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="GSSAPI", request_timeout_ms=5000, **more,
    )  # fmt: skip
    try:
        await producer.start()
        await producer.send_and_wait(topic, b"by aiokafka")
    finally:
        await producer.stop()


def java_client(folder, running, topic, value):
    """Produce a record with Kafka's tool."""
    (folder / "client.properties").write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\n"
        "sasl.kerberos.service.name=kafka\n"
        f'sasl.jaas.config={KERBEROS} useTicketCache=true ticketCache="{folder}/tickets";\n'
    )
    return run_tool(
        "kafka-console-producer", "--bootstrap-server", running.address, "--topic", topic,
        "--command-config", str(folder / "client.properties"),
        "--command-property", "delivery.timeout.ms=20000",
        "--command-property", "request.timeout.ms=10000", "--command-property", "max.block.ms=10000",
        text_in=f"{value}\n",
    )  # fmt: skip


def test_clients_with_tickets(kerberized, environment, tmp_path):
    """They use GSSAPI through a gateway that has the broker's host name."""
    topic = new_topic(kerberized, "tickets")
    with gateway_of(tmp_path, kerberized) as running:
        done = java_client(tmp_path, running, topic, "by java")
        assert done.returncode == 0, done
        asyncio.run(send_by_aiokafka(running, topic))
    assert stored(kerberized, topic) == [b"by java", b"by aiokafka"]


def test_clients_with_tickets_and_another_name(kerberized, environment, tmp_path):
    topic = new_topic(kerberized, "other-name")
    file = upstream_file(tmp_path, kerberized.bootstrap_servers)
    file.write_text(file.read_text().replace("PLAINTEXT://127.0.0.1", "PLAINTEXT://127.0.0.2"))
    running = RunningGateway(file)
    try:
        assert running.address.startswith("127.0.0.2:")
        done = java_client(tmp_path, running, topic, "by java")
        assert "terminated during authentication" in done.stderr
        with pytest.raises(Exception, match="not found in Kerberos database"):
            asyncio.run(send_by_aiokafka(running, topic))
        # aiokafka can name the broker.
        asyncio.run(send_by_aiokafka(running, topic, sasl_kerberos_domain_name=host()))
    finally:
        running.stop()
    assert stored(kerberized, topic) == [b"by aiokafka"]

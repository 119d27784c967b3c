"""Native threads and a Kafka whose listener has TLS: real clients, logins, certificates on both sides."""

import asyncio
import contextlib
import ssl
from itertools import count

import pytest
import structlog
import uvloop
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ResourceType

from penstock import _native
from penstock.configuration import load_configuration
from penstock.gateway.server import Gateway
from tests.conftest import create_acls, create_topic
from tests.gateways import write_configuration
from tests.integration.reading import read_topic, values_of
from tests.secured import (
    acl,
    add_alice,
    as_admin,
    as_alice,
    files,
    secure_kafka,
    upstream_as_admin,
)

__all__ = ["files"]
pytestmark = pytest.mark.skipif(
    not hasattr(_native, "TlsClient"), reason="native threads need Linux"
)


@pytest.fixture(scope="module")
def secured(files):
    """A Kafka that accepts certificates of clients: Java puts them into its session tickets."""
    with secure_kafka(files, **{"listener.name.sasl_ssl.ssl.client.auth": "requested"}) as running:
        yield running


@pytest.fixture(scope="module")
def admin(secured, files):
    made = AdminClient(as_admin(secured.bootstrap_servers, files))
    add_alice(made)
    create_acls(made, acl("readers", kind=ResourceType.GROUP))
    return made


@pytest.fixture
def topic(admin):
    names = (f"over-tls-{number}" for number in count())

    def new():
        name = next(names)
        while name in admin.list_topics(timeout=60).topics:
            name = next(names)
        create_topic(admin, name)
        create_acls(admin, acl(name))
        return name

    return new


@pytest.fixture
def run(secured, files, admin, tmp_path, monkeypatch):
    """Runs a test with a gateway in this process; clients run in a thread."""
    monkeypatch.delenv("PENSTOCK_NATIVE_LANE", raising=False)
    monkeypatch.delenv("PENSTOCK_NATIVE_TLS", raising=False)

    def run(test, listener="SASL_SSL", **more):
        properties = {
            "listeners": f"{listener}://127.0.0.1:0",
            "ssl.keystore.location": files.key("gateway.pem"),
            **upstream_as_admin(files),
            **{f"upstream.ssl.{key.replace('_', '.')}": value for key, value in more.items()},
        }
        file = write_configuration(tmp_path, secured.bootstrap_servers, 0, properties)

        async def with_gateway():
            gateway = Gateway(load_configuration(file))
            try:
                address = await gateway.start()
                client = as_alice(str(address), files)
                client["security.protocol"] = listener
                async with asyncio.timeout(180):
                    await test(gateway, client)
            finally:
                await gateway.stop()

        uvloop.run(with_gateway())

    return run


class Producing:
    """A producer that waits for each record, so that each is a request."""

    def __init__(self, settings, topic):
        self._producer = Producer({**settings, "acks": "all", "linger.ms": 0})
        self._topic = topic
        self.sent = []

    def send(self, count=20):
        for _ in range(count):
            self.sent.append(b"%d" % len(self.sent))
            self._producer.produce(self._topic, self.sent[-1])
            assert self._producer.flush(60) == 0

    async def close(self, gateway):
        """End the client's connections, and wait until those to brokers have ended."""
        self._producer = None
        async with asyncio.timeout(60):
            while gateway._listening._limits.count:
                await asyncio.sleep(0.01)

    async def until(self, condition):
        for _ in range(500):
            await asyncio.to_thread(self.send)
            if condition():
                return
        raise AssertionError("it is never so")


def libraries(gateway):
    return {
        (client.tls_library, client.broker_tls_library)
        for client in gateway.parts.connections
        if client.is_established
    }


@pytest.mark.cases(2)
@pytest.mark.parametrize("listener", ["SASL_SSL", "SASL_PLAINTEXT"])
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_real_clients_records_go_through_a_native_thread(
    run, topic, secured, files, listener, version
):
    name = topic()
    found = []

    async def test(gateway, client):
        producing = Producing(client, name)
        await producing.until(lambda: gateway.parts.lane.count)
        client_library = "rustls" if listener == "SASL_SSL" else ""
        assert libraries(gateway) == {(client_library, "rustls")}
        forwarded(gateway)
        await asyncio.to_thread(producing.send, 300)
        assert gateway.parts.lane.count
        assert forwarded(gateway) > 300 * 100
        found.append(await asyncio.to_thread(read, client, name, len(producing.sent)))
        assert found[0] == producing.sent
        await producing.close(gateway)

    run(test, listener, enabled_protocols=version)
    stored = read_topic(secured.bootstrap_servers, name, settings=as_admin(
        secured.bootstrap_servers, files
    ))  # fmt: skip
    assert values_of(stored) == found[0]


def forwarded(gateway):
    """Return how many bytes native threads have forwarded to brokers since the last time."""
    return sum(to_brokers for _, _, _, to_brokers, *_ in gateway.parts.lane._lane.collect())


def read(client, name, records):
    consumer = Consumer({**client, "group.id": "readers", "enable.auto.commit": False})
    consumer.assign([TopicPartition(name, 0, OFFSET_BEGINNING)])
    values = []
    with contextlib.closing(consumer):
        while len(values) < records:
            message = consumer.poll(60)
            assert message is not None
            assert message.error() is None
            values.append(message.value())
    return values


def test_the_gateways_certificate_is_shown_natively(run, topic, files):
    name = topic()

    async def test(gateway, client):
        producing = Producing(client, name)
        await producing.until(lambda: gateway.parts.lane.count)
        assert libraries(gateway) == {("rustls", "rustls")}
        await asyncio.to_thread(producing.send, 100)
        await producing.close(gateway)

    run(test, keystore_location=files.key("client.pem", "gateway.example.com"))


def test_an_untrusted_certificate_is_reported_as_by_openssl(run, files, topic):
    """The cluster is known by librdkafka; after that its certificate is not trusted any more."""
    name = topic()

    async def test(gateway, client):
        producing = Producing(client, name)
        await producing.until(lambda: gateway.parts.lane.count)
        tls = gateway._upstream._tls
        trusting, tls.context = tls.context, ssl.create_default_context()
        tls._brokers.clear()
        for connection in list(gateway.parts.connections):
            connection.abort()
        with structlog.testing.capture_logs() as logged:
            sending = asyncio.create_task(asyncio.to_thread(producing.send, 1))
            async with asyncio.timeout(60):
                while not any("CERTIFICATE_VERIFY_FAILED" in str(line) for line in logged):
                    await asyncio.sleep(0.01)
        tls.context = trusting
        await sending  # a client tries again until it works
        assert libraries(gateway) == {("rustls", "rustls")}
        await producing.close(gateway)

    run(test)

"""Before authentication only authentication is served, in front of a Kafka that requires it (2)."""

import contextlib
import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from kio.schema.metadata.v12.request import MetadataRequest
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from penstock.kafka.local import LocalKafka
from tests.conftest import create_topic
from tests.gateways import RunningGateway, gateway_port, write_configuration
from tests.hostile.greedy import Connections, is_closed, unfinished
from tests.hostile.innocent import BATCH
from tests.hostile.watchdog import Watchdog
from tests.raw import RawClient, produce_request, produced
from tests.secured import ADMIN_LOGIN, PLAIN

POLICIES = """
from penstock.policy import *

class Tells(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        return InvalidRecordException("what a stranger must not read")
"""
LIFETIME_S = 4
RIGHT, WRONG = b"\0admin\0a-secret", b"\0admin\0guessed"


@pytest.fixture(scope="module")
def authenticating():
    """A Kafka with passwords, and sessions that expire."""
    properties = {
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{PLAIN} required username="admin" password="a-secret" user_admin="a-secret";'
        ),
        "connections.max.reauth.ms": str(LIFETIME_S * 1000),
    }
    with LocalKafka(protocol="SASL_PLAINTEXT", properties=properties) as running:
        create_topic(AdminClient(as_admin(running.bootstrap_servers)), "guarded")
        yield running


@pytest.fixture(scope="module")
def guarded(authenticating, tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    port = gateway_port()
    properties = {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "upstream.security.protocol": "SASL_PLAINTEXT",
        "upstream.sasl.mechanism": "PLAIN",
        "upstream.sasl.jaas.config": ADMIN_LOGIN,
        "record.validator.classes": "policies.Tells",
        "queued.max.request.bytes": 64 * 2**20,
    }
    file = write_configuration(folder, authenticating.bootstrap_servers, port, properties, POLICIES)
    running = RunningGateway(file)
    yield running
    running.stop()


def as_admin(address: str) -> dict:
    return {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": "a-secret",
        "log_level": 0,
    }


def log_in(client: RawClient, token: bytes) -> int:
    """Authenticate; return the error code."""
    assert client.call(SaslHandshakeRequest(mechanism="PLAIN")).error_code == 0
    return int(client.call(SaslAuthenticateRequest(auth_bytes=token)).error_code)


def read_to_end(client: RawClient) -> bytes:
    """Return the bytes received until the peer closes."""
    received = b""
    while piece := client.socket.recv(1000):
        received += piece
    return received


PRODUCE = produce_request([("guarded", [(0, BATCH)])])
METADATA = MetadataRequest(topics=None, include_topic_authorized_operations=False)


@pytest.mark.cases(2)
@pytest.mark.parametrize("request_", [PRODUCE, METADATA], ids=["produce", "metadata"])
@pytest.mark.parametrize("before", ["nothing", "a handshake", "a wrong password"])
def test_the_connection_of_an_unauthenticated_client_is_closed_as_by_the_broker(
    guarded, authenticating, request_, before
):
    for address in (authenticating.bootstrap_servers, guarded.broker_address()):
        received = b""
        with RawClient(address) as client, contextlib.suppress(ConnectionError):
            if before == "a handshake":
                client.call(SaslHandshakeRequest(mechanism="PLAIN"))
            if before == "a wrong password":
                assert log_in(client, WRONG) == 58
            client.send(client.frame(request_))
            received = read_to_end(client)
        # After a handshake the broker says ILLEGAL_SASL_STATE (34) before it closes.
        assert received == b"" or (address != guarded.broker_address() and before == "a handshake")
    assert not guarded.events("refused")


def test_records_of_an_authenticated_client_are_judged(guarded):
    with RawClient(guarded.broker_address()) as client:
        assert log_in(client, RIGHT) == 0
        assert produced(client.call(PRODUCE))["guarded", 0].error_code == 87


@pytest.mark.cases(1)
@pytest.mark.parametrize("api_key", [36, 0, 17, 19])
def test_large_frames_before_authentication_are_not_held(guarded, api_key):
    with Watchdog(guarded) as seen, Connections() as greedy:
        for _ in range(20):
            connection = greedy.connect(guarded.broker_address())
            greedy.send(connection, unfinished(90 * 2**20, api_key=api_key, version=1))
            assert is_closed(connection)
    assert seen.grown_bytes < 40 * 2**20


@pytest.mark.slow
@pytest.mark.parametrize("pays", [True, False], ids=["again", "never again"])
def test_an_authenticated_session_expires(guarded, authenticating, pays):
    for address in (authenticating.bootstrap_servers, guarded.broker_address()):
        with RawClient(address) as client:
            assert log_in(client, RIGHT) == 0
            first_ends = time.monotonic() + LIFETIME_S
            client.call(METADATA)
            if pays:
                time.sleep(LIFETIME_S / 2)
                assert log_in(client, RIGHT) == 0
            time.sleep(max(0.0, first_ends + 0.3 - time.monotonic()))
            client.send(client.frame(METADATA))
            assert client.closed() != pays


def test_a_client_that_reauthenticates_continues(guarded):
    """librdkafka reauthenticates in time."""
    errors = []
    producer = Producer(as_admin(guarded.address))
    until = time.monotonic() + 2.5 * LIFETIME_S
    while time.monotonic() < until:
        producer.produce("guarded", b"x", on_delivery=lambda error, _: errors.append(error.name()))
        producer.poll(0.05)
    assert producer.flush(60) == 0
    assert set(errors) == {"INVALID_RECORD"}

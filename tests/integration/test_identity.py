"""Clients in policies, log and audit trail: with TLS, SASL and a load balancer (PROXY protocol)."""

import socket
import ssl
import uuid

import pytest
from confluent_kafka import Producer

from tests.audit_records import lines_of
from tests.conftest import create_topic
from tests.gateways import RunningGateway, gateway_port, wait_until, write_configuration
from tests.integration.reading import read_topic, values_of
from tests.integration.secure_brokers import secured, secured_admin
from tests.proxies import LoadBalancer, header
from tests.secured import as_admin, as_alice, files, upstream_as_admin

__all__ = ["files", "secured", "secured_admin"]

CLIENT = "203.0.113.7"
POLICIES = """
from penstock.policy import *

def described(context):
    return f"{context.principal} {context.client_id} {context.address}"

class Signs(ProduceRequestInterceptorWithContext):
    def interceptor_topic_pattern(self): return "signed"
    def process_record(self, key, value, topic, partition, headers, context):
        return ProduceRequestInterceptorResult(key, described(context).encode())

class Tells(BrokerRecordValidatorWithContext):
    def validate_record(self, topic_partition, key, value, headers, context):
        if "validated" in topic_partition.topic and value == b"bad":
            return InvalidRecordException("validator " + described(context))

class Policy(RecordValidationPolicyWithContext):
    def validate(self, topic, record, context):
        if record.value == b"bad":
            raise InvalidRecordException("policy " + described(context))

class Whole(RecordsPolicyWithContext):
    def validate(self, topic, partition, records, context):
        if any(record.value == b"bad" for record in records):
            raise PolicyViolationException("whole " + described(context))
"""


class Through:
    """A gateway behind a load balancer, in front of a Kafka that requires authentication."""

    def __init__(self, gateway, files, port):
        self.gateway, self.files = gateway, files
        self.port = port
        self.audit = gateway.file.parent / "audit.jsonl"

    def settings(self, user, client_id):
        address = f"{LoadBalancer.host}:{self.port}"
        login = {"admin": as_admin, "alice": as_alice}[user]
        return {**login(address, self.files), "client.id": client_id}

    def produce(self, topic, *values, user="alice", client_id="shop"):
        """Produce as a user; return the names of the errors, or empty texts."""
        seen = []
        producer = Producer({**self.settings(user, client_id), "message.timeout.ms": 60_000})
        for value in values:
            producer.produce(
                topic, value, partition=0,
                on_delivery=lambda error, _: seen.append(error.name() if error else ""),
            )  # fmt: skip
        producer.flush(90)
        return seen


@pytest.fixture(scope="module")
def through(secured, files, secured_admin, tmp_path_factory):
    folder = tmp_path_factory.mktemp("identity")
    port = gateway_port()
    file = write_configuration(
        folder,
        secured.bootstrap_servers,
        port,
        {
            "listeners": f"SASL_SSL://127.0.0.1:{port}",
            "listener.proxy.protocol": "true",
            "advertised.host": LoadBalancer.host,
            "ssl.keystore.location": files.key("proxied.pem", LoadBalancer.host),
            **upstream_as_admin(files),
            "audit.file": "audit.jsonl",
            "produce.request.interceptors": "policies.Signs",
            "record.validator.classes": "policies.Tells",
            "record.validation.policy.class.name": "policies.Policy",
            "topics.judged*.record.validation.policy": "on",
            "topics.open.record.validation.policy": "on",
            "topics.whole*.records.policy.class.name": "policies.Whole",
            "topics.whole*.records.policy.enabled": "true",
            "topics.seen*.record.validation.policy": "on",
            "topics.seen*.penstock.mode": "observe",
        },
        POLICIES,
    )
    running = RunningGateway(file)
    with LoadBalancer(range(port, port + 2), CLIENT):
        yield Through(running, files, port)
    assert running.stop() == 0


@pytest.fixture
def open_topic(secured_admin):
    """Create a topic that all users may use, whose name begins with a word."""

    def make(word):
        name = f"{word}-{uuid.uuid4().hex[:8]}"
        create_topic(secured_admin, name)
        return name

    return make


def refused_by(through, event, topic):
    wait_until(lambda: any(line["topic"] == topic for line in through.gateway.events(event)), 60)
    return [line for line in through.gateway.events(event) if line["topic"] == topic]


def trail_of(through, topic):
    """Return the audit trail's lines about a topic, once its thread has written them."""

    def found():
        return [line for line in lines_of(through.audit) if line["topic"] == topic]

    wait_until(found, 60)
    return found()


def stored(secured, files, topic):
    admin = as_admin(secured.bootstrap_servers, files)
    return values_of(read_topic(secured.bootstrap_servers, topic, settings=admin))


@pytest.mark.parametrize(
    ("word", "by", "code"),
    [("validated", "validator", 87), ("judged", "policy", 87), ("whole", "whole", 44)],
)
def test_policies_get_the_identity_of_the_client(through, open_topic, word, by, code):
    topic = open_topic(word)
    assert through.produce(topic, b"good", user="admin", client_id="till-1") == [""]
    assert through.produce(topic, b"bad", user="admin", client_id="till-1") != [""]
    [refused] = refused_by(through, "records refused", topic)
    assert (refused["code"], refused["message"]) == (code, f"{by} User:admin till-1 {CLIENT}")
    [written] = trail_of(through, topic)
    assert (written["principal"], written["client_id"]) == ("User:admin", "till-1")
    assert written["address"] == CLIENT


def test_two_clients_that_send_the_same_bytes_are_judged_separately(
    through,
    open_topic,
    secured,
    files,
):
    topic = open_topic("signed")
    for client_id in ("one", "two", "one"):
        assert (
            through.produce(topic, b"same", b"same", user="admin", client_id=client_id) == [""] * 2
        )
    expected = [f"User:admin {name} {CLIENT}".encode() for name in ("one", "two", "one")]
    assert stored(secured, files, topic) == [value for value in expected for _ in range(2)]


def test_the_principal_is_the_authenticated_user(through):
    """Whatever the client id is."""
    assert through.produce("open", b"bad", user="alice", client_id="User:admin") != [""]
    [refused] = refused_by(through, "records refused", "open")
    assert refused["message"] == f"policy User:alice User:admin {CLIENT}"


def test_observed_policies_get_the_identity_too(through, open_topic):
    topic = open_topic("seen")
    assert through.produce(topic, b"bad", user="admin", client_id="till-2") == [""]
    [would] = refused_by(through, "records would be refused", topic)
    assert would["message"] == f"policy User:admin till-2 {CLIENT}"


def test_a_connection_without_a_header_is_not_served(through):
    """A client that bypasses the load balancer; its first bytes are those of TLS."""
    before = len(through.gateway.events("closing a connection without a PROXY header"))
    context = ssl.create_default_context(cafile=str(through.files.trust))
    with (
        socket.create_connection(("127.0.0.1", through.port), 60) as raw,
        pytest.raises(OSError),
    ):
        context.wrap_socket(raw, server_hostname=LoadBalancer.host)
    lines = through.gateway.wait_for("closing a connection without a PROXY header", before + 1)
    assert lines[before]["reason"] == "it is missing"
    assert lines[before]["peer"] == "127.0.0.1"


def test_tls_begins_after_the_header(through):
    context = ssl.create_default_context(cafile=str(through.files.trust))
    with socket.create_connection(("127.0.0.1", through.port), 60) as raw:
        raw.sendall(header("2001:db8::5", 4711, tlvs=b"\x04" + b"\x00\x10" + bytes(16)))
        with context.wrap_socket(raw, server_hostname=LoadBalancer.host) as secure:
            assert secure.version() == "TLSv1.3"
            secure.sendall(b"\0\0\0\x0e\0\0\0\x03\0\0\0\x01\xff\xff\0\0\0\0")  # Produce, no login
            assert secure.recv(1) == b""

    def closed():
        return [
            event
            for event in through.gateway.events("closing a connection")
            if event.get("peer") == "[2001:db8::5]:4711"
        ]

    wait_until(closed)
    [line] = closed()
    assert "before it has authenticated" in line["reason"]

"""TLS on both sides, SASL and ACLs through the gateway, against a Kafka that requires them."""

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, ResourceType

from penstock.jobs.topics.stored_topics import StoredTopics
from penstock.kafka.cluster.connection_faults import fault_of
from penstock.kafka.cluster.errors import NotDescribedError
from penstock.kafka.cluster.offsets import Cluster
from tests.certificates import Files
from tests.conftest import create_acls, create_topic
from tests.gateways import RunningGateway, gateway_port, run_penstock, write_configuration
from tests.integration.reading import read_topic, values_of
from tests.integration.secure_brokers import secured, secured_admin
from tests.raw import RawClient
from tests.secured import (
    ALICE_LOGIN,
    PLAIN,
    acl,
    as_admin,
    as_alice,
    as_client,
    files,
    produce,
    upstream_as_admin,
    upstream_as_alice,
)

__all__ = ["files", "secured", "secured_admin"]

POLICY = """
from penstock.policy import *
class NoBad(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if value == b"bad":
            return InvalidRecordException("bad is not good")
"""
NO_BAD = {"record.validator.classes": "policies.NoBad"}


@pytest.fixture(scope="module")
def secured_gateway(secured, files, secured_admin, tmp_path_factory):
    """A gateway in front of `secured` that clients connect to with TLS."""
    running = gateway_of_admin(secured, files, tmp_path_factory.mktemp("gateway"))
    yield running
    running.stop()


def gateway_of_admin(secured, files, folder, *, protocol="SASL_SSL", **more):
    (folder / "password").write_text("a-secret\n")
    (folder / "authority.pem").write_bytes(files.trust.read_bytes())
    port = gateway_port()
    file = write_configuration(
        folder,
        secured.bootstrap_servers,
        port,
        {
            "listeners": f"{protocol}://127.0.0.1:{port}",
            **({"ssl.keystore.location": files.key("gateway.pem")} if "SSL" in protocol else {}),
            **upstream_as_admin(files),
            "upstream.ssl.truststore.location": "authority.pem",
            "upstream.sasl.jaas.config": (
                f'{PLAIN} required username="admin" password="${{file:password}}";'
            ),
            **NO_BAD,
            **more,
        },
        POLICY,
    )
    return RunningGateway(file)


def test_the_cluster_sees_the_principal_of_the_client(
    secured, secured_gateway, files, secured_admin
):
    through = as_alice(secured_gateway.address, files)
    direct = {**through, "bootstrap.servers": secured.bootstrap_servers}
    assert produce(through, "open", b"good") == ""
    assert produce(through, "open", b"bad") == "INVALID_RECORD"
    assert produce(through, "closed", b"good") == produce(direct, "closed", b"good")
    assert produce(direct, "closed", b"good") == "TOPIC_AUTHORIZATION_FAILED"
    stored = read_topic(
        secured.bootstrap_servers,
        "open",
        settings=as_admin(secured.bootstrap_servers, files),
    )
    assert values_of(stored) == [b"good"]


def test_a_wrong_password_is_refused_by_the_cluster(secured, secured_gateway, files, secured_admin):
    wrong = as_client(secured_gateway.address, files, "alice", "guessed", "SCRAM-SHA-256")
    assert produce(wrong, "open", b"good") == "_AUTHENTICATION"
    direct = {**wrong, "bootstrap.servers": secured.bootstrap_servers}
    assert produce(direct, "open", b"good") == "_AUTHENTICATION"


TLS, SASL, BOTH = "SSL", "SASL_PLAINTEXT", "SASL_SSL"
EXPECTS = (
    "the broker expects upstream.security.protocol=SASL_SSL (mechanisms: PLAIN, SCRAM-SHA-256)"
)
WRONG_TRUST = "upstream.ssl.truststore.location must have the certificate of the authority"


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ({}, f"{EXPECTS}, not PLAINTEXT"),
        ({"security.protocol": TLS}, f"{EXPECTS}, not SSL"),
        ({"security.protocol": SASL}, f"{EXPECTS}, not SASL_PLAINTEXT"),
        (
            {"security.protocol": BOTH, "sasl.mechanism": "SCRAM-SHA-512"},
            "does not offer upstream.sasl.mechanism=SCRAM-SHA-512 (mechanisms: PLAIN, SCRAM-SHA-256)",
        ),
        ({"security.protocol": BOTH, "ssl.truststore.location": "other"}, WRONG_TRUST),
        ({"security.protocol": BOTH, "ssl.truststore.location": ""}, "it is missing"),
        ({"security.protocol": BOTH}, ""),
    ],
)
def test_a_connection_with_wrong_keys_is_explained(secured, files, tmp_path, keys, fault):
    given = {
        "bootstrap.servers": secured.bootstrap_servers,
        "sasl.mechanism": "PLAIN",
        "ssl.truststore.location": str(files.trust),
        **keys,
    }
    if given["ssl.truststore.location"] == "other":
        given["ssl.truststore.location"] = str(Files(tmp_path).trust)
    found = fault_of(given, tmp_path / "file")
    assert fault in found
    assert bool(found) is bool(fault)


@pytest.mark.parametrize("protocol", [TLS, SASL, BOTH, "PLAINTEXT"])
def test_a_broker_without_tls_and_login_is_explained(kafka, files, tmp_path, protocol):
    keys = {
        "bootstrap.servers": f"127.0.0.1:1,{kafka.bootstrap_servers}",
        "security.protocol": protocol,
        "ssl.truststore.location": str(files.trust),
    }
    expected = f"the broker expects upstream.security.protocol=PLAINTEXT, not {protocol}"
    assert fault_of(keys, tmp_path / "file") == ("" if protocol == "PLAINTEXT" else expected)


def test_a_wrong_password_is_named_by_check(secured, files, tmp_path):
    login = f'{PLAIN} required username="admin" password="guessed";'
    keys = {**upstream_as_admin(files), "upstream.sasl.jaas.config": login}
    keys |= {"policies": "a", "policies.a.type": "KeyRequired", "topics.*.penstock.policies": "a"}
    file = write_configuration(tmp_path, secured.bootstrap_servers, 9192, keys)
    done = run_penstock("check", "--connect", file)
    assert done.returncode == 3
    assert "Authentication failed: Invalid username or password" in done.stderr
    assert "guessed" not in done.stderr


def test_a_client_without_tls_is_not_served(secured_gateway):
    with RawClient(secured_gateway.address) as client:
        client.send(b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff")
        with pytest.raises((EOFError, ConnectionError, ValueError, OverflowError)):
            while True:  # a TLS alert, then the end; never a Kafka response
                assert b"\x00\x00\x00\x01" not in client.receive()


def test_certificates_of_clients(gateway, files, topic):
    """`ssl.client.auth=required`: clients without a certificate of the authority are not served."""
    name = topic()
    port = gateway_port()
    running = gateway(
        {
            "listeners": f"SSL://127.0.0.1:{port}",
            "ssl.keystore.location": files.key("listener.pem"),
            "ssl.truststore.location": files.trust,
            "ssl.client.auth": "required",
            **NO_BAD,
        },
        POLICY,
    )
    key = str(files.key("client.pem", "client.example.com"))
    without = {
        "bootstrap.servers": running.address,
        "security.protocol": "SSL",
        "ssl.ca.location": str(files.trust),
        "log_level": 0,
    }
    certified = {**without, "ssl.certificate.location": key, "ssl.key.location": key}

    assert produce(certified, name, b"good") == ""
    assert produce(certified, name, b"bad") == "INVALID_RECORD"
    assert produce(without, name, b"good", timeout_s=3) == "_MSG_TIMED_OUT"


@pytest.mark.slow
def test_a_broker_with_an_untrusted_certificate_is_not_used(
    secured, secured_gateway, files, secured_admin, tmp_path
):
    other = Files(tmp_path)
    port = gateway_port()
    file = write_configuration(
        tmp_path,
        secured.bootstrap_servers,
        port,
        {
            **upstream_as_admin(other),
            "upstream.sasl.jaas.config": 'x required username="admin" password="a-secret";',
        },
    )
    with pytest.raises(AssertionError, match="certificate"):
        RunningGateway(file)


DROPS = """
from penstock.policy import *
class Drops(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return "."
    def process_record(self, key, value, topic, partition, headers):
        raise ProduceRequestInterceptorSkipRecordException()
"""


def gateway_of_alice(secured, files, folder, **more) -> RunningGateway:
    """A gateway whose principal may not create the topic of producers' state."""
    properties = {
        **upstream_as_alice(files),
        "upstream.ssl.truststore.type": "PEM",
        "produce.request.interceptors": "policies.Drops",
        "produce.request.interceptors.state.topic": "state-of-producers",
        **more,
    }
    port = gateway_port()
    return RunningGateway(
        write_configuration(folder, secured.bootstrap_servers, port, properties, DROPS)
    )


def test_a_principal_without_permissions_for_the_state_topic_is_an_error_with_advice(
    secured, files, secured_admin, tmp_path
):
    with pytest.raises(AssertionError) as raised:
        gateway_of_alice(secured, files, tmp_path)
    message = str(raised.value)
    assert "produce.request.interceptors.state.topic: state-of-producers" in message
    assert "name another topic there" in message


def test_a_principal_that_may_only_read_the_state_topic_is_an_error_at_the_start(
    secured, files, secured_admin, tmp_path
):
    create_topic(secured_admin, "read-only", config={"cleanup.policy": "compact"})
    create_acls(secured_admin, acl("read-only", AclOperation.READ))
    topic = {"produce.request.interceptors.state.topic": "read-only"}
    with pytest.raises(AssertionError, match="Read and Write are not both allowed"):
        gateway_of_alice(secured, files, tmp_path, **topic)


def test_a_client_without_write_permission_on_a_topic_writes_no_dead_letters(
    secured, files, secured_admin, tmp_path
):
    more = {"penstock.mode": "quarantine", "errors.deadletterqueue.topic.replication.factor": 1}
    running = gateway_of_admin(secured, files, tmp_path, **more)
    try:
        create_topic(secured_admin, "seen")
        create_acls(secured_admin, acl("seen", AclOperation.DESCRIBE))
        through = as_alice(running.address, files)
        assert produce(through, "seen", b"bad") == "TOPIC_AUTHORIZATION_FAILED"
        assert produce(through, "open", b"bad") == ""
        admin = as_admin(secured.bootstrap_servers, files)
        found = values_of(read_topic(secured.bootstrap_servers, "open.dead", settings=admin))
        assert found == [b"bad"]
        assert "seen.dead" not in secured_admin.list_topics(timeout=60).topics
    finally:
        running.stop()


def test_dead_letters_only_need_write_permission(secured, files, secured_admin, tmp_path):
    """With it, brokers also describe the topic, and assign a producer id."""
    more = {
        **upstream_as_alice(files),
        "upstream.sasl.jaas.config": ALICE_LOGIN,
        "produce.request.interceptors.state.topic": "state-of-letters",
        "penstock.mode": "quarantine",
        "errors.deadletterqueue.topic.name": "letters-of-${topic}",
    }
    create_topic(secured_admin, "letters-of-open")
    create_topic(secured_admin, "state-of-letters", config={"cleanup.policy": "compact"})
    create_acls(
        secured_admin,
        acl("letters-of-open", AclOperation.WRITE),
        acl("state-of-letters", AclOperation.READ),
        acl("state-of-letters", AclOperation.WRITE),
    )
    running = gateway_of_admin(secured, files, tmp_path, **more)
    try:
        through = as_alice(running.address, files)
        assert produce(through, "open", b"bad") == ""
        assert not running.events("dead letters may be stored twice")
    finally:
        running.stop()
    admin = as_admin(secured.bootstrap_servers, files)
    found = read_topic(secured.bootstrap_servers, "letters-of-open", settings=admin)
    assert values_of(found) == [b"bad"]


def properties_of_alice(secured, files):
    return {
        "bootstrap.servers": secured.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": str(files.trust),
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": ALICE_LOGIN,
    }


def test_a_topic_that_may_not_be_described_is_not_missing(secured, files, secured_admin):
    """A stream would take it for deleted, and skip its records."""
    cluster = Cluster(properties_of_alice(secured, files), Path())
    assert cluster.missing({"open"}) == set()
    assert "closed" not in cluster.names()
    with pytest.raises(NotDescribedError, match="topic closed: TOPIC_AUTHORIZATION_FAILED"):
        cluster.missing({"open", "closed"})


def test_a_warning_names_topics_that_a_glob_matches_and_that_may_not_be_described(
    secured, files, secured_admin, tmp_path
):
    """With Describe on the cluster, or if an earlier run has read them; otherwise nobody knows."""
    warnings = []

    def sources(given):
        file = tmp_path / "penstock.properties"
        there = StoredTopics(properties_of_alice(secured, files), file, "places")
        found = there.sources(given, warn=warnings.append)
        return there, found, {topic.name for topic in found}

    there, topics, names = sources("[co]*e[dn]")
    assert (names, warnings) == ({"open"}, [])
    with pytest.raises(NotDescribedError, match="topic closed: TOPIC_AUTHORIZATION_FAILED"):
        sources("o*,closed")
    there.warn_of_hidden("[co]*", {"closed", "open", "x"}, topics, (), warnings.append)
    assert warnings.pop() == (
        "[co]* matches topic closed, which the principal of upstream.* may not describe: the "
        "records there are left out"
    )
    create_acls(
        secured_admin, acl("kafka-cluster", AclOperation.DESCRIBE, kind=ResourceType.BROKER)
    )
    there, topics, names = sources("[co]*e[dn]")
    assert names == {"open"}
    assert len(warnings) == 1
    assert warnings.pop().startswith("[co]*e[dn] matches topic closed, which the principal")
    there.warn_of_hidden("[co]*", {"closed"}, topics, (), warnings.append)
    sources("open")
    assert warnings == []


def sent(address, files, topic, values, **settings):
    """Produce values in one batch as alice; return the code and the text of each record's error."""
    seen = []
    producer = Producer({**as_alice(address, files), "linger.ms": 60_000, **settings})
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: seen.append(error))
    assert producer.flush(60) == 0
    return {(error.name(), error.str()) if error else None for error in seen}


@pytest.mark.cases(1)
@pytest.mark.parametrize("lane", ["1", "0"])
@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT"])
def test_a_client_without_write_permission_neither_reads_refusals_nor_changes_shares(
    secured, files, secured_admin, tmp_path, monkeypatch, lane, protocol
):
    """Other producers' bad records become dead letters, however many this client has sent."""
    monkeypatch.setenv("PENSTOCK_NATIVE_LANE", lane)
    trail = tmp_path / "trail.jsonl"
    shared, refusing = topics = [f"{name}{lane}{protocol[5:7]}" for name in ("shared", "refusing")]
    more = {
        f"topics.{shared}.penstock.mode": "quarantine",
        f"topics.{shared}.penstock.quarantine.max.ratio": "0.05",
        "errors.deadletterqueue.topic.replication.factor": 1,
        "audit.file": trail,
    }
    for topic in topics:
        create_topic(secured_admin, topic)
        create_acls(secured_admin, acl(topic, AclOperation.DESCRIBE))
    running = gateway_of_admin(secured, files, tmp_path, protocol=protocol, **more)
    login = {"security.protocol": protocol}
    try:
        for topic in topics:
            [(name, text)] = sent(running.address, files, topic, [b"bad"] * 500, **login)
            assert (name, "bad" in text) == ("TOPIC_AUTHORIZATION_FAILED", False)
            found = sent(running.address, files, topic, [b"good"] * 500, **login)
            assert {name for name, _ in found} == {"TOPIC_AUTHORIZATION_FAILED"}
        through = {**as_admin(running.address, files), **login}
        assert produce(through, shared, b"bad") == ""
        assert produce(through, refusing, b"bad") == "INVALID_RECORD"
        running.wait_for("records refused")
    finally:
        assert running.stop() == 0
    blamed = [json.loads(line) for line in trail.read_text().splitlines()]
    assert {(line["topic"], line["principal"]) for line in blamed} == {
        (shared, "User:admin"), (refusing, "User:admin"),
    }  # fmt: skip
    assert "User:alice" not in str(running.events("records refused"))
    settings = as_admin(secured.bootstrap_servers, files)
    letters = read_topic(secured.bootstrap_servers, f"{shared}.dead", settings=settings)
    assert values_of(letters) == [b"bad"]

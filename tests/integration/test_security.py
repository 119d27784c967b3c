"""TLS on both sides, SASL and ACLs through the gateway, against a Kafka that requires them."""

from pathlib import Path

import pytest
import trustme
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from penstock.cluster.errors import NotDescribedError
from penstock.cluster.offsets import Cluster
from penstock.local import LocalKafka, free_ports
from penstock.stored.topics import StoredTopics
from tests.conftest import create_acls, create_topic
from tests.gateways import RunningGateway, write_configuration
from tests.integration.reading import read_topic, values_of
from tests.raw import RawClient

POLICY = """
from penstock.policy import *
class NoBad(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if value == b"bad":
            return InvalidRecordException("bad is not good")
"""
NO_BAD = {"record.validator.classes": "policies.NoBad"}


class Files:
    """A certificate authority, and PEM files of certificates that it issued."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = trustme.CA()
        self.trust = folder / "authority.pem"
        self._authority.cert_pem.write_to_path(self.trust)

    def key(self, name: str, *identities: str) -> Path:
        """A key (PKCS 8, which is what Java reads) and its certificates in one file."""
        issued = self._authority.issue_cert(*(identities or ("127.0.0.1",)))
        private = load_pem_private_key(issued.private_key_pem.bytes(), None)
        path = self._folder / name
        path.write_bytes(
            private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            + b"".join(pem.bytes() for pem in issued.cert_chain_pems)
        )
        return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("certificates"))


def secure_kafka(files: Files) -> LocalKafka:
    """A Kafka with SASL_SSL and ACLs: `admin` may do everything, others need permissions."""
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule"
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.key("broker.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.trust),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f'{plain} required username="admin" password="a-secret" user_admin="a-secret";'
        ),
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{scram} required;",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
    }
    return LocalKafka(protocol="SASL_SSL", properties=properties)


@pytest.fixture(scope="module")
def secured(files):
    with secure_kafka(files) as running:
        yield running


def as_client(address: str, files: Files, user: str, password: str, mechanism: str) -> dict:
    return {
        "bootstrap.servers": address,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(files.trust),
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "log_level": 0,
    }


@pytest.fixture(scope="module")
def secured_admin(secured, files):
    admin = AdminClient(as_client(secured.bootstrap_servers, files, "admin", "a-secret", "PLAIN"))
    alter = UserScramCredentialUpsertion(
        "alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"alice-secret"
    )
    for done in admin.alter_user_scram_credentials([alter]).values():
        done.result(60)
    create_topic(admin, "open")
    create_topic(admin, "closed")
    rule = AclBinding(
        ResourceType.TOPIC, "open", ResourcePatternType.LITERAL, "User:alice", "*",
        AclOperation.ALL, AclPermissionType.ALLOW,
    )  # fmt: skip
    create_acls(admin, rule)
    return admin


@pytest.fixture(scope="module")
def secured_gateway(secured, files, secured_admin, tmp_path_factory):
    """A gateway in front of `secured` that clients connect to with TLS."""
    running = gateway_of_admin(secured, files, tmp_path_factory.mktemp("gateway"))
    yield running
    running.stop()


def gateway_of_admin(secured, files, folder, **more):
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    (folder / "password").write_text("a-secret\n")
    (folder / "authority.pem").write_bytes(files.trust.read_bytes())
    port = free_ports(3)[0]
    file = write_configuration(
        folder,
        secured.bootstrap_servers,
        port,
        {
            "listeners": f"SASL_SSL://127.0.0.1:{port}",
            "ssl.keystore.location": files.key("gateway.pem"),
            "upstream.security.protocol": "SASL_SSL",
            "upstream.ssl.truststore.location": "authority.pem",
            "upstream.sasl.mechanism": "PLAIN",
            "upstream.sasl.jaas.config": (
                f'{plain} required username="admin" password="${{file:password}}";'
            ),
            **NO_BAD,
            **more,
        },
        POLICY,
    )
    return RunningGateway(file)


def produce(settings: dict, topic: str, value: bytes, timeout_s: float = 60) -> str:
    """Produce a single record; return the name of the error, or an empty text."""
    seen: list[str] = []
    fatal: list[str] = []
    producer = Producer(
        {**settings, "message.timeout.ms": int(timeout_s * 1000)},
        error_cb=lambda error: fatal.append(error.name()),
    )
    producer.produce(
        topic, value, on_delivery=lambda error, _: seen.append(error.name() if error else "")
    )
    while not seen and "_AUTHENTICATION" not in fatal:
        producer.poll(0.1)
    producer.purge()
    return "_AUTHENTICATION" if "_AUTHENTICATION" in fatal else seen[0]


def test_the_cluster_sees_the_principal_of_the_client(
    secured, secured_gateway, files, secured_admin
):
    through = as_client(secured_gateway.address, files, "alice", "alice-secret", "SCRAM-SHA-256")
    direct = {**through, "bootstrap.servers": secured.bootstrap_servers}
    assert produce(through, "open", b"good") == ""
    assert produce(through, "open", b"bad") == "INVALID_RECORD"
    assert produce(through, "closed", b"good") == produce(direct, "closed", b"good")
    assert produce(direct, "closed", b"good") == "TOPIC_AUTHORIZATION_FAILED"
    stored = read_topic(
        secured.bootstrap_servers,
        "open",
        settings=as_client(secured.bootstrap_servers, files, "admin", "a-secret", "PLAIN"),
    )
    assert values_of(stored) == [b"good"]


def test_a_wrong_password_is_refused_by_the_cluster(secured, secured_gateway, files, secured_admin):
    wrong = as_client(secured_gateway.address, files, "alice", "guessed", "SCRAM-SHA-256")
    assert produce(wrong, "open", b"good") == "_AUTHENTICATION"
    direct = {**wrong, "bootstrap.servers": secured.bootstrap_servers}
    assert produce(direct, "open", b"good") == "_AUTHENTICATION"


def test_a_client_without_tls_is_not_served(secured_gateway):
    with RawClient(secured_gateway.address) as client:
        client.send(b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff")
        with pytest.raises((EOFError, ConnectionError, ValueError, OverflowError)):
            while True:  # a TLS alert, then the end; never a Kafka response
                assert b"\x00\x00\x00\x01" not in client.receive()


def test_certificates_of_clients(gateway, files, topic):
    """`ssl.client.auth=required`: clients without a certificate of the authority are not served."""
    name = topic()
    port = free_ports(3)[0]
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
    port = free_ports(3)[0]
    file = write_configuration(
        tmp_path,
        secured.bootstrap_servers,
        port,
        {
            "upstream.security.protocol": "SASL_SSL",
            "upstream.ssl.truststore.location": other.trust,
            "upstream.sasl.mechanism": "PLAIN",
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
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule"
    properties = {
        "upstream.security.protocol": "SASL_SSL",
        "upstream.ssl.truststore.type": "PEM",
        "upstream.ssl.truststore.location": files.trust,
        "upstream.sasl.mechanism": "SCRAM-SHA-256",
        "upstream.sasl.jaas.config": (
            f'{scram} required username="alice" password="alice-secret";'
        ),
        "produce.request.interceptors": "policies.Drops",
        "produce.request.interceptors.state.topic": "state-of-producers",
        **more,
    }
    port = free_ports(3)[0]
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
    assert "set produce.request.interceptors.state=local" in message


def test_a_principal_that_may_only_read_the_state_topic_is_an_error_at_the_start(
    secured, files, secured_admin, tmp_path
):
    create_topic(secured_admin, "read-only", config={"cleanup.policy": "compact"})
    rule = AclBinding(
        ResourceType.TOPIC, "read-only", ResourcePatternType.LITERAL, "User:alice", "*",
        AclOperation.READ, AclPermissionType.ALLOW,
    )  # fmt: skip
    create_acls(secured_admin, rule)
    topic = {"produce.request.interceptors.state.topic": "read-only"}
    with pytest.raises(AssertionError, match="Read and Write are not both allowed"):
        gateway_of_alice(secured, files, tmp_path, **topic)


def test_with_local_state_the_gateway_starts(secured, files, secured_admin, tmp_path):
    running = gateway_of_alice(
        secured, files, tmp_path, **{"produce.request.interceptors.state": "local"}
    )
    try:
        running.wait_for("other gateways cannot be found")
    finally:
        assert running.stop() == 0


def test_a_client_without_write_permission_on_a_topic_writes_no_dead_letters(
    secured, files, secured_admin, tmp_path
):
    more = {"penstock.mode": "quarantine", "errors.deadletterqueue.topic.replication.factor": 1}
    running = gateway_of_admin(secured, files, tmp_path, **more)
    try:
        create_topic(secured_admin, "seen")
        rule = AclBinding(
            ResourceType.TOPIC, "seen", ResourcePatternType.LITERAL, "User:alice", "*",
            AclOperation.DESCRIBE, AclPermissionType.ALLOW,
        )  # fmt: skip
        create_acls(secured_admin, rule)
        through = as_client(running.address, files, "alice", "alice-secret", "SCRAM-SHA-256")
        assert produce(through, "seen", b"bad") == "TOPIC_AUTHORIZATION_FAILED"
        assert produce(through, "open", b"bad") == ""
        admin = as_client(secured.bootstrap_servers, files, "admin", "a-secret", "PLAIN")
        found = values_of(read_topic(secured.bootstrap_servers, "open.dead", settings=admin))
        assert found == [b"bad"]
        assert "seen.dead" not in secured_admin.list_topics(timeout=60).topics
    finally:
        running.stop()


def properties_of_alice(secured, files):
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    login = f'{module} required username="alice" password="alice-secret";'
    return {
        "bootstrap.servers": secured.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": str(files.trust),
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": login,
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
    rule = AclBinding(
        ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, "User:alice", "*",
        AclOperation.DESCRIBE, AclPermissionType.ALLOW,
    )  # fmt: skip
    create_acls(secured_admin, rule)
    there, topics, names = sources("[co]*e[dn]")
    assert names == {"open"}
    assert len(warnings) == 1
    assert warnings.pop().startswith("[co]*e[dn] matches topic closed, which the principal")
    there.warn_of_hidden("[co]*", {"closed"}, topics, (), warnings.append)
    sources("open")
    assert warnings == []

"""Reading from a cluster that requires TLS and SASL, by each mechanism; and its refusals."""

import pytest
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

from penstock.client.connections.connection import Connection
from penstock.client.errors import DeniedError, LoginError
from penstock.client.reading.reader import RangeReader, WantedRange
from tests.client.settings import FILE
from tests.conftest import create_acls, create_topic
from tests.integration.test_security import Files, as_client, produce, secure_kafka

pytestmark = pytest.mark.system
MODULE = "org.apache.kafka.common.security"
LOGIN = f'{MODULE}.plain.PlainLoginModule required username="{{}}" password="{{}}";'
OAUTH = f"{MODULE}.oauthbearer.OAuthBearerLoginModule required"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secured(files):
    kafka = secure_kafka(files)
    kafka._more |= {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": (
            f"{MODULE}.scram.ScramLoginModule required;"
        ),
        "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": (
            f'{OAUTH} unsecuredLoginStringClaim_sub="broker";'
        ),
    }
    with kafka:
        settings = as_client(kafka.bootstrap_servers, files, "admin", "a-secret", "PLAIN")
        admin = AdminClient(settings)
        mechanisms = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        for mechanism in mechanisms:
            upsertion = UserScramCredentialUpsertion(
                "alice", ScramCredentialInfo(mechanism, 4096), b"alice-secret"
            )
            for done in admin.alter_user_scram_credentials([upsertion]).values():
                done.result(60)
        for name in ("open", "closed"):
            create_topic(admin, name)
            assert produce(settings, name, b"value") == ""
        rule = AclBinding(
            ResourceType.TOPIC, "open", ResourcePatternType.LITERAL, "User:alice", "*",
            AclOperation.READ, AclPermissionType.ALLOW,
        )  # fmt: skip
        create_acls(admin, rule)
        yield kafka


def connected(kafka, files, mechanism, jaas, **more):
    return Connection(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "ssl.truststore.location": str(files.trust),
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": jaas,
            **more,
        },
        FILE,
    )


def read(connection, topic):
    batches = RangeReader(connection, WantedRange(topic, 0, 0, 1), on_lost=pytest.fail)
    return [batch.record_count for batch in batches]


@pytest.mark.parametrize(
    ("mechanism", "jaas"),
    [
        ("PLAIN", LOGIN.format("admin", "a-secret")),
        ("SCRAM-SHA-256", LOGIN.format("alice", "alice-secret")),
        ("SCRAM-SHA-512", LOGIN.format("alice", "alice-secret")),
        ("OAUTHBEARER", f'{OAUTH} unsecuredLoginStringClaim_sub="alice";'),
    ],
)
def test_mechanisms(secured, files, mechanism, jaas):
    with connected(secured, files, mechanism, jaas) as connection:
        assert read(connection, "open") == [1]


def test_a_topic_that_is_denied(secured, files):
    alice = LOGIN.format("alice", "alice-secret")
    with (
        connected(secured, files, "SCRAM-SHA-256", alice) as connection,
        pytest.raises(DeniedError, match=r"topic closed: TOPIC_AUTHORIZATION_FAILED \(29\)"),
    ):
        read(connection, "closed")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password(secured, files, mechanism):
    wrong = LOGIN.format("alice", "wrong-secret")
    with (
        connected(secured, files, mechanism, wrong) as connection,
        pytest.raises(LoginError, match="refused the login") as caught,
    ):
        read(connection, "open")
    assert "secret" not in str(caught.value)
    assert not caught.value.retriable


def test_an_authority_that_is_not_trusted(secured, files, tmp_path):
    other = Files(tmp_path)
    login = LOGIN.format("admin", "a-secret")
    with (
        connected(secured, other, "PLAIN", login) as connection,
        pytest.raises(LoginError, match="TLS: CERTIFICATE_VERIFY_FAILED"),
    ):
        read(connection, "open")


def test_a_certificate_of_another_host(secured, files):
    """The broker's certificate is for 127.0.0.1."""
    port = secured.nodes[0].port
    login = LOGIN.format("admin", "a-secret")
    elsewhere = {"bootstrap.servers": f"localhost:{port}"}
    with (
        connected(secured, files, "PLAIN", login, **elsewhere) as connection,
        pytest.raises(LoginError, match="TLS: CERTIFICATE_VERIFY_FAILED"),
    ):
        read(connection, "open")
    unchecked = {**elsewhere, "ssl.endpoint.identification.algorithm": ""}
    with connected(secured, files, "PLAIN", login, **unchecked) as connection:
        assert read(connection, "open") == [1]

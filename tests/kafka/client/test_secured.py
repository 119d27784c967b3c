"""Reading from a cluster that requires TLS and SASL, by each mechanism; and its refusals."""

import logging

import pytest
from confluent_kafka.admin import AclOperation, AdminClient, ScramMechanism

from penstock.kafka.client.connections.connection import Connection
from penstock.kafka.client.errors import DeniedError, LoginError
from penstock.kafka.client.reading.offset_ranges import WantedRange
from penstock.kafka.client.reading.reader import RangeReader
from tests.certificates import Files
from tests.conftest import create_acls, create_topic
from tests.kafka.client.settings import FILE
from tests.secured import (
    ADMIN_LOGIN,
    ALICE_LOGIN,
    PLAIN,
    SCRAM,
    acl,
    add_alice,
    as_admin,
    files,
    produce,
    secure_kafka,
)

__all__ = ["files"]
pytestmark = pytest.mark.system
WRONG_LOGIN = f'{PLAIN} required username="alice" password="wrong-secret";'
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


@pytest.fixture(scope="module")
def secured(files):
    more = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": (
            f'{OAUTH} unsecuredLoginStringClaim_sub="broker";'
        ),
    }
    with secure_kafka(files, **more) as kafka:
        settings = as_admin(kafka.bootstrap_servers, files)
        admin = AdminClient(settings)
        add_alice(admin, ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        for name in ("open", "closed"):
            create_topic(admin, name)
            assert produce(settings, name, b"value") == ""
        create_acls(admin, acl("open", AclOperation.READ))
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
        ("PLAIN", ADMIN_LOGIN),
        ("SCRAM-SHA-256", ALICE_LOGIN),
        ("SCRAM-SHA-512", ALICE_LOGIN),
        ("OAUTHBEARER", f'{OAUTH} unsecuredLoginStringClaim_sub="alice";'),
    ],
)
def test_mechanisms(secured, files, mechanism, jaas):
    with connected(secured, files, mechanism, jaas) as connection:
        assert read(connection, "open") == [1]


def test_no_password_is_logged(secured, files, caplog):
    """A notebook or a policy may set the level of all loggers."""
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, "aiokafka.conn")
    with connected(secured, files, "PLAIN", ADMIN_LOGIN) as connection:
        assert connection.cluster().brokers
    assert "a-secret" not in caplog.text
    assert "SaslAuthenticate" not in caplog.text


def test_a_topic_that_is_denied(secured, files):
    with (
        connected(secured, files, "SCRAM-SHA-256", ALICE_LOGIN) as connection,
        pytest.raises(DeniedError, match=r"topic closed: TOPIC_AUTHORIZATION_FAILED \(29\)"),
    ):
        read(connection, "closed")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password(secured, files, mechanism):
    with (
        connected(secured, files, mechanism, WRONG_LOGIN) as connection,
        pytest.raises(LoginError, match="refused the login") as caught,
    ):
        read(connection, "open")
    assert "secret" not in str(caught.value)
    assert not caught.value.retriable


def test_an_authority_that_is_not_trusted(secured, files, tmp_path):
    other = Files(tmp_path)
    with (
        connected(secured, other, "PLAIN", ADMIN_LOGIN) as connection,
        pytest.raises(LoginError, match="TLS: CERTIFICATE_VERIFY_FAILED"),
    ):
        read(connection, "open")


def test_a_certificate_of_another_host(secured, files):
    """The broker's certificate is for 127.0.0.1."""
    port = secured.nodes[0].port
    elsewhere = {"bootstrap.servers": f"localhost:{port}"}
    with (
        connected(secured, files, "PLAIN", ADMIN_LOGIN, **elsewhere) as connection,
        pytest.raises(LoginError, match="TLS: CERTIFICATE_VERIFY_FAILED"),
    ):
        read(connection, "open")
    unchecked = {**elsewhere, "ssl.endpoint.identification.algorithm": ""}
    with connected(secured, files, "PLAIN", ADMIN_LOGIN, **unchecked) as connection:
        assert read(connection, "open") == [1]

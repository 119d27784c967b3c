"""The Spark commands against a cluster that demands TLS and SASL, by the keys of the file."""

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

from tests.conftest import create_acls, create_topic
from tests.integration.test_security import Files, as_client, produce, secure_kafka
from tests.spark.conftest import NO_BAD

pytestmark = pytest.mark.slow

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def test_audit_and_split(command, configured, files, tmp_path):
    with secure_kafka(files) as kafka:
        settings = as_client(kafka.bootstrap_servers, files, "admin", "a-secret", "PLAIN")
        for name in ("in", "good", "dead"):
            create_topic(AdminClient(settings), name)
        for value in (b"good", b"bad"):
            assert produce(settings, "in", value) == ""
        file = configured(
            {
                **NO_BAD,
                "upstream.bootstrap.servers": kafka.bootstrap_servers,
                "upstream.security.protocol": "SASL_SSL",
                "upstream.ssl.truststore.location": files.trust,
                "upstream.sasl.mechanism": "PLAIN",
                "upstream.sasl.jaas.config": (
                    f'{PLAIN} required username="admin" password="a-secret";'
                ),
            }
        )
        done = command("audit", file, "--topic", "in")
        assert "1 accepted, 1 refused" in done.out, done
        done = command("split", file, "--topic", "in", "--accepted", "good", "--rejected", "dead")
        assert "1 accepted, 1 refused" in done.out, done
        done = command("redrive", file, "--from", "dead", "--to", "good")
        assert "0 returned, 1 again" in done.out, done


@pytest.mark.parametrize("store", ["truststore", "keystore"])
def test_a_store_of_java_is_wrong_use_with_a_reason(command, configured, tmp_path, store):
    (tmp_path / "client.store").write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    key = f"upstream.ssl.{store}.location"
    file = configured({**NO_BAD, key: tmp_path / "client.store"})
    done = command("audit", file, "--topic", "t")
    assert done.code == 2, done
    assert f"{key} must be a PEM file, and {tmp_path / 'client.store'} is JKS" in done.err
    assert "Penstock's clients are written in Python and C" in done.err


def rule(kind, name, operation, permission):
    return AclBinding(
        kind, name, ResourcePatternType.LITERAL, "User:alice", "*", operation, permission
    )


def test_a_stream_does_not_continue_without_a_topic_that_it_may_not_describe(
    command, configured, files
):
    with secure_kafka(files) as kafka:
        settings = as_client(kafka.bootstrap_servers, files, "admin", "a-secret", "PLAIN")
        admin = AdminClient(settings)
        alter = UserScramCredentialUpsertion(
            "alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"alice-secret"
        )
        admin.alter_user_scram_credentials([alter])["alice"].result(60)
        for name in ("in-a", "in-b", "good", "dead"):
            create_topic(admin, name)
        for name in ("in-a", "in-b"):
            assert produce(settings, name, b"good") == ""
        everything = [
            rule(kind, name, AclOperation.ALL, AclPermissionType.ALLOW)
            for kind, name in (
                (ResourceType.TOPIC, "*"),
                (ResourceType.GROUP, "*"),
                (ResourceType.TRANSACTIONAL_ID, "*"),
                (ResourceType.BROKER, "kafka-cluster"),
            )
        ]
        create_acls(admin, *everything)
        file = configured(
            {
                **NO_BAD,
                "upstream.bootstrap.servers": kafka.bootstrap_servers,
                "upstream.security.protocol": "SASL_SSL",
                "upstream.ssl.truststore.location": files.trust,
                "upstream.sasl.mechanism": "SCRAM-SHA-256",
                "upstream.sasl.jaas.config": (
                    f'{SCRAM} required username="alice" password="alice-secret";'
                ),
            }
        )
        stream = ("split", file, "--topic", "in-*", "--accepted", "good", "--rejected", "dead",
                  "--streaming", "--available-now")  # fmt: skip
        done = command(*stream)
        assert (done.code, "2 accepted, 0 refused" in done.out) == (0, True), done
        create_acls(
            admin,
            rule(ResourceType.TOPIC, "in-b", AclOperation.DESCRIBE, AclPermissionType.DENY),
        )
        done = command(*stream)
        assert done.code == 3, done
        assert "topic in-b: TOPIC_AUTHORIZATION_FAILED (29)" in done.err

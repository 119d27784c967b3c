"""The Spark commands against a cluster that demands TLS and SASL, by the keys of the file."""

import pytest

from tests.conftest import create_topic
from tests.integration.test_security import Files, as_client, produce, secure_kafka
from tests.spark.conftest import NO_BAD

pytestmark = pytest.mark.slow

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def test_audit_and_split(command, configured, files, tmp_path):
    from confluent_kafka.admin import AdminClient

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

"""The Spark commands against a cluster that demands TLS and SASL, by the keys of the file."""

import pytest
from confluent_kafka.admin import AclOperation, AclPermissionType, AdminClient, ResourceType
from pyspark.sql.types import LongType, StructField, StructType

from penstock.spark.source.data_source import PenstockDataSource
from tests.conftest import create_acls, create_topic
from tests.secured import (
    acl,
    add_alice,
    as_admin,
    files,
    produce,
    secure_kafka,
    upstream_as_admin,
    upstream_as_alice,
)
from tests.spark.conftest import NO_BAD

__all__ = ["files"]
pytestmark = pytest.mark.slow


def test_audit_and_split(command, configured, files, tmp_path):
    with secure_kafka(files) as kafka:
        settings = as_admin(kafka.bootstrap_servers, files)
        for name in ("in", "good", "dead"):
            create_topic(AdminClient(settings), name)
        for value in (b"good", b"bad"):
            assert produce(settings, "in", value) == ""
        file = configured(
            {
                **NO_BAD,
                "upstream.bootstrap.servers": kafka.bootstrap_servers,
                **upstream_as_admin(files),
            }
        )
        done = command("audit", file, "--topic", "in")
        assert "1 accepted, 1 refused" in done.out, done
        done = command("split", file, "--topic", "in", "--accepted", "good", "--rejected", "dead")
        assert "1 accepted, 1 refused" in done.out, done
        done = command("redrive", file, "--from", "dead", "--to", "good", "--topic", "in")
        assert "0 returned, 1 again" in done.out, done


@pytest.mark.parametrize("store", ["truststore", "keystore"])
def test_a_store_of_java_is_wrong_use_with_a_reason(command, configured, tmp_path, store):
    (tmp_path / "client.store").write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    key = f"upstream.ssl.{store}.location"
    file = configured(
        {**NO_BAD, "upstream.security.protocol": "SSL", key: tmp_path / "client.store"}
    )
    done = command("audit", file, "--topic", "t")
    assert done.code == 2, done
    assert f"{key} must be a PEM file, and {tmp_path / 'client.store'} is JKS" in done.err
    assert "Penstock's client is written in Python" in done.err


def test_a_stream_does_not_continue_without_a_topic_that_it_may_not_describe(
    command, configured, files
):
    with secure_kafka(files) as kafka:
        settings = as_admin(kafka.bootstrap_servers, files)
        admin = AdminClient(settings)
        add_alice(admin)
        for name in ("in-a", "in-b", "good", "dead"):
            create_topic(admin, name)
        for name in ("in-a", "in-b"):
            assert produce(settings, name, b"good") == ""
        create_acls(
            admin,
            acl("*"),
            acl("*", kind=ResourceType.GROUP),
            acl("*", kind=ResourceType.TRANSACTIONAL_ID),
            acl("kafka-cluster", kind=ResourceType.BROKER),
        )
        file = configured(
            {
                **NO_BAD,
                "upstream.bootstrap.servers": kafka.bootstrap_servers,
                **upstream_as_alice(files),
            }
        )
        stream = ("split", file, "--topic", "in-*", "--accepted", "good", "--rejected", "dead",
                  "--streaming", "--available-now")  # fmt: skip
        done = command(*stream)
        assert (done.code, "2 accepted, 0 refused" in done.out) == (0, True), done
        create_acls(admin, acl("in-b", AclOperation.DESCRIBE, AclPermissionType.DENY))
        done = command(*stream)
        assert done.code == 3, done
        assert "topic in-b: TOPIC_AUTHORIZATION_FAILED (29)" in done.err


def test_a_pattern_that_matches_a_topic_that_may_not_be_described(configured, files, capsys):
    """No list has the topic, so its records are not read, as with the globs of the commands."""
    with secure_kafka(files) as kafka:
        admin = AdminClient(as_admin(kafka.bootstrap_servers, files))
        add_alice(admin)
        for name in ("in-a", "in-b", "other"):
            create_topic(admin, name)
        create_acls(
            admin,
            acl("in-a"),
            acl("kafka-cluster", AclOperation.DESCRIBE, kind=ResourceType.BROKER),
        )
        settings = upstream_as_alice(files)
        file = configured({"upstream.bootstrap.servers": kafka.bootstrap_servers, **settings})
        schema = StructType([StructField("offset", LongType())])

        def warnings(**options):
            source = PenstockDataSource({"plan": str(file), **options})
            source.reader(schema)
            source.streamReader(schema)
            return capsys.readouterr().err

        assert warnings(subscribe="in-a") == ""
        assert warnings(subscribePattern="in-a|no.*") == ""
        assert warnings(subscribePattern="in-.*") == 2 * (
            "warning: subscribePattern in-.* matches topic in-b, which the principal of upstream.* "
            "or kafka.* may not describe: the records there are left out\n"
        )

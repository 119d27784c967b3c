"""A Kafka that requires TLS, SASL and permissions; its users `admin` and `alice`, and their ACLs."""

import pytest
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

from penstock.kafka.local import LocalKafka
from tests.certificates import Files

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
ADMIN_LOGIN = f'{PLAIN} required username="admin" password="a-secret";'
ALICE_LOGIN = f'{SCRAM} required username="alice" password="alice-secret";'


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Return the certificates of a module's tests."""
    return Files(tmp_path_factory.mktemp("certificates"))


def secure_kafka(files: Files, **more: str) -> LocalKafka:
    """Return a Kafka with SASL_SSL and ACLs: `admin` may do everything, others need permissions.

    Args:
        files: The certificates.
        more: Other properties of the broker.
    """
    properties = {
        **files.broker_keys(),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f'{PLAIN} required username="admin" password="a-secret" user_admin="a-secret";'
        ),
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
    }
    return LocalKafka(protocol="SASL_SSL", properties={**properties, **more})


def as_client(address: str, files: Files, user: str, password: str, mechanism: str) -> dict:
    """Return the settings of librdkafka for a user."""
    return {
        "bootstrap.servers": address,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(files.trust),
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "log_level": 0,
    }


def as_admin(address: str, files: Files) -> dict:
    """Return the settings of librdkafka for the user who may do everything."""
    return as_client(address, files, "admin", "a-secret", "PLAIN")


def as_alice(address: str, files: Files) -> dict:
    """Return the settings of librdkafka for the user of `add_alice`."""
    return as_client(address, files, "alice", "alice-secret", "SCRAM-SHA-256")


def upstream_as_admin(files: Files) -> dict[str, object]:
    """Return the keys of a configuration file for the user who may do everything."""
    return _upstream(files, "PLAIN", ADMIN_LOGIN)


def upstream_as_alice(files: Files) -> dict[str, object]:
    """Return the keys of a configuration file for the user of `add_alice`."""
    return _upstream(files, "SCRAM-SHA-256", ALICE_LOGIN)


def _upstream(files: Files, mechanism: str, login: str) -> dict[str, object]:
    return {
        "upstream.security.protocol": "SASL_SSL",
        "upstream.ssl.truststore.location": files.trust,
        "upstream.sasl.mechanism": mechanism,
        "upstream.sasl.jaas.config": login,
    }


def add_alice(
    admin: AdminClient,
    *mechanisms: ScramMechanism,
    password: bytes = b"alice-secret",
) -> None:
    """Create the user `alice`, without permissions; by default, for SCRAM-SHA-256."""
    for mechanism in mechanisms or (ScramMechanism.SCRAM_SHA_256,):
        credentials = ScramCredentialInfo(mechanism, 4096)
        user = UserScramCredentialUpsertion("alice", credentials, password)
        for done in admin.alter_user_scram_credentials([user]).values():
            done.result(60)


def acl(
    name: str,
    operation: AclOperation = AclOperation.ALL,
    permission: AclPermissionType = AclPermissionType.ALLOW,
    *,
    user: str = "alice",
    kind: ResourceType = ResourceType.TOPIC,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> AclBinding:
    """Return an ACL of a user, by default for everything on a topic; see `create_acls`."""
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, permission)


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

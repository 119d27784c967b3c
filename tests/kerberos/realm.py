"""Configuration files of Penstock for the realm of the tests."""

from pathlib import Path
from typing import Final

from penstock.kafka.local import LocalKafka
from tests.gateways import gateway_port, write_configuration

KERBEROS: Final = "com.sun.security.auth.module.Krb5LoginModule required"
GSSAPI: Final = {
    "upstream.security.protocol": "SASL_PLAINTEXT",
    "upstream.sasl.mechanism": "GSSAPI",
}
POLICIES: Final = """
from penstock.policy import *

class Check(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        return InvalidRecordException("it is bad") if value == b"bad" else None
"""


def upstream_file(folder: Path, servers: str, **more: object) -> Path:
    """Write a configuration file, with a policy for all topics.

    Args:
        folder: For the file.
        servers: The brokers.
        more: Other keys, with underscores for dots.
    """
    keys = {name.replace("_", "."): value for name, value in more.items()}
    policy = {"record.validator.classes": "policies.Check"}
    return write_configuration(
        folder, servers, gateway_port(), {**policy, **GSSAPI, **keys}, POLICIES
    )


def as_admin(kafka: LocalKafka) -> dict[str, object]:
    """Return the settings of librdkafka for the user who may do everything."""
    return {
        "bootstrap.servers": kafka.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": "a-secret",
        "log_level": 0,
    }

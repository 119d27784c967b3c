"""A broker with users, and requests that an audit trail has."""

from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka.admin import AdminClient

from penstock.kafka.local import LocalKafka
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import RawClient, produce_request
from tests.secured import PLAIN

POLICIES = """
from pathlib import Path
from penstock.policy import *

if Path(__file__).with_name("broken").exists():
    raise ValueError("broken")

class Check(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if value == b"secret-fail":
            raise ZeroDivisionError(value)
        if value == b"secret-later":
            raise RetriableException("not now")
        return InvalidRecordException("bad is not good") if b"bad" in (value or b"") else None

class Small(CreateTopicPolicy):
    def validate(self, request):
        if request.num_partitions > 2:
            raise PolicyViolationException("too many partitions")

class Kept(AlterConfigPolicy):
    def validate(self, request):
        if "retention.ms" in request.configs:
            raise PolicyViolationException("retention stays")
"""
CHECK = {"record.validator.classes": "policies.Check"}


def produce(
    address: str, topic: str, *batches: Sequence[bytes], client_id: str = "shop", acks: int = -1
) -> list[int]:
    """Send a request for each batch; return the code of each."""
    with RawClient(address) as client:
        found = []
        for batch in batches:
            data = encode_batch(values(*batch, key=b"k3y"))
            request = produce_request([(topic, [(0, data)])], acks=acks)
            if not acks:
                client.send(client.frame(request, client_id))
                assert client.closed()
                break
            (response,) = client.call(request, client_id).responses[0].partition_responses
            found.append(int(response.error_code))
    return found


@pytest.fixture(scope="module")
def secured() -> Iterator[LocalKafka]:
    """A Kafka with logins and ACLs: `admin` may do everything, others need permissions."""
    users = "".join(f' user_{name}="{name}-secret"' for name in ("admin", "alice", "trail"))
    properties = {
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{PLAIN} required username="admin" password="admin-secret"{users};'
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
    }
    with LocalKafka(protocol="SASL_PLAINTEXT", properties=properties) as running:
        yield running


def as_user(address: str, name: str) -> dict[str, object]:
    return {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": name,
        "sasl.password": f"{name}-secret",
        "log_level": 0,
    }


def upstream_as(name: str) -> dict[str, str]:
    return {
        "upstream.security.protocol": "SASL_PLAINTEXT",
        "upstream.sasl.mechanism": "PLAIN",
        "upstream.sasl.jaas.config": f'x required username="{name}" password="{name}-secret";',
    }


@pytest.fixture(scope="module")
def secured_admin(secured: LocalKafka) -> AdminClient:
    return AdminClient(as_user(secured.bootstrap_servers, "admin"))

"""A judged topic behind a gateway, for the clients of other projects."""

import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.java import program

JAVA = Path(__file__).parent / "java"

POLICIES = """
from penstock.policy import *
class NoBad(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if value and value.startswith(b"bad"):
            return InvalidRecordException("bad is not good")
class NoNo(RecordsPolicy):
    def validate(self, topic, partition, records):
        if any(record.value.startswith(b"no") for record in records):
            raise PolicyViolationException("no is not yes")
"""
REASON = "bad is not good"
PROPERTIES = {
    "record.validator.classes": "policies.NoBad",
    "topics.*.records.policy.class.name": "policies.NoNo",
    "topics.*.records.policy.enabled": "true",
}


@pytest.fixture
def judged(shared_gateway):
    """A gateway that refuses values that begin with "bad"."""
    return shared_gateway(PROPERTIES, POLICIES)


class JavaClient:
    """Runs Interop.java."""

    def __init__(self, program: list[str]) -> None:
        self._program = program

    def command(self, *arguments: str) -> list[str]:
        """Return the command line."""
        return [*self._program, *arguments]

    def __call__(self, *arguments: str) -> list[list[str]]:
        done = subprocess.run(
            self.command(*arguments), capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]
        return [line.split("\t") for line in done.stdout.splitlines()]


@pytest.fixture(scope="session")
def java_client() -> JavaClient:
    """The Java client of the Kafka under test."""
    return JavaClient(program(JAVA / "Interop.java"))


@pytest.fixture
def put(kafka):
    """Write values to a topic at the broker."""

    def write(topic: str, *values: str) -> None:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        for value in values:
            producer.produce(topic, value, "k", partition=0)
        assert producer.flush(60) == 0

    return write

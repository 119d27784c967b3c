"""A judged topic behind a gateway, for clients nobody here wrote."""

import shutil
import subprocess
from pathlib import Path

import pytest

from penstock.artifacts import cache_folder, java
from penstock.local import class_path

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
def judged(gateway):
    """A gateway that refuses values that begin with "bad"."""
    return gateway(PROPERTIES, POLICIES)


class JavaClient:
    """Runs Interop.java."""

    def __init__(self, classes: Path) -> None:
        self._classes = classes

    def command(self, *arguments: str) -> list[str]:
        """Give the command line."""
        return [java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
                "-cp", f"{class_path()}:{self._classes}", "Interop", *arguments]  # fmt: skip

    def __call__(self, *arguments: str) -> list[list[str]]:
        done = subprocess.run(
            self.command(*arguments), capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]
        return [line.split("\t") for line in done.stdout.splitlines()]


@pytest.fixture(scope="session")
def java_client() -> JavaClient:
    """The Java client of the Kafka under test."""
    source = Path(__file__).parent / "java" / "Interop.java"
    classes = cache_folder() / "interop-classes"
    compiler = shutil.which("javac") or str(Path(java()).parent / "javac")
    classes.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [compiler, "-cp", class_path(), "-d", str(classes), str(source)], check=True, timeout=120
    )
    return JavaClient(classes)

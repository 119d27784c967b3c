"""A third of the records is dropped by an interceptor, and connections are dropped meanwhile.

In `make test` for a few thousand records of each client; `make interop` sends 200,000 of each,
and adds franz-go.
"""

import re
import subprocess
import sys
import threading
import time
import uuid
import zlib
from pathlib import Path

import pytest

from tests.go import go_program
from tests.integration.reading import read_topic
from tests.interop.conftest import JavaClient
from tests.relay import Relay

pytestmark = pytest.mark.slow

POLICIES = """
import zlib
from penstock.policy import *

class AThird(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return "."
    def process_record(self, key, value, topic, partition, headers):
        if zlib.crc32(value) % 3 == 0: raise ProduceRequestInterceptorSkipRecordException()
        return ProduceRequestInterceptorResult(key, value)
"""
RATE = 5000
PORTS = 5
STATE_TOPIC = "produce.request.interceptors.state.topic"


def python(client: str) -> list[str]:
    return [sys.executable, str(Path(__file__).parent / "many.py"), client]


class Run:
    """A run of a client, with its disturbances."""

    def __init__(
        self, command: list[str], relay: Relay, running, seconds: float, *, loses_numbers: bool
    ) -> None:
        self._dropped = 0
        ended = threading.Event()

        def disturb() -> None:
            began = time.monotonic()
            restarted = False
            while not ended.wait(1.0):
                if not restarted and time.monotonic() - began > seconds / 2:
                    restarted = True
                    if loses_numbers:
                        text = running.file.read_text()
                        other = rf"\1{uuid.uuid4().hex}"
                        running.file.write_text(re.sub(f"({STATE_TOPIC}=).*", other, text))
                    running.restart(kill=True)
                relay.drop()
                self._dropped += 1

        disturbing = threading.Thread(target=disturb)
        disturbing.start()
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=seconds * 3 + 150, check=False
            )
        finally:
            ended.set()
            disturbing.join(60)
        assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]
        self.lines = [line.split("\t") for line in done.stdout.splitlines()]
        assert self._dropped >= min(3, seconds / 2)

    def of(self, kind: str) -> list[list[str]]:
        return [line for line in self.lines if line[0] == kind]


@pytest.fixture
def disturbed(gateway, topic, kafka, request):
    """Runs a client through a gateway whose connections are dropped every second."""
    count = request.config.getoption("interop_records")

    def run(
        command: list[str], *, isolation: str = "read_uncommitted", loses_numbers: bool = False
    ):
        name = topic(partitions=3)
        running = gateway(
            {
                "produce.request.interceptors": "policies.AThird",
                "advertised.host": "127.0.0.2",
                STATE_TOPIC: f"state-{uuid.uuid4().hex}",
            },
            POLICIES,
        )
        port = int(running.address.rpartition(":")[2])
        with Relay(range(port, port + PORTS), record=False) as relay:
            bootstrap = f"127.0.0.2:{port}"
            arguments = [*command, bootstrap, name, str(count), str(RATE)]
            happened = Run(arguments, relay, running, count / RATE, loses_numbers=loses_numbers)
        found = read_topic(kafka.bootstrap_servers, name, full=True, isolation=isolation)
        stored: dict[bytes, list[int]] = {}
        for message in found:
            stored.setdefault(message.key(), []).append(int(message.value()))
        return happened, stored, count

    return run


def kept(count: int) -> dict[bytes, list[int]]:
    """Return the values that have to be stored, by key, in order."""
    result: dict[bytes, list[int]] = {}
    for number in range(count):
        if zlib.crc32(b"%d" % number) % 3:
            result.setdefault(b"k%d" % (number % 10), []).append(number)
    return result


@pytest.fixture
def command(request, java_client):
    client = request.param
    if client == "Java":
        return java_client.command("many")
    return go_program("many", ".") if client == "franz-go" else python(client)


@pytest.mark.kips("B47")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "command",
    [
        "Java",
        "librdkafka",
        "kafka-python",
        "aiokafka",
        pytest.param("franz-go", marks=pytest.mark.go),
    ],
    indirect=True,
)
def test_records_that_are_not_dropped_are_stored_once_in_order(disturbed, command):
    happened, stored, count = disturbed(command)
    assert happened.of("fatal") == []
    assert happened.of("failed") == []
    assert happened.of("refused") == []
    assert happened.of("acknowledged") == [["acknowledged", str(count)]]
    assert stored == kept(count)


@pytest.mark.kips("B48")
@pytest.mark.timeout(900)
def test_transactions_of_java_store_the_records_that_are_not_dropped(
    disturbed, java_client: JavaClient
):
    happened, stored, count = disturbed(
        java_client.command("many-transactions"), isolation="read_committed"
    )
    assert happened.of("acknowledged") == [["acknowledged", str(count)]]
    assert stored == kept(count)


@pytest.mark.timeout(900)
def test_java_continues_when_sequence_numbers_are_lost(disturbed, java_client: JavaClient):
    """Records without a response may be stored again under a new epoch; none is missing."""
    happened, stored, count = disturbed(java_client.command("many"), loses_numbers=True)
    assert happened.of("refused") == []
    assert happened.of("acknowledged") == [["acknowledged", str(count)]]
    assert {key: sorted(set(numbers)) for key, numbers in stored.items()} == kept(count)

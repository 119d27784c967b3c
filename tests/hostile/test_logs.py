"""The size of the log that clients and policies can cause is bounded (8)."""

import json
import subprocess
import threading
import time

from tests.gateways import PENSTOCK, gateway_port, write_configuration
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import RawClient, produce_request

POLICIES = """
from penstock.policy import *

class Judges(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        print("spam " * 10_000)
        return InvalidRecordException("bad " * 10_000)
"""
SECONDS = 5
MOST_BYTES = 4 * 2**20


class Logging:
    """A gateway whose log is measured, not parsed at once."""

    def __init__(self, file) -> None:
        self.lines: list[bytes] = []
        self._process = subprocess.Popen(
            [*PENSTOCK, "gateway", str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().split()[1].decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(60)
        self._reader.join(60)
        self._process.stdout.close()
        self._process.stderr.close()

    def has_left_out(self) -> bool:
        """Return whether a line has the number of lines left out."""
        return any(b'"left_out"' in line for line in list(self.lines))

    def _read(self) -> None:
        for line in self._process.stderr:
            self.lines.append(line)


def test_log_lines_of_long_client_ids_refusals_and_prints_are_bounded(kafka, topic, tmp_path):
    name = topic()
    properties = {"record.validator.classes": "policies.Judges"}
    file = write_configuration(
        tmp_path, kafka.bootstrap_servers, gateway_port(), properties, POLICIES
    )
    batch = encode_batch(values(*[b"bad"] * 10))
    with Logging(file) as running:
        host, _, port = running.address.rpartition(":")
        with RawClient(f"{host}:{int(port) + 1}") as client:
            until = time.monotonic() + SECONDS
            while time.monotonic() < until or not running.has_left_out():
                assert time.monotonic() < until + 60, "nothing was left out"
                client.call(produce_request([(name, [(0, batch)])]), client_id="x" * 30_000)
    assert sum(len(line) for line in running.lines) < MOST_BYTES
    events = [json.loads(line) for line in running.lines]
    assert any(event.get("left_out") for event in events)
    assert max(len(line) for line in running.lines) < 20_000

"""A log that cannot be written, and a policy that prints without end: clients do not notice."""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from penstock.kafka.local import free_ports
from tests.gateways import PENSTOCK, gateway_port, wait_until, write_configuration
from tests.kafka.records.encoding import encode_batch, values
from tests.metrics import get, scrape
from tests.raw import RawClient, produce_request

CLIENTS = 300
POLICIES = """
import os, sys, threading
from penstock.policy import *

def print_without_end():
    while True:
        print("spam " * 1000)
        print("spam " * 1000, file=sys.stderr)
        os.write(1, b"from C\\n" * 1000)

class Judges(BrokerRecordValidator):
    def __init__(self):
        if {prints}:
            threading.Thread(target=print_without_end, daemon=True).start()
    def validate_record(self, topic_partition, key, value, headers):
        if {prints}:
            print("spam " * 10_000)
        if value == b"bad":
            return InvalidRecordException("bad")
"""
PIPE_BYTES = 4096


@contextlib.contextmanager
def without_reader():
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb"):
        yield writing


@contextlib.contextmanager
def full_disk():
    with Path("/dev/full").open("wb") as full:
        yield full.fileno()


@contextlib.contextmanager
def unread():
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    with os.fdopen(reading, "rb"), os.fdopen(writing, "wb"):
        yield writing


class Unheard:
    """A gateway whose standard error is given, and whose `ready` nobody waits for."""

    def __init__(self, file: Path, port: int, metrics: int, stderr: int, stdout: int) -> None:
        self.port, self.metrics, self.file = port, metrics, file
        self.process = subprocess.Popen(
            [*PENSTOCK, "gateway", str(file)], stdout=stdout, stderr=stderr
        )
        with contextlib.ExitStack() as failed:
            failed.callback(self.process.kill)
            wait_until(self._is_ready, what="a gateway that is ready")
            failed.pop_all()

    def _is_ready(self) -> bool:
        assert self.process.poll() is None
        try:
            return get(self.metrics, "/readyz")[0] == 200
        except OSError:
            return False

    def lost(self) -> float:
        return scrape(self.metrics)("penstock_log_lines_lost_total") or 0.0

    def stop(self) -> float:
        """Return the seconds that the end took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0
        return time.monotonic() - began


@pytest.fixture
def started(kafka, tmp_path):
    with contextlib.ExitStack() as running:

        def start(stderr: int, *, prints: bool = False, stdout: int | None = None) -> Unheard:
            port, metrics = gateway_port(), free_ports(1)[0]
            properties = {
                "record.validator.classes": "policies.Judges",
                "metrics.listener": f"127.0.0.1:{metrics}",
                "policy.workers": 1,
            }
            policies = POLICIES.replace("{prints}", str(prints))
            file = write_configuration(
                tmp_path, kafka.bootstrap_servers, port, properties, policies
            )
            made = Unheard(file, port, metrics, stderr, stderr if stdout is None else stdout)
            running.callback(made.process.wait, 60)
            running.callback(made.process.kill)
            return made

        yield start


def produce(client: RawClient, topic: str, value: bytes) -> int:
    batch = encode_batch(values(value))
    response = client.call(produce_request([(topic, [(0, batch)])]))
    return int(response.responses[0].partition_responses[0].error_code)


@pytest.mark.cases(2)
@pytest.mark.parametrize("prints", [False, True], ids=["quiet", "printing"])
@pytest.mark.parametrize("stderr", [without_reader, full_disk, unread])
def test_a_log_that_cannot_be_written_keeps_nobody_waiting(started, topic, stderr, prints):
    name = topic()
    with stderr() as writing, contextlib.ExitStack() as clients:
        running = started(writing, prints=prints)
        connected = [
            clients.enter_context(RawClient(f"127.0.0.1:{running.port + 1}"))
            for _ in range(CLIENTS)
        ]
        for client in connected:
            client.send(
                client.frame(produce_request([(name, [(0, encode_batch(values(b"bad")))])]))
            )
            client.send(client.frame(produce_request([(name, [(0, encode_batch(values(b"ok")))])])))
        request = type(produce_request([]))
        for client in connected:
            codes = [
                int(client.response(request).responses[0].partition_responses[0].error_code)
                for _ in range(2)
            ]
            assert codes == [87, 0]
        assert get(running.metrics, "/livez")[0] == 200
        running.file.write_text(running.file.read_text() + "policy.workers=none\n")
        running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: scrape(running.metrics)("penstock_reload_total", result="failed") == 1)
        if stderr is not unread:
            assert running.lost() > 0
        clients.close()
        assert running.stop() < 20


@pytest.mark.slow
def test_lines_are_written_or_counted_and_the_log_has_the_number_of_lost_lines(started, topic):
    name = topic()
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    with os.fdopen(reading, "rb") as log:
        running = started(writing, prints=True)
        os.close(writing)
        wait_until(lambda: running.lost() > 0, timeout_s=120, what="a lost line")
        lines: list[bytes] = []
        reader = threading.Thread(target=lambda: lines.extend(log), daemon=True)
        reader.start()
        with RawClient(f"127.0.0.1:{running.port + 1}") as client:
            assert produce(client, name, b"bad") == 87
        wait_until(lambda: any(b"log lines lost" in line for line in list(lines)))
        lost = running.lost()
        running.stop()
        reader.join(60)
    events = [json.loads(line) for line in lines if not line.startswith(b"ready ")]
    reported = [event["lines"] for event in events if event["event"] == "log lines lost"]
    assert sum(reported) == lost
    assert events[-1]["event"] in {"policy output", "policy output left out", "shutting down"}


def test_standard_streams_that_are_closed_do_not_become_sockets(started, topic):
    """Standard input, output and error; the text of a log would go to a client."""
    name = topic()
    devnull = os.open(os.devnull, os.O_RDWR)
    running = None
    try:
        closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"]
        original = list(PENSTOCK)
        PENSTOCK[:0] = closed
        try:
            running = started(devnull)
        finally:
            PENSTOCK[:] = original
    finally:
        os.close(devnull)
    for number in range(3):
        assert Path(f"/proc/{running.process.pid}/fd/{number}").readlink() == Path(os.devnull)
    with RawClient(f"127.0.0.1:{running.port + 1}") as client:
        assert produce(client, name, b"bad") == 87
    assert running.lost() > 0
    assert running.stop() < 20

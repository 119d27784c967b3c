"""Batches that workers judge for native threads, through rings, with a real broker."""

import os
import signal
import socket
import threading

import pytest

from tests.gateways import wait_until
from tests.integration.reading import values_of
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import RawClient, parse_response, produce_request, produced

POLICIES = """
import os, time
from penstock.policy import *

class Noting(RecordValidationPolicy):
    def configure(self, configs): self.trace = configs["trace"]
    def get_hints(self): return RecordIntrospectionHints(access_value_bytes=ALL)
    def validate(self, topic, record):
        value = bytes(record.value)
        with open(self.trace, "ab") as trace: trace.write(value + b"\\n")
        if value == b"die": os._exit(9)
        if value.startswith(b"gate "):
            while not os.path.exists(value[5:]): time.sleep(0.01)
        if value.startswith(b"bad"): raise InvalidRecordException("it is bad")
"""


@pytest.fixture
def running(gateway, tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_RINGS", "1")
    properties = {
        "record.validation.policy.class.name": "policies.Noting",
        "topics.*.record.validation.policy": "x",
        "policy.workers": 1,
        "policy.timeout.ms": 20_000,
        "trace": tmp_path / "trace",
    }
    return gateway(properties, POLICIES)


class Producer:
    """A client that sends one batch after the other to a partition."""

    def __init__(self, running, topic):
        self.topic = topic
        self.client = RawClient(running.address)

    def send(self, *contents):
        """Return the code and the text of the response for a batch."""
        request = produce_request([(self.topic, [(0, encode_batch(values(*contents)))])])
        response = produced(self.client.call(request))[self.topic, 0]
        return response.error_code, response.error_message

    def send_all(self, *contents):
        """Send a batch for each content, and read no response; return the requests."""
        requests = [
            produce_request([(self.topic, [(0, encode_batch(values(content)))])])
            for content in contents
        ]
        self.client.send(b"".join(self.client.frame(request) for request in requests))
        return requests

    def begin(self, gate):
        """Send a batch whose policy waits for a file; return the thread and its response list."""
        responses = []
        content = b"gate " + str(gate).encode()
        waiting = threading.Thread(target=lambda: responses.append(self.send(content)))
        waiting.start()
        return waiting, responses

    def __enter__(self):
        self.client.__enter__()
        # Until native threads have the connection, and the ring of the worker.
        for _ in range(200):
            assert self.send(b"first") == (0, None)
        return self

    def __exit__(self, *error):
        self.client.__exit__(*error)


def traced(tmp_path):
    return (tmp_path / "trace").read_bytes().split()


def test_each_record_is_judged_once_whatever_its_verdict(running, topic, stored, tmp_path):
    with Producer(running, topic("t")) as producer:
        for number in range(50):
            assert producer.send(b"good-%d" % number) == (0, None)
            code, text = producer.send(b"bad-%d" % number)
            assert (code, "it is bad" in text) == (87, True)
    judged = [value for value in traced(tmp_path) if value != b"first"]
    assert judged == [
        b"%s-%d" % (kind, number) for number in range(50) for kind in (b"good", b"bad")
    ]
    good = [value for value in values_of(stored(producer.topic)) if value != b"first"]
    assert good == [b"good-%d" % number for number in range(50)]


def test_a_batch_that_ends_its_worker_is_refused_and_later_batches_are_judged(
    running, topic, stored
):
    with Producer(running, topic("t")) as producer:
        code, text = producer.send(b"die")
        assert (code, "ended its process" in text) == (-1, True)
        assert producer.send(b"good") == (0, None)
    assert b"die" not in values_of(stored(producer.topic))


def test_a_slow_batch_holds_up_no_other_partition(running, topic, tmp_path):
    gate = tmp_path / "gate"
    with Producer(running, topic("slow")) as slow, Producer(running, topic("quick")) as quick:
        waiting, responses = slow.begin(gate)
        for _ in range(300):
            assert quick.send(b"good") == (0, None)
        assert not responses
        gate.touch()
        waiting.join(60)
        assert responses == [(0, None)]


def test_batches_of_a_worker_that_is_killed_are_judged_by_another(running, topic, tmp_path):
    gate = tmp_path / "gate"
    with Producer(running, topic("t")) as producer:
        waiting, responses = producer.begin(gate)
        wait_until(lambda: any(value == b"gate" for value in traced(tmp_path)))
        for pid in running.workers():
            os.kill(pid, signal.SIGKILL)
        gate.touch()
        waiting.join(60)
        assert responses == [(0, None)]
        assert producer.send(b"good") == (0, None)


def test_the_end_of_a_gateway_answers_what_is_judged(running, topic, tmp_path):
    gate = tmp_path / "gate"
    with Producer(running, topic("t")) as producer:
        waiting, responses = producer.begin(gate)
        wait_until(lambda: any(value == b"gate" for value in traced(tmp_path)))
        running.process.send_signal(signal.SIGTERM)
        gate.touch()
        waiting.join(60)
        assert responses == [(0, None)]
        assert running.stop() == 0


def test_requests_behind_a_batch_that_is_recalled_are_answered_in_order(
    running, topic, stored, tmp_path
):
    gate = tmp_path / "gate"
    contents = [b"one", b"two", b"gate " + bytes(gate), b"bad", b"three", b"four"]
    with Producer(running, topic("t")) as producer:
        requests = producer.send_all(*contents)
        wait_until(lambda: b"gate" in traced(tmp_path))
        for pid in running.workers():
            os.kill(pid, signal.SIGKILL)
        gate.touch()
        frames = [producer.client.receive() for _ in requests]
    responses = [parse_response(frame, 0, requests[0].__version__) for frame in frames]
    codes = [produced(response)[producer.topic, 0].error_code for response in responses]
    assert codes == [0, 0, 0, 87, 0, 0]
    numbers = [int.from_bytes(frame[4:8], "big") for frame in frames]
    assert numbers == list(range(numbers[0], numbers[0] + len(frames)))
    found = [value for value in values_of(stored(producer.topic)) if value != b"first"]
    assert found == [content for content in contents if content != b"bad"]


def test_a_client_that_only_stops_to_send_gets_its_response(running, topic, stored):
    with Producer(running, topic("t")) as producer:
        (request,) = producer.send_all(b"last")
        producer.client.socket.shutdown(socket.SHUT_WR)
        response = produced(producer.client.response(type(request)))[producer.topic, 0]
        assert (response.error_code, response.error_message) == (0, None)
        assert producer.client.closed()
    assert values_of(stored(producer.topic))[-1] == b"last"

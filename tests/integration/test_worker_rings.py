"""Batches that workers judge for native threads, through rings, with a real broker."""

import os
import signal
import socket
import threading

import pytest

from penstock.kafka.local import free_ports
from tests.gateways import wait_until
from tests.integration.reading import values_of
from tests.kafka.records.encoding import encode_batch, values
from tests.metrics import scrape
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
def start(gateway, tmp_path, monkeypatch):
    """Starts a gateway with native threads, or without: then without rings."""

    def start(lane="1", policies=POLICIES, **properties):
        monkeypatch.setenv("PENSTOCK_NATIVE_LANE", lane)
        given = {
            "record.validation.policy.class.name": "policies.Noting",
            "topics.*.record.validation.policy": "x",
            "policy.workers": 1,
            "policy.timeout.ms": 20_000,
            "trace": tmp_path / "trace",
            **{key.replace("_", "."): setting for key, setting in properties.items()},
        }
        return gateway(given, policies)

    return start


@pytest.fixture
def running(start):
    return start()


class Producer:
    """A client that sends one batch after the other to a partition."""

    def __init__(self, running, topic):
        self.topic = topic
        self.client = RawClient(running.address, timeout_s=120)  # a machine may be busy

    def send(self, *contents):
        """Return the code and the text of the response for a batch."""
        return self.send_each(contents)[0]

    def send_each(self, *batches):
        """Send a request with a batch for each partition; return their codes and texts."""
        partitions = [
            (number, encode_batch(values(*batch))) for number, batch in enumerate(batches)
        ]
        responses = produced(self.client.call(produce_request([(self.topic, partitions)])))
        of_partitions = (responses[self.topic, number] for number in range(len(batches)))
        return [(response.error_code, response.error_message) for response in of_partitions]

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


def test_replaced_policies_judge_the_batch_in_their_hand_and_no_later_batch(
    start, topic, stored, tmp_path
):
    running, gate = start(policy_timeout_ms=300_000), tmp_path / "gate"
    with Producer(running, topic("t")) as producer, Producer(running, topic("o")) as other:
        waiting, responses = producer.begin(gate)
        wait_until(lambda: b"gate" in traced(tmp_path))
        policies = running.file.parent / "policies.py"
        policies.write_text(POLICIES.replace("it is bad", "all is bad").replace('b"bad"', 'b""'))
        running.process.send_signal(signal.SIGHUP)
        running.wait_for("reloaded")
        code, text = other.send(b"later")
        assert (code, "all is bad" in text) == (87, True)
        assert not responses
        gate.touch()
        waiting.join(60)
        assert responses == [(0, None)]
        code, text = producer.send(b"later")
        assert (code, "all is bad" in text) == (87, True)
    assert traced(tmp_path).count(b"gate") == 1
    assert b"later" not in values_of(stored(producer.topic)) + values_of(stored(other.topic))


SHARING = """
from penstock.policy import *

class Noting(RecordValidationPolicy):
    def get_hints(self): return RecordIntrospectionHints(access_value_bytes=ALL)
    def validate(self, topic, record):
        word, _, name = bytes(record.value).decode().partition(" ")
        if word == "learn": share_value(name, b"x")
        if word == "know" and shared_value(name) is None:
            raise InvalidRecordException("it is not known")
"""


def test_a_shared_value_is_known_in_all_later_batches(start, topic):
    running = start(policy_workers=2, policies=SHARING)
    with Producer(running, topic("t", 6)) as producer:
        assert producer.send_each(*[[b"first"]] * 6) == [(0, None)] * 6
        for number in range(100):
            name = b" %d" % number
            assert producer.send(b"learn" + name) == (0, None)
            known = producer.send_each(*[[b"know" + name]] * 6)
            assert known == [(0, None)] * 6, number


def figures_of(running, port, topic):
    """Return what a gateway has counted of some traffic."""
    with Producer(running, topic) as producer:
        for number in range(30):
            assert producer.send(b"good-%d" % number, b"fine") == (0, None)
            assert producer.send(b"bad-%d" % number)[0] == 87
            codes = [code for code, _ in producer.send_each([b"good"], [b"bad", b"good"])]
            assert codes == [0, 87]
            assert producer.send_each([b"good"], [b"fine"]) == [(0, None)] * 2
        return scrape(port)


@pytest.mark.slow
def test_batches_count_the_same_with_rings_and_without(start, topic):
    name, figures = topic("t", 2), []
    for lane in ("1", "0"):
        (port,) = free_ports(1)
        running = start(lane, metrics_listener=f":{port}")
        figures.append(figures_of(running, port, name))
        assert running.stop() == 0
    through_rings, without = figures
    assert set(through_rings.families) == set(without.families)
    for counted in (
        "penstock_records_total",
        "penstock_waiting_seconds_count",
        "penstock_judging_seconds_count",
        "penstock_worker_restarts_total",
    ):
        assert through_rings.of(counted) == without.of(counted), counted
    for counted in ("penstock_requests_total", "penstock_broker_seconds_count"):
        of_both = [
            {labels: count for labels, count in each.of(counted).items() if "Produce" in labels}
            for each in figures
        ]
        assert of_both[0] == of_both[1], counted
        assert of_both[0]
    batch_count = 200 + 30 * (1 + 1 + 2 + 2)
    for part in ("waiting", "judging"):
        (count,) = through_rings.of(f"penstock_{part}_seconds_count").values()
        assert count == batch_count
        (seconds,) = through_rings.of(f"penstock_{part}_seconds_sum").values()
        assert 0 < seconds < 60


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

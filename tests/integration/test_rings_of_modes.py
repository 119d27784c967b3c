"""Classes that take a context, classes of batches and all modes through rings, with a real broker.

Each is compared with the same gateway without rings.
"""

import json

import pytest

from penstock.kafka.local import free_ports
from tests.integration.reading import values_of
from tests.kafka.records.encoding import encode_batch, values
from tests.metrics import scrape
from tests.raw import RawClient, produce_request, produced

POLICIES = """
import json, os, sys, time
from penstock.policy import *

def note(trace, content, context):
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "judge_in_ring":
        frame = frame.f_back
    is_in_ring = frame is not None
    with open(trace, "a") as lines:
        lines.write(json.dumps([content, context, is_in_ring]) + "\\n")

class Contextual(RecordValidationPolicy):
    def configure(self, configs): self.trace = configs["trace"]
    def get_hints(self): return RecordIntrospectionHints(access_value_bytes=ALL)
    def validate(self, topic, record, context):
        value = bytes(record.value).decode()
        note(self.trace, value, context)
        if value.startswith("bad"): raise InvalidRecordException("it is bad")

class Whole(RecordsPolicyWithContext):
    def configure(self, configs): self.trace = configs["trace"]
    def validate(self, topic, partition, records, context):
        found = [bytes(record.value).decode() for record in records]
        note(self.trace, found, context)
        if any(value.startswith("bad") for value in found): raise PolicyViolationException("no")
    def close(self):
        with open(self.trace + "-closed", "a") as lines: lines.write("closed\\n")
"""
CONTEXTUAL = {
    "record.validation.policy.class.name": "policies.Contextual",
    "topics.*.record.validation.policy": "x",
}
WHOLE = {
    "topics.*.records.policy.class.name": "policies.Whole",
    "topics.*.records.policy.enabled": "true",
}
CLIENTS = ["raw", None, "", "a\0b", "\u1f600 \ufffd", "x" * 32_000]


@pytest.fixture
def start(gateway, tmp_path, monkeypatch):
    """Starts a gateway with native threads and rings, or without; returns it and the port of its metrics."""

    def start(lane, properties):
        monkeypatch.setenv("PENSTOCK_NATIVE_LANE", lane)
        (port,) = free_ports(1)
        trace = tmp_path / f"trace-{lane}"
        given = {"policy.workers": 1, "trace": trace, "metrics.listener": f":{port}", **properties}
        return gateway(given, POLICIES), port, trace

    return start


class Producer:
    """A client whose requests have one batch each."""

    def __init__(self, address, topic):
        self.topic, self._client = topic, RawClient(address, timeout_s=120)

    def send(self, *contents, client_id="raw", **batch):
        """Return the code of the response for a batch."""
        return self.send_each(contents, client_id=client_id, **batch)[0]

    def send_each(self, *batches, client_id="raw", **batch):
        """Return the codes of the response for a batch for each partition."""
        partitions = [
            (number, encode_batch(values(*map(str.encode, contents)), **batch))
            for number, contents in enumerate(batches)
        ]
        call = self._client.call(produce_request([(self.topic, partitions)]), client_id)
        return [produced(call)[self.topic, number].error_code for number, _ in partitions]

    def __enter__(self):
        for _ in range(200):  # until native threads have the connection, and the workers' rings
            assert self.send("first") == 0
        return self

    def __exit__(self, *error):
        self._client.__exit__(*error)


def lines_of(trace):
    """Return what a policy has noted: values, context, and whether that was in a ring."""
    return [json.loads(line) for line in trace.read_text().splitlines()]


def judged(trace, ignored=("first", ["first"])):
    """Return values and contexts without those of the beginning, and those that were in rings."""
    lines = [line for line in lines_of(trace) if line[0] not in ignored]
    return [line[:2] for line in lines], [line[:2] for line in lines if line[2]]


def compared(start, properties, play, counted):
    """Play the same with rings and without; return what was judged in rings, and its figures."""
    of_both = []
    for rings in ("1", "0"):
        running, port, trace = start(rings, properties)
        played = play(running)
        figures = scrape(port)
        assert running.stop() == 0
        of_both.append((played, *judged(trace), figures))
    (played, found, in_rings, figures), (played_without, found_without, none, without) = of_both
    assert played == played_without
    assert found == found_without
    assert none == []
    for name in counted:
        assert figures.of(name) == without.of(name), name
    return found, in_rings, figures


COUNTED = (
    "penstock_records_total",
    "penstock_waiting_seconds_count",
    "penstock_judging_seconds_count",
    "penstock_worker_restarts_total",
)


@pytest.mark.parametrize("properties", [CONTEXTUAL, WHOLE], ids=["records", "batches"])
def test_a_class_is_given_the_same_client_through_a_ring(start, topic, stored, properties):
    name = topic("t")

    def play(running):
        with Producer(running.address, name) as producer:
            return [
                producer.send(value, "last", client_id=client_id)
                for client_id in CLIENTS
                for value in [*["good"] * 10, "bad", "fine"]
            ]

    found, in_rings, _ = compared(start, properties, play, COUNTED)
    assert {client_id for _, (_, client_id, _) in in_rings} == set(CLIENTS)
    assert {address for _, (_, _, address) in found} == {"127.0.0.1"}
    assert "bad" not in [value.decode() for value in values_of(stored(name))]


def test_an_instance_is_closed_when_its_gateway_ends(start, topic):
    running, _, trace = start("1", WHOLE)
    with Producer(running.address, topic("t")) as producer:
        assert producer.send("good") == 0
    assert running.stop() == 0
    assert (trace.parent / (trace.name + "-closed")).read_text() == "closed\n"

"""Classes that take a context, classes of batches and all modes through rings, with a real broker.

Each is compared with the same gateway without rings.
"""

import json

import pytest
from confluent_kafka.admin import AdminClient

from penstock.kafka.local import free_ports
from tests.conftest import create_topic
from tests.gateways import wait_until
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
REPLICAS = "errors.deadletterqueue.topic.replication.factor"
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


@pytest.mark.cases(1)
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


MODES = {
    mode: {**CONTEXTUAL, "penstock.mode": mode, REPLICAS: 1} for mode in ("mark", "quarantine")
}


@pytest.mark.cases(1)
@pytest.mark.parametrize("mode", sorted(MODES))
def test_batches_are_stored_as_without_rings_where_bad_records_are_not_refused(
    start, topic, stored, mode
):
    name = topic("t", 2)

    def play(running):
        with Producer(running.address, name) as producer:
            codes = []
            for number in range(8):
                codes += [producer.send(f"good {number}", "last") for _ in range(10)]
                codes.append(producer.send(f"good {number}", f"bad {number}"))
                codes += producer.send_each(["good"], ["bad", "good"])
                codes += producer.send_each(["good"], ["fine"])
            return codes

    _, in_rings, figures = compared(start, MODES[mode], play, COUNTED)
    assert sum(value.startswith("good") for value, _ in in_rings) > 30
    assert any(value.startswith("bad") for value, _ in in_rings)
    outcome = {"mark": "marked", "quarantine": "quarantined"}[mode]
    counted = figures.of("penstock_records_total").items()
    assert sum(count for labels, count in counted if outcome in labels) == 16
    bad_count = sum(value.startswith(b"bad") for value in values_of(stored(name)))
    assert bad_count == (2 * 16 if mode == "mark" else 0)


def records_counted(port):
    """Return how many records have a verdict."""
    return sum(scrape(port).of("penstock_records_total").values())


OBSERVED = {
    "all": ({**CONTEXTUAL, "penstock.mode": "observe"}, 1, [0]),
    "beside a class": (
        {
            "policies": "first,second",
            "policies.first.type": "policies.Contextual",
            "policies.second.type": "policies.Contextual",
            "policies.second.mode": "observe",
            "policies.first.trace": "",
            "policies.second.trace": "",
            "topics.*.penstock.policies": "first,second",
        },
        2,
        [87],
    ),
}


@pytest.mark.cases(1)
@pytest.mark.parametrize("case", sorted(OBSERVED))
def test_observed_batches_are_counted_as_without_rings(start, topic, stored, tmp_path, case):
    properties, policy_count, codes_of_bad = OBSERVED[case]
    name = topic("t")
    beginning = 200

    def play(running, trace):
        def have_judged(count):
            return trace.exists() and len(lines_of(trace)) >= policy_count * count

        with Producer(running.address, name) as producer:
            # The workers that observe start with the first batch.
            wait_until(lambda: have_judged(beginning))
            for _ in range(beginning):
                assert producer.send("first") == 0
            # They judge what they have from Python first.
            wait_until(lambda: have_judged(2 * beginning))
            codes = [producer.send(f"good {number}", "last") for number in range(40)]
            bad = [producer.send(f"bad {number}", client_id="a\0b") for number in range(5)]
            assert set(bad) == set(codes_of_bad)
            return codes + bad

    record_count = policy_count * (2 * beginning + 40 * 2 + 5)
    of_both = []
    for rings in ("1", "0"):
        own = {
            key: tmp_path / f"trace-{rings}" if key.endswith(".trace") else setting
            for key, setting in properties.items()
        }
        running, port, trace = start(rings, own)
        played = play(running, trace)
        wait_until(lambda port=port: records_counted(port) >= record_count)
        figures = scrape(port)
        assert running.stop() == 0
        found, in_rings = judged(trace)
        of_both.append((played, sorted(found), figures.of("penstock_records_total"),
                        figures.of("penstock_judging_seconds_count"),
                        figures.of("penstock_waiting_seconds_count")))  # fmt: skip
        assert bool(in_rings) == (rings == "1")
    assert of_both[0] == of_both[1]
    if case == "all":
        assert sum(value.startswith(b"bad") for value in values_of(stored(name))) == 2 * 5


def test_an_instance_is_closed_when_its_gateway_ends(start, topic):
    running, _, trace = start("1", WHOLE)
    with Producer(running.address, topic("t")) as producer:
        assert producer.send("good") == 0
    assert running.stop() == 0
    assert (trace.parent / (trace.name + "-closed")).read_text() == "closed\n"


def test_an_instance_of_a_topic_that_was_deleted_does_not_come_back(start, topic, admin):
    running, _, trace = start("1", WHOLE)
    name = topic("t")
    through_gateway = AdminClient({"bootstrap.servers": running.address})
    closed = trace.with_name(trace.name + "-closed")
    with Producer(running.address, name) as producer:
        for count in (1, 2):
            assert lines_of(trace)[-1][2]
            through_gateway.delete_topics([name])[name].result(60)
            wait_until(lambda: closed.exists() and closed.read_text() == "closed\n" * count)  # noqa: B023 - it is called at once
            create_topic(admin, name)
            wait_until(lambda: producer.send("later") == 0)
            for _ in range(20):
                assert producer.send("later") == 0

"""Batches in quarantine while brokers refuse batches for a time, or their responses are lost."""

import contextlib
import uuid

import pytest
from confluent_kafka import Producer

from tests.faults import Proxy
from tests.gateways import RunningGateway, gateway_port, wait_until, write_configuration
from tests.integration.reading import read_topic
from tests.refusals import CLOSED_WHEN_STORED, Rule

POLICIES = """
from penstock.policy import *
class NoBad(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if value.startswith(b"bad"): return InvalidRecordException("bad")
"""
NOT_LEADER, TIMED_OUT, TOO_FEW_REPLICAS, TOO_FEW_AFTER_APPEND = 6, 7, 19, 20
SETTINGS = {"enable.idempotence": True, "batch.num.messages": 2, "linger.ms": 60_000,
            "retry.backoff.ms": 20, "topic.metadata.refresh.fast.interval.ms": 20,
            "log_level": 0}  # fmt: skip


@contextlib.contextmanager
def quarantining(kafka, tmp_path):
    """Run a gateway in quarantine behind a proxy of the broker; both are stopped at the end."""
    with Proxy(kafka.bootstrap_servers) as proxy:
        properties = {"record.validator.classes": "policies.NoBad", "penstock.mode": "quarantine",
                      "errors.deadletterqueue.topic.replication.factor": "1"}  # fmt: skip
        file = write_configuration(tmp_path, proxy.address, gateway_port(), properties, POLICIES)
        running = RunningGateway(file)
        try:
            yield proxy, running
        finally:
            assert running.stop() == 0


@pytest.mark.cases(1)
@pytest.mark.parametrize("code", [NOT_LEADER, TOO_FEW_REPLICAS])
def test_a_letter_behind_a_retried_batch_is_stored_once(kafka, topic, tmp_path, code):
    """If librdkafka sent its batch again in a new epoch, the letter would have another id."""
    name, token = topic("letters"), uuid.uuid4().hex[:8]
    batches = [["keep-1", "keep-2"], ["bad-3", "keep-4"], ["keep-5", "bad-6"]]
    batches = [[f"{value}-{token}".encode() for value in batch] for batch in batches]
    errors = []
    with quarantining(kafka, tmp_path) as (proxy, running):
        producer = Producer({"bootstrap.servers": running.address, **SETTINGS})
        for value in (b"keep-0", b"bad-0"):
            producer.produce(name, value, partition=0)
        assert producer.flush(60) == 0
        refusal = proxy.refuse(batches[0][0], Rule(code))
        for value in [value for batch in batches for value in batch]:
            producer.produce(
                name, value, partition=0, on_delivery=lambda error, _: errors.append(error)
            )
        refusal.wait()
        # Each batch, and the dead letters of two of them, which may be in a single request.
        sent = [value for batch in batches for value in batch]
        wait_until(lambda: all(map(proxy.produced, sent)), what="all to be in flight")
        refusal.open()
        assert producer.flush(60) == 0
    assert errors == [None] * 6
    stored = [value for _, _, value, _ in read_topic(kafka.bootstrap_servers, name)]
    assert stored == [b"keep-0", *(batches[0]), batches[1][1], batches[2][0]]
    letters = [value for _, _, value, _ in read_topic(kafka.bootstrap_servers, f"{name}.dead")]
    assert sorted(letters) == sorted([b"bad-0", batches[1][0], batches[2][1]])


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "rule",
    [
        CLOSED_WHEN_STORED,
        Rule(NOT_LEADER, stored=True),
        Rule(TIMED_OUT, stored=True),
        Rule(TOO_FEW_AFTER_APPEND, stored=True),
    ],
    ids=["closed", "not leader", "timed out", "too few replicas"],
)
def test_a_letter_whose_broker_stored_it_without_saying_so_is_stored_once(
    kafka, topic, tmp_path, rule
):
    name, token = topic("lost"), uuid.uuid4().hex[:8]
    values = [f"{value}-{token}".encode() for value in ("keep-1", "bad-2", "keep-3", "bad-4")]
    errors = []
    with quarantining(kafka, tmp_path) as (proxy, running):
        refusal = proxy.refuse(values[1], rule)
        refusal.open()
        producer = Producer({"bootstrap.servers": running.address, **SETTINGS})
        for value in values:
            producer.produce(
                name, value, partition=0, on_delivery=lambda error, _: errors.append(error)
            )
        assert producer.flush(60) == 0
        refusal.wait()
    assert errors == [None] * 4
    stored = [value for _, _, value, _ in read_topic(kafka.bootstrap_servers, name)]
    assert stored == [values[0], values[2]]
    letters = [value for _, _, value, _ in read_topic(kafka.bootstrap_servers, f"{name}.dead")]
    assert letters == [values[1], values[3]]

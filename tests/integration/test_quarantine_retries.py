"""Batches in quarantine behind a batch that the broker refuses for a time."""

import uuid

import pytest
from confluent_kafka import Producer

from penstock.local import free_ports
from tests.faults import Proxy
from tests.gateways import RunningGateway, wait_until, write_configuration
from tests.integration.reading import read_topic
from tests.refusals import Rule

POLICIES = """
from penstock.policy import *
class NoBad(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if value.startswith(b"bad"): return InvalidRecordException("bad")
"""
NOT_LEADER, TOO_FEW_REPLICAS = 6, 19
SETTINGS = {"enable.idempotence": True, "batch.num.messages": 2, "linger.ms": 300,
            "retry.backoff.ms": 20, "topic.metadata.refresh.fast.interval.ms": 20,
            "log_level": 0}  # fmt: skip


@pytest.mark.parametrize("code", [NOT_LEADER, TOO_FEW_REPLICAS])
def test_a_letter_behind_a_retried_batch_is_stored_once(kafka, topic, tmp_path, code):
    """If librdkafka sent its batch again in a new epoch, the letter would have another id."""
    name, token = topic("letters"), uuid.uuid4().hex[:8]
    batches = [["keep-1", "keep-2"], ["bad-3", "keep-4"], ["keep-5", "bad-6"]]
    batches = [[f"{value}-{token}".encode() for value in batch] for batch in batches]
    errors = []
    with Proxy(kafka.bootstrap_servers) as proxy:
        properties = {"record.validator.classes": "policies.NoBad", "penstock.mode": "quarantine",
                      "errors.deadletterqueue.topic.replication.factor": "1"}  # fmt: skip
        file = write_configuration(tmp_path, proxy.address, free_ports(3)[0], properties, POLICIES)
        running = RunningGateway(file)
        try:
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
        finally:
            assert running.stop() == 0
    assert errors == [None] * 6
    stored = [value for _, _, value, _ in read_topic(kafka.bootstrap_servers, name)]
    assert stored == [b"keep-0", *(batches[0]), batches[1][1], batches[2][0]]
    letters = [value for _, _, value, _ in read_topic(kafka.bootstrap_servers, f"{name}.dead")]
    assert sorted(letters) == sorted([b"bad-0", batches[1][0], batches[2][1]])

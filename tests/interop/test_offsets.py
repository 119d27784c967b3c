"""The offsets that producers conclude where records were removed: none is too high."""

import pytest
from confluent_kafka import Producer

from tests.integration.reading import read_topic

POLICIES = """
from penstock.policy import *
class NoBad(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if value.startswith(b"bad"): return InvalidRecordException("bad is not good")
class DropsBad(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return "."
    def process_record(self, key, value, topic, partition, headers):
        if value.startswith(b"bad"): raise ProduceRequestInterceptorSkipRecordException()
        return ProduceRequestInterceptorResult(key, value)
"""
REMOVING = {
    "quarantine": {
        "record.validator.classes": "policies.NoBad",
        "penstock.mode": "quarantine",
        "errors.deadletterqueue.topic.replication.factor": 1,
    },
    "interceptor": {"produce.request.interceptors": "policies.DropsBad"},
}
BATCHES = [
    ["bad-1", "bad-2", "bad-3", "good-4"],
    ["good-5", "good-6"],
    ["good-7", "bad-8", "good-9", "bad-10", "bad-11"],
    ["bad-12"],
    ["bad-13", "good-14"],
    ["good-15", "good-16", "good-17"],
]


def by_java(address, topic, java_client):
    given = "/".join(" ".join(batch) for batch in BATCHES).replace("/", " / ").split()
    lines = java_client("offsets", address, topic, *given)
    values = [value for batch in BATCHES for value in batch]
    return dict(zip(values, (max(int(line[0]), -1) for line in lines), strict=True))


def by_librdkafka(address, topic, _):
    settings = {"bootstrap.servers": address, "linger.ms": 60_000, "enable.idempotence": True}
    producer, concluded, errors = Producer(settings), {}, []

    def on_delivery(error, message):
        if error:
            errors.append(error)
        # The binding has None for a negative offset.
        concluded[message.value().decode()] = -1 if message.offset() is None else message.offset()

    for batch in BATCHES:
        for value in batch:
            producer.produce(topic, value, partition=0, on_delivery=on_delivery)
        assert producer.flush(60) == 0
    assert errors == []
    return concluded


@pytest.mark.cases(2)
@pytest.mark.parametrize("produce", [by_java, by_librdkafka])
@pytest.mark.parametrize("mode", REMOVING)
def test_no_concluded_offset_is_higher_than_the_offset_of_the_record(
    shared_gateway, topic, java_client, kafka, mode, produce
):
    name = topic()
    running = shared_gateway(REMOVING[mode], POLICIES)

    concluded = produce(running.address, name, java_client)

    found = read_topic(kafka.bootstrap_servers, name, full=True)
    real = {message.value().decode(): message.offset() for message in found}
    assert list(real) == [value for batch in BATCHES for value in batch if "good" in value]
    for batch in BATCHES:
        stored = [value for value in batch if value in real]
        base = real[stored[-1]] - (len(batch) - 1) if stored else -1
        is_unknown = base == -1 and (produce is by_java or not stored)
        offsets = [-1 if is_unknown else max(base + at, -1) for at in range(len(batch))]
        assert [concluded[value] for value in batch] == offsets
        assert all(concluded[value] <= real[value] for value in stored)
    assert concluded["good-5"] == real["good-5"], "nothing was removed"

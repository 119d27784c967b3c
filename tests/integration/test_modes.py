"""`penstock.mode` at work: what becomes of a bad record."""

import pytest
from confluent_kafka import Producer

from penstock.local import free_ports
from tests.integration.reading import read_topic
from tests.metrics import scrape
from tests.raw import RawClient, produce_request
from tests.records.encoding import encode_batch, values

pytestmark = pytest.mark.system

POLICIES = """
from penstock.policy import *

class Check(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if value == b"fail":
            raise ZeroDivisionError
        return InvalidRecordException("it is bad") if value.startswith(b"bad") else None
"""
CHECK = {"record.validator.classes": "policies.Check"}
WHY = [
    ("__mark.errors.policy", b"policies.Check"),
    ("__mark.errors.code", b"87"),
    ("__mark.errors.message", b"it is bad"),
]


@pytest.fixture
def measured(gateway):
    """Starts gateways with metrics; returns them with the port."""

    def start(properties):
        port = free_ports(1)[0]
        return gateway({**CHECK, "metrics.listener": f":{port}", **properties}, POLICIES), port

    return start


def outcomes(port, topic):
    found = scrape(port).of("penstock_records_total")
    return {outcome: n for (name, _, outcome), n in found.items() if name == topic and n}


def produce(client, topic, batch, **options):
    response = client.call(produce_request([(topic, [(0, batch)])], **options))
    (one,) = response.responses[0].partition_responses
    return int(one.error_code), one.base_offset


def test_bad_records_are_stored_with_marks(measured, topic, kafka):
    running, port = measured({"penstock.mode": "mark"})
    name = topic()
    with RawClient(running.broker_address()) as client:
        assert produce(client, name, encode_batch(values(b"a", b"bad", b"b"))) == (0, 0)
        assert produce(client, name, encode_batch(values(b"c"))) == (0, 3)
        assert produce(client, name, encode_batch(values(b"fail"))) == (-1, -1)

    stored = read_topic(kafka.bootstrap_servers, name)
    assert [(value, headers) for _, _, value, headers in stored] == [
        (b"a", []), (b"bad", WHY), (b"b", []), (b"c", []),
    ]  # fmt: skip
    assert outcomes(port, name) == {"accepted": 3, "marked": 1, "failed": 1}
    (line,) = running.wait_for("records marked")
    assert (line["topic"], line["policy"], line["message"]) == (name, "policies.Check", "it is bad")
    assert not running.events("records refused")


@pytest.mark.parametrize("transactional", [False, True])
def test_producers_go_on_and_nothing_is_stored_twice(measured, topic, kafka, transactional):
    running, _ = measured({"penstock.mode": "mark"})
    name = topic()
    more = {"transactional.id": name} if transactional else {}
    producer = Producer({
        "bootstrap.servers": running.address, "enable.idempotence": True, "linger.ms": 1, **more,
    })  # fmt: skip
    if transactional:
        producer.init_transactions(60)
        producer.begin_transaction()
    sent = [b"bad %d" % n if n % 3 == 0 else b"%d" % n for n in range(2000)]
    for value in sent:
        producer.produce(name, value)
        producer.poll(0)
    assert producer.flush(60) == 0
    if transactional:
        producer.commit_transaction(60)

    stored = read_topic(kafka.bootstrap_servers, name)
    assert [value for _, _, value, _ in stored] == sent
    assert all(
        headers == (WHY if value.startswith(b"bad") else []) for _, _, value, headers in stored
    )


def test_a_batch_that_comes_again_is_the_same_one(measured, topic, kafka):
    running, _ = measured({"penstock.mode": "mark"})
    name = topic()
    batch = encode_batch(values(b"bad", b"a"), producer_id=4711, producer_epoch=0, base_sequence=0)
    with RawClient(running.broker_address()) as client:
        assert [produce(client, name, batch) for _ in range(3)] == [(0, 0)] * 3
    assert len(read_topic(kafka.bootstrap_servers, name)) == 2

"""A policy that cannot decide now, with a gateway, a broker and real producers."""

import json
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.reading import read_topic, values_of
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import RawClient, produce_request, produced

POLICIES = """
from pathlib import Path
from penstock.policy import *

ANSWERS = Path(__file__).with_name("answers")

def ask():
    if not ANSWERS.exists():
        raise RetriableException("the registry is away")

class Validator(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if value != b"free":
            ask()

class Validation(RecordValidationPolicy):
    def validate_batch(self, topic, batch):
        ask()
        return ()

class Batch(RecordsPolicy):
    def validate(self, topic, partition, records):
        ask()

class Interceptor(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self):
        return "."
    def process_record(self, key, value, topic, partition, headers):
        ask()
        if value == b"dropped":
            raise ProduceRequestInterceptorSkipRecordException
        return ProduceRequestInterceptorResult(key, value)

class Creation(CreateTopicPolicy):
    def validate(self, request):
        ask()
"""
KINDS = {
    "729": {"record.validator.classes": "policies.Validator"},
    "940": {
        "record.validation.policy.class.name": "policies.Validation",
        "topics.*.record.validation.policy": "x",
    },
    "686": {
        "topics.*.records.policy.class.name": "policies.Batch",
        "topics.*.records.policy.enabled": "true",
    },
    "905": {"produce.request.interceptors": "policies.Interceptor"},
}
COUNT = 300


def start_responses(*folders: Path) -> None:
    """Let the registry respond to the gateways of these folders from now on."""
    for folder in folders:
        (folder / "answers").touch()


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("kind", "transactional"), [*((kind, False) for kind in KINDS), ("729", True), ("905", True)]
)
def test_an_idempotent_producer_stores_each_record_once_and_in_order(
    gateway, topic, kafka, tmp_path, kind, transactional
):
    name = topic()
    running = gateway(KINDS[kind], POLICIES)
    settings = {"transactional.id": name} if transactional else {}
    failed = []
    producer = Producer({
        "bootstrap.servers": running.address, "enable.idempotence": True, "linger.ms": 0,
        "batch.num.messages": 10, "retry.backoff.ms": 20, "retry.backoff.max.ms": 100, **settings,
    })  # fmt: skip
    if transactional:
        producer.init_transactions(60)
        producer.begin_transaction()
    for number in range(COUNT):
        producer.produce(name, b"%d" % number, on_delivery=lambda error, _: failed.append(error))
    # Some batches get an error, and are retried, before the first batch can be stored.
    running.wait_for("records postponed", 4, timeout_s=60)
    start_responses(*tmp_path.glob("gateway-*"))
    assert producer.flush(60) == 0
    if transactional:
        producer.commit_transaction(60)

    assert failed == [None] * COUNT
    found = values_of(read_topic(kafka.bootstrap_servers, name))
    assert found == [b"%d" % number for number in range(COUNT)]
    event = running.events("records postponed")[0]
    assert (event["topic"], event["code"]) == (name, 7)
    assert event["message"] == "the registry is away"
    assert event["policy"].startswith("policies.")
    assert running.events("policy failed") == []


@pytest.fixture(params=["no interceptors", "interceptors of a third gateway"])
def two_gateways(request, gateway):
    """Two with a validator. The third one announces its interceptors to them."""
    if request.param != "no interceptors":
        gateway(KINDS["905"], POLICIES)
    return [gateway(KINDS["729"], POLICIES) for _ in range(2)]


@pytest.mark.cases(1)
def test_batches_stored_through_another_gateway_delay_no_batch(
    two_gateways, topic, kafka, tmp_path
):
    name = topic()
    first, other = two_gateways

    def send(address, sequence, *found):
        data = encode_batch(values(*found), producer_id=4711, producer_epoch=0,
                            base_sequence=sequence)  # fmt: skip
        with RawClient(address) as client:
            response = produced(client.call(produce_request([(name, [(0, data)])])))[name, 0]
        return response.error_code, response.error_message

    assert send(first.address, 0, b"1", b"2") == (7, "the registry is away")
    start_responses(*tmp_path.glob("gateway-*"))
    assert send(other.address, 0, b"1", b"2") == (0, None)
    assert send(first.address, 2, b"3") == (0, None)
    stored = read_topic(kafka.bootstrap_servers, name)
    assert values_of(stored) == [b"1", b"2", b"3"]


@pytest.mark.cases(1)
def test_batches_stored_through_another_gateway_delay_no_batch_of_the_same_connection(
    request, two_gateways, topic, kafka, tmp_path
):
    """A leader moves to another broker and back, and the client keeps its connection."""
    name, running = topic(), two_gateways
    # While interceptors change, gateways know all that others have decided, as a broker would.
    knows_all = request.node.callspec.params["two_gateways"] != "no interceptors"
    with RawClient(running[0].address) as first, RawClient(running[1].address) as second:

        def send(client, sequence, value):
            data = encode_batch(values(value), producer_id=4711, producer_epoch=0,
                                base_sequence=sequence)  # fmt: skip
            return produced(client.call(produce_request([(name, [(0, data)])])))[name, 0].error_code

        assert [send(first, number, b"%d" % number) for number in range(3)] == [7, 7, 7]
        start_responses(*tmp_path.glob("gateway-*"))
        assert [send(second, number, b"%d" % number) for number in range(4)] == [0, 0, 0, 0]
        assert send(first, 5, b"5") == (45 if knows_all else 7), "there would be a gap"
        assert [send(first, number, b"%d" % number) for number in (3, 4, 5, 4)] == [0, 0, 0, 0]
        assert send(second, 6, b"6") == 0
    stored = values_of(read_topic(kafka.bootstrap_servers, name))
    assert stored == [b"%d" % number for number in range(7)]


def test_other_partitions_are_stored_while_a_partition_waits(gateway, topic, kafka):
    name = topic(partitions=2)
    running = gateway(KINDS["729"], POLICIES)
    batches = [(name, [(0, encode_batch(values(b"free", b"held"))),
                     (1, encode_batch(values(b"free")))])]  # fmt: skip
    with RawClient(running.address) as client:
        found = produced(client.call(produce_request(batches)))
    assert (found[name, 0].error_code, found[name, 0].error_message) == (7, "the registry is away")
    assert list(found[name, 0].record_errors) == []
    assert found[name, 1].error_code == 0
    assert [(p, v) for p, _, v, _ in read_topic(kafka.bootstrap_servers, name)] == [(1, b"free")]
    assert "held" not in json.dumps(running.events("records postponed"))


def test_a_topic_is_created_when_the_policy_can_decide(gateway, topic, tmp_path):
    running = gateway({"create.topic.policy.class.name": "policies.Creation"}, POLICIES)
    admin = AdminClient({"bootstrap.servers": running.address})
    name = topic() + "-new"
    with pytest.raises(KafkaException) as raised:
        admin.create_topics([NewTopic(name, 1)])[name].result(30)
    assert raised.value.args[0].code() == 7
    assert raised.value.args[0].str() == "the registry is away"
    running.wait_for("topic postponed")
    start_responses(*tmp_path.glob("gateway-*"))
    admin.create_topics([NewTopic(name, 1)])[name].result(30)

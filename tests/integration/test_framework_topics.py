"""Topics of frameworks, against a real broker: none of their records is set aside or dropped."""

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from penstock.gateway.produce.lookups.cleanup_policies import REFRESH_S
from tests.conftest import create_topic, delete_topic
from tests.gateways import run_penstock, wait_until
from tests.integration.reading import values_of
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import RawClient, produce_request, produced

POLICIES = """
from penstock.policy import *
class Validator(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        return InvalidRecordException("not good") if value == b"bad" else None
class Drops(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return "."
    def process_record(self, key, value, topic, partition, headers):
        if value == b"drop": raise ProduceRequestInterceptorSkipRecordException()
        return ProduceRequestInterceptorResult(key, value)
"""
FILE = {
    "record.validator.classes": "policies.Validator",
    "produce.request.interceptors": "policies.Drops",
    "penstock.mode": "quarantine",
    "errors.deadletterqueue.topic.replication.factor": "1",
}
ALLOWED = {"penstock.quarantine.internal.topics": "true"}


@pytest.fixture
def changelog(topic, admin):
    """A topic that is named as Kafka Streams names its own."""
    name = f"{topic()}-changelog"
    create_topic(admin, name, 1)
    yield name
    delete_topic(admin, name)


def send(running, topic, *contents):
    """Send a batch; return the partition's response."""
    batch = encode_batch(values(*contents))
    with RawClient(running.address) as client:
        return produced(client.call(produce_request([(topic, [(0, batch)])])))[topic, 0]


def code(error):
    return error.code() if error else 0


def alter(address, topic, key, value):
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": address})
    admin.incremental_alter_configs([resource])[resource].result(60)


def compact(address, topic, value="compact"):
    alter(address, topic, "cleanup.policy", value)


def test_no_record_of_a_topic_of_a_framework_is_lost(kafka, gateway, topic, changelog, stored):
    plain, table = topic(), topic()
    compact(kafka.bootstrap_servers, table)
    running = gateway(FILE, POLICIES)
    for bad in (b"bad", b"drop"):
        assert send(running, plain, b"good", bad).error_code == 0
        for name, reason in ((table, "is compacted"), (changelog, "as frameworks name")):
            response = send(running, name, b"good", bad)
            assert response.error_code == 87
            [error] = response.record_errors
            assert error.batch_index == 1
            assert (
                f"Topic {name} {'is' if 'is' in reason else 'is named'}"
                in error.batch_index_error_message
            )
            assert reason in error.batch_index_error_message
            assert "penstock.quarantine.internal.topics" in error.batch_index_error_message
    for name in (plain, table, changelog):
        assert send(running, name, b"good").error_code == 0
    assert values_of(stored(plain)) == [b"good"] * 3
    assert values_of(stored(table)) == values_of(stored(changelog)) == [b"good"]
    named = [
        line["topic"]
        for line in running.events("a topic of a framework loses no records: batches are refused")
    ]
    assert sorted(named) == sorted([table, changelog])

    done = run_penstock("check", "--connect", running.file)
    assert f"topic {table}, compacted: bad records are refused" in done.stdout
    assert f"topic {changelog}, named as those of frameworks: bad records" in done.stdout
    assert f"topic {plain}, compacted" not in done.stdout
    assert f"topic {plain}, named" not in done.stdout
    assert "named *-changelog, *-repartition, connect-*, mm2-*, *.internal" in done.stdout


@pytest.mark.cases(1)
@pytest.mark.parametrize("by", ["file", "topic", "key"])
def test_a_topic_that_is_meant_loses_records(gateway, topic, changelog, stored, by):
    file = FILE | (ALLOWED if by == "key" else {})
    if by == "file":
        file |= {f"topics.{changelog}.penstock.mode": "quarantine"}
    running = gateway({**file, "topic.settings.topic": f"settings-{changelog}"}, POLICIES)
    if by == "topic":
        alter(running.address, changelog, "penstock.mode", "quarantine")
    assert send(running, changelog, b"good", b"bad").error_code == 0
    assert values_of(stored(changelog)) == [b"good"]
    assert values_of(stored(f"{changelog}.dead")) == [b"bad"]


def test_a_topic_that_is_altered_through_the_gateway_loses_no_records_from_then_on(
    gateway, topic, stored
):
    name = topic()
    running = gateway({**FILE, "topic.settings.topic": f"settings-{name}"}, POLICIES)
    assert send(running, name, b"bad").error_code == 0
    compact(running.address, name)
    assert send(running, name, b"bad").error_code == 87
    compact(running.address, name, "delete")
    assert send(running, name, b"bad").error_code == 0


@pytest.mark.cases(1)
@pytest.mark.parametrize("bad", [b"bad", b"drop"])
def test_a_transaction_with_a_record_that_would_be_lost_aborts(
    gateway, topic, changelog, stored, bad
):
    """As Kafka Streams with exactly-once: a change and its result are both there, or neither."""
    result = topic()
    running = gateway(FILE, POLICIES)
    producer = Producer({"bootstrap.servers": running.address, "transactional.id": changelog})
    producer.init_transactions(60)

    def transaction(change):
        codes = []
        producer.begin_transaction()
        producer.produce(result, change)
        producer.produce(changelog, change, on_delivery=lambda error, _: codes.append(code(error)))
        producer.flush(60)
        return codes

    assert transaction(b"1") == [0]
    producer.commit_transaction(60)
    assert transaction(bad) == [87]
    with pytest.raises(KafkaException) as failure:
        producer.commit_transaction(60)
    assert failure.value.args[0].txn_requires_abort()
    producer.abort_transaction(60)
    if transaction(b"2") != [0]:
        # librdkafka may have to begin a new epoch first.
        producer.abort_transaction(60)
        assert transaction(b"2") == [0]
    producer.commit_transaction(60)
    for name in (changelog, result):
        assert values_of(stored(name, isolation="read_committed")) == [b"1", b"2"]


@pytest.mark.thorough
@pytest.mark.slow
def test_a_topic_that_is_altered_elsewhere_loses_no_records_soon(kafka, gateway, topic):
    name = topic()
    running = gateway(FILE, POLICIES)
    assert send(running, name, b"bad").error_code == 0
    compact(kafka.bootstrap_servers, name)
    wait_until(
        lambda: send(running, name, b"bad").error_code == 87,
        timeout_s=REFRESH_S + 60,
        what="the gateway to read it",
    )

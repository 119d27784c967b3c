"""`SchemaPolicy` with a gateway, a broker, a schema registry and Confluent's serializers."""

import json
import re
import signal
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.gateways import wait_until
from tests.integration.reading import read_topic, values_of
from tests.integration.registered import (
    JSON_ORDER,
    SECRET,
    VALIDATION,
    call,
    order,
    produce_and_error,
    settings,
    text_of,
)
from tests.kafka.records.encoding import encode_batch, values
from tests.policies.schema_policy.fake_registry import FakeRegistry, Fault
from tests.policies.schema_policy.orders import CONTRACT, ORDER, ORDER_2, avro, framed
from tests.raw import RawClient, errors, produce_request


@pytest.fixture
def registry():
    with FakeRegistry() as started:
        yield started


def producer_of(running, **more):
    return Producer({
        "bootstrap.servers": running.address, "enable.idempotence": True, "linger.ms": 0,
        "batch.num.messages": 10, "retry.backoff.ms": 20, "retry.backoff.max.ms": 100,
        **{key.replace("_", "."): value for key, value in more.items()},
    })  # fmt: skip


def send(producer, topic, sent, partition=0):
    """Produce without waiting; return a list that will hold the errors, or None, in order."""
    found = []
    for value in sent:
        producer.produce(
            topic, value, partition=partition, on_delivery=lambda error, _: found.append(error)
        )
    return found


def of_order(*message):
    """Return the class of a message of a .proto file: `shop.First`, `shop.Order`."""
    file = descriptor_pb2.FileDescriptorProto(name="o.proto", package="shop", syntax="proto3")
    for name in ("First", "Order"):
        added = file.message_type.add(name=name)
        added.field.add(name="id", number=1, type=3, label=1)
        added.field.add(name="note", number=2, type=9, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(".".join(message)))


def avro_serializer(client, conf):
    serializer = AvroSerializer(client, text_of(ORDER), conf=conf)
    return serializer, lambda number: {"id": number, "note": SECRET}


def json_serializer(client, conf):
    return JSONSerializer(text_of(JSON_ORDER), client, conf=conf), lambda number: {"id": number}


def protobuf_serializer(client, conf):
    message = of_order("shop", "Order")
    return ProtobufSerializer(message, client, conf=conf), lambda n: message(id=n, note=SECRET)


def cut(value):
    return value[:-1]


def as_text(value):
    return value[: value.index(b"{")] + b'{"id": "4111-1111"}'


def with_field_7(value):
    return value + b"\x3a\x09" + SECRET.encode()


KINDS = {
    "avro": (avro_serializer, cut, "Avro: ends before the field note does"),
    "json": (json_serializer, as_text, "at /id must be of type integer"),
    "protobuf": (protobuf_serializer, with_field_7, "Protobuf: unknown field 7 in shop.Order"),
}


@pytest.mark.cases(2)
@pytest.mark.parametrize("in_header", [False, True], ids=["prefix", "header"])
@pytest.mark.parametrize("kind", KINDS)
def test_output_of_serializers_is_stored_and_other_values_are_refused(
    gateway, topic, kafka, registry, kind, in_header
):
    make, spoil, why = KINDS[kind]
    name = topic("judged", 2)
    registry.register("other", '"string"')  # so that ids and versions differ
    running = gateway(settings(registry))
    conf = {"schema.id.serializer": header_schema_id_serializer} if in_header else None
    with SchemaRegistryClient({"url": registry.url}) as client:
        serializer, document = make(client, conf)
        sent = []
        for number in range(1, 8):
            headers = []
            context = SerializationContext(name, MessageField.VALUE, headers)
            sent.append((serializer(document(number), context), headers))

    # One batch: a bad record in the middle, and good records after it.
    producer = producer_of(running, linger_ms=60_000, batch_num_messages=100)
    delivered = []
    for position, (value, headers) in enumerate(sent):
        producer.produce(
            name,
            spoil(value) if position == 3 else value,
            headers=headers,
            partition=0,
            on_delivery=lambda error, _: delivered.append(error.code() if error else 0),
        )
    elsewhere = []
    for value, headers in sent:
        producer.produce(
            name,
            value,
            headers=headers,
            partition=1,
            on_delivery=lambda error, _: elsewhere.append(error),
        )
    assert producer.flush(60) == 0

    assert delivered == [KafkaError.INVALID_RECORD] * 7
    assert elsewhere == [None] * 7
    found = [(p, value, headers) for p, _, value, headers in read_topic(running.address, name)]
    assert found == [(1, value, [tuple(header) for header in headers]) for value, headers in sent]
    (event,) = running.wait_for("records refused")
    assert event["topic"] == name
    assert f"the value does not fit schema {name}-value version 1 (id 2): {why}" in str(event)
    assert SECRET not in json.dumps(running.log)


def test_each_bad_record_has_its_text(gateway, topic, stored, registry):
    name = topic("judged", 2)
    registry.register("other", '"string"')
    schema_id = registry.register(f"{name}-value", text_of(ORDER))
    running = gateway(settings(registry))
    batch = encode_batch(
        values(
            order(schema_id),
            order(schema_id)[:-1],
            b"{}",
            order(schema_id),
            order(77),
            order(1),
            None,
        )
    )

    answers = call(running, name, {0: batch, 1: encode_batch(values(order(schema_id)))})

    assert {index: answer.error_code for index, answer in answers.items()} == {0: 87, 1: 0}
    schema = f"schema {name}-value version 1 (id 2)"
    assert errors(answers[0]) == [
        (1, f"the value does not fit {schema}: Avro: ends before the field note does"),
        (2, "the value does not begin with a schema id (its first byte is neither 0 nor 1)"),
        (4, "the value has schema id 77, which the registry does not know"),
        (5, f"the value has schema id 1, which is not under subject {name}-value"),
    ]
    assert SECRET not in str(answers[0].error_message)
    assert [partition for partition, *_ in stored(name)] == [1]


def test_without_a_registry_new_ids_wait_and_known_ids_are_judged(gateway, topic, stored, registry):
    name = topic("judged", 2)
    schema_id = registry.register(f"{name}-value", text_of(ORDER))
    running = gateway(settings(registry))
    assert produce_and_error(running, name, order(schema_id)) == (0, None)

    registry.goes_away()
    two = registry.register(f"{name}-value", text_of(ORDER_2))
    new = [framed(two, avro({"id": number, "to": "x"}, ORDER_2)) for number in range(200)]
    producer = producer_of(running)
    waiting = send(producer, name, new)
    event = running.wait_for("records postponed", 3)[0]
    assert (event["topic"], event["code"]) == (name, 7)
    away = "schema 2 cannot be looked up: .*Connection (refused|reset by peer)"
    assert re.search(away, event["message"])
    known = [order(schema_id, number) for number in range(50)]
    other = producer_of(running)
    going_on = send(other, name, known, partition=1)
    assert other.flush(60) == 0
    assert going_on == [None] * 50
    producer.poll(0)
    assert waiting == []

    registry.comes_back()
    assert producer.flush(60) == 0
    assert waiting == [None] * 200
    found = stored(name)
    assert [value for p, _, value, _ in found if p == 0] == [order(schema_id), *new]
    assert [value for p, _, value, _ in found if p == 1] == known
    assert running.events("policy worker died") == []


@pytest.mark.slow
def test_an_unavailable_registry_at_the_start_delays_no_other_topic(
    gateway, topic, stored, registry
):
    judged, other = topic("judged"), topic("other")
    schema_id = registry.register(f"{judged}-value", text_of(ORDER))
    registry.goes_away()
    # A topic that the file names by its whole name is prepared at the start.
    running = gateway(settings(registry) | {f"topics.{judged}.{VALIDATION}": "true"})
    assert produce_and_error(running, other, b"anything") == (0, None)
    producer = producer_of(running)
    sent = [order(schema_id, number) for number in range(50)]
    found = send(producer, judged, sent)
    running.wait_for("records postponed")
    assert stored(judged) == []

    registry.comes_back()
    assert producer.flush(60) == 0
    assert found == [None] * 50
    assert values_of(stored(judged)) == sent


def alter(admin, topic, key, value):
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(60)


def test_topic_configs_enable_the_policy(gateway, topic, registry):
    name = topic("plain")
    schema_id = registry.register(f"{name}-value", text_of(ORDER))
    running = gateway(settings(registry))
    admin = AdminClient({"bootstrap.servers": running.address})
    resource = ConfigResource(ResourceType.TOPIC, name)

    def described():
        return {
            key: (found.value, found.is_default)
            for key, found in admin.describe_configs([resource])[resource].result(60).items()
        }

    assert described()[VALIDATION] == ("false", True)
    assert produce_and_error(running, name, b"anything") == (0, None)
    alter(admin, name, VALIDATION, "true")
    assert described()[VALIDATION] == ("true", False)
    assert described()["schema.validation.level"] == ("payload", True)
    assert produce_and_error(running, name, b"anything")[0] == 87
    assert produce_and_error(running, name, order(schema_id)) == (0, None)
    assert produce_and_error(running, name, order(schema_id) + b"x")[0] == 87
    alter(admin, name, "schema.validation.level", "id")
    assert produce_and_error(running, name, order(schema_id) + b"x") == (0, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (VALIDATION, "yes", "Expected value to be either true or false"),
        ("schema.validation.level", "all", "String must be one of: id, payload, rules"),
        ("schema.id.location", "body", "String must be one of: any, prefix, header"),
        ("schema.versions", "3", "String must be one of: any, latest"),
        ("confluent.value.subject.name.strategy", "com.example.Mine", "String must be one of: "),
    ],
)
def test_invalid_configs_are_refused(gateway, topic, registry, key, value, why):
    name = topic("plain")
    admin = AdminClient({"bootstrap.servers": gateway(settings(registry)).address})
    with pytest.raises(KafkaException) as raised:
        alter(admin, name, key, value)
    error = raised.value.args[0]
    assert error.code() == KafkaError.INVALID_CONFIG
    assert error.str().startswith(f"Invalid value {value} for configuration {key}: {why}")
    resource = ConfigResource(ResourceType.TOPIC, name)
    assert admin.describe_configs([resource])[resource].result(60)[key].is_default


def test_conditions_of_a_data_contract_are_enforced(gateway, topic, stored, registry):
    name = topic("judged")
    schema_id = registry.register(f"{name}-value", text_of(ORDER), rule_set=CONTRACT)
    level = {f"topics.{name}.schema.validation.level": "rules"}
    running = gateway(settings(registry) | level)
    assert produce_and_error(running, name, order(schema_id, 1)) == (0, None)
    code, text = produce_and_error(running, name, order(schema_id, 0))
    assert code == 87
    assert text == (
        f"the value does not fit schema {name}-value version 1 (id 1): "
        'rule "positive" failed: ids count from one'
    )
    assert values_of(stored(name)) == [order(schema_id, 1)]


@pytest.mark.slow
def test_a_slow_registry_delays_only_batches_that_wait_for_it(gateway, topic, stored, registry):
    known, other = topic("judged"), topic("other")
    schema_id = registry.register(f"{known}-value", text_of(ORDER))
    running = gateway(
        settings(
            registry, schema_registry_timeout_ms=120_000, policy_preparation_timeout_ms=240_000
        )
    )
    running.wait_for("topics loaded")
    slow = topic("judged")
    two = registry.register(f"{slow}-value", text_of(ORDER_2))
    assert produce_and_error(running, known, order(schema_id)) == (0, None)
    registry.only, registry.fault = f"/schemas/ids/{two}", Fault.LATE
    producer = producer_of(running, request_timeout_ms=300_000, message_timeout_ms=300_000)
    sent = [framed(two, avro({"id": number, "to": "x"}, ORDER_2)) for number in range(20)]
    waiting = send(producer, slow, sent)
    wait_until(lambda: f"GET /schemas/ids/{two}" in registry.requests, what="the look-up")
    since = time.monotonic()
    for _ in range(20):
        assert produce_and_error(running, known, order(schema_id)) == (0, None)
        assert produce_and_error(running, other, b"anything") == (0, None)
    # Longer than policy.timeout.ms, 5 s, lets a policy judge.
    time.sleep(max(0.0, since + 6 - time.monotonic()))
    producer.poll(0)
    assert waiting == []
    registry.release()
    assert producer.flush(60) == 0
    assert waiting == [None] * 20
    assert values_of(stored(slow)) == sent
    assert running.events("policy worker died") == []
    assert running.events("records postponed") == []


@pytest.mark.slow
def test_lookups_that_take_too_long_together_are_resumed(gateway, topic, stored, registry):
    """Each lookup is in time, but not all of a batch: a worker keeps the results so far."""
    name = topic("judged")
    running = gateway(
        settings(registry, schema_registry_timeout_ms=120_000, policy_preparation_timeout_ms=15_000)
    )
    running.wait_for("topics loaded")
    schema_id = registry.register(f"{name}-value", text_of(ORDER))  # after that: it is not known
    producer = producer_of(running)
    registry.only, registry.fault = f"/schemas/ids/{schema_id}", Fault.LATE
    found = send(producer, name, [order(schema_id)])
    event = running.wait_for("records postponed")[0]
    assert event["message"].startswith(f"schema {schema_id} cannot be looked up: ")
    registry.release()
    assert producer.flush(60) == 0
    assert found == [None]
    assert values_of(stored(name)) == [order(schema_id)]
    assert running.events("policy worker died") == []


@pytest.mark.slow
def test_wrong_credentials_postpone_batches_until_a_reload(gateway, topic, stored):
    with FakeRegistry(user_info="penstock:right") as registry:
        name = topic("judged")
        schema_id = registry.register(f"{name}-value", text_of(ORDER))
        wrong = "penstock:not-the-right-one"
        running = gateway(settings(registry, schema_registry_basic_auth_user_info=wrong))
        producer = producer_of(running)
        found = send(producer, name, [order(schema_id, number) for number in range(30)])
        event = running.wait_for("records postponed")[0]
        assert "responded with status 401" in event["message"]
        assert event["code"] == 7
        assert "not-the-right-one" not in json.dumps(running.log)
        file = Path(running.file)
        file.write_text(file.read_text().replace(wrong, "penstock:right"))
        running.process.send_signal(signal.SIGHUP)
        assert producer.flush(60) == 0
        assert found == [None] * 30
        assert values_of(stored(name)) == [order(schema_id, number) for number in range(30)]


def test_without_acks_the_connection_is_closed(gateway, topic, stored, registry):
    name = topic("judged")
    schema_id = registry.register(f"{name}-value", text_of(ORDER))
    running = gateway(settings(registry))
    for value in (order(schema_id)[:-1], order(77)):
        request = produce_request([(name, [(0, encode_batch(values(value)))])], acks=0)
        with RawClient(running.address, 60) as client:
            client.send(client.frame(request))
            assert client.closed()
    assert produce_and_error(running, name, order(schema_id)) == (0, None)
    assert values_of(stored(name)) == [order(schema_id)]


def test_a_transaction_commits_after_a_refused_transaction(gateway, topic, kafka, registry):
    name = topic("judged")
    schema_id = registry.register(f"{name}-value", text_of(ORDER))
    running = gateway(settings(registry))
    producer = producer_of(running, transactional_id=uuid.uuid4().hex)
    producer.init_transactions(60)
    producer.begin_transaction()
    send(producer, name, [order(schema_id, 1)])
    producer.flush(60)
    refused = send(producer, name, [order(schema_id, 2)[:-1]])
    with pytest.raises(KafkaException) as raised:
        producer.commit_transaction(60)
    assert raised.value.args[0].txn_requires_abort()
    producer.abort_transaction(60)
    assert producer.flush(60) == 0
    assert [error.code() for error in refused] == [KafkaError.INVALID_RECORD]
    committed = _commit(producer, name, [order(schema_id, 3), order(schema_id, 4)])
    found = read_topic(kafka.bootstrap_servers, name, isolation="read_committed")
    assert values_of(found) == committed


def _commit(producer, topic, sent):
    """Commit; after a refusal, a further transaction may have to be aborted (see failures.md)."""
    for _ in range(3):
        producer.begin_transaction()
        send(producer, topic, sent)
        try:
            producer.commit_transaction(60)
        except KafkaException as error:
            assert error.args[0].txn_requires_abort()
            producer.abort_transaction(60)
        else:
            return sent
    raise AssertionError("no transaction is committed")


def loading(registry, glob):
    """Return properties of a gateway whose topics are not used by other tests."""
    chosen = settings(registry) | {"topic.settings.topic": f"__settings_{uuid.uuid4().hex[:6]}"}
    del chosen[f"topics.judged*.{VALIDATION}"]
    return chosen | {f"topics.{glob}.{VALIDATION}": "true"}


def subjects_of(registry, *names):
    """Register a separate schema for each topic; return a record of it by topic."""
    found = {}
    for number, name in enumerate(names):
        schema = ORDER | {"name": f"Order{number}"}
        schema_id = registry.register(f"{name}-value", text_of(schema))
        found[name] = framed(schema_id, avro({"id": 1}, schema))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_subjects_of_known_topics_are_loaded_at_the_start(gateway, topic, registry, workers):
    prefix = f"loaded{uuid.uuid4().hex[:6]}"
    names = [topic(prefix), topic(prefix), topic("other"), topic("named")]
    records = subjects_of(registry, *names)
    properties = loading(registry, f"{prefix}*") | {
        f"topics.{names[3]}.{VALIDATION}": "true",
        "policy.workers": workers,
    }
    running = gateway(properties)
    # A worker each; the topic that is judged by its own configs comes with the restart.
    running.wait_for("topics loaded", workers)
    assert {event["count"] for event in running.events("topics loaded")} == {3}
    alter(AdminClient({"bootstrap.servers": running.address}), names[2], VALIDATION, "true")
    running.log.clear()
    registry.requests.clear()
    running.restart()
    running.wait_for("topics loaded", workers)

    requests = sorted(registry.requests)
    for name in names:
        assert requests.count(f"GET /subjects/{name}-value/versions/latest") == workers
    for name, record in records.items():
        assert produce_and_error(running, name, record) == (0, None)
        assert produce_and_error(running, name, record[:-1])[0] == 87
    assert sorted(registry.requests) == requests
    assert running.events("topics not loaded") == []


@pytest.mark.cases(1)
@pytest.mark.parametrize("fault", [None, Fault.SILENT])
def test_an_unavailable_registry_while_topics_are_loaded_is_a_warning(
    gateway, topic, registry, fault
):
    prefix = f"loaded{uuid.uuid4().hex[:6]}"
    name = topic(prefix)
    (record,) = subjects_of(registry, name).values()
    registry.fault = fault
    if fault is None:
        registry.goes_away()
    running = gateway(loading(registry, f"{prefix}*") | {"schema.registry.timeout.ms": 1000})
    (event,) = running.wait_for("topics not loaded")
    assert event["level"] == "warning"
    assert event["reason"].startswith(f"topic {name}: subject {name}-value cannot be looked up: ")
    assert produce_and_error(running, name, record)[0] == 7
    registry.fault = None
    if fault is None:
        registry.comes_back()
    producer = producer_of(running)
    found = send(producer, name, [record, record])
    assert producer.flush(60) == 0
    assert found == [None] * 2
    assert running.events("policy worker died") == []

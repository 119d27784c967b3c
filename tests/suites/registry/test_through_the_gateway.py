"""Confluent's serializers and a real registry (Apicurio), through a gateway to a broker.

GUIDs, logins, contexts and failures, which Apicurio lacks, are tested with the tests' own registry,
whose responses are those of Confluent's.
"""

import json
import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.gateways import wait_until
from tests.integration.registered import order, produce_and_error, settings, text_of
from tests.policies.schema_policy.fake_issuer import FakeIssuer
from tests.policies.schema_policy.fake_registry import FakeRegistry, Fault
from tests.policies.schema_policy.orders import ORDER, ORDER_2
from tests.registry.apicurio import Apicurio
from tests.registry.proto_classes import proto_class

pytestmark = pytest.mark.suites
STRATEGY = "confluent.value.subject.name.strategy"
TROUBLE = [fault for fault in Fault if fault is not Fault.LATE] + [401, 403, 407, 429, 500, 503]


@pytest.fixture(scope="module")
def apicurio(tmp_path_factory):
    with Apicurio(tmp_path_factory.mktemp("apicurio")) as running:
        yield running


@pytest.fixture
def client(apicurio):
    with SchemaRegistryClient({"url": apicurio.url}) as made:
        yield made


@pytest.fixture
def fake():
    with FakeRegistry() as running:
        yield running


@pytest.fixture
def name():
    """A name of a type that no other test registers: equal schemas have one id."""
    return f"T{uuid.uuid4().hex[:8]}"


def avro(name, *fields):
    more = [{"name": field, "type": "string", "default": ""} for field in fields]
    fields = [{"name": "id", "type": "long"}, *more]
    return json.dumps({"type": "record", "name": name, "namespace": "shop", "fields": fields})


def as_json(name, **more):
    properties = {"id": {"type": "integer", "minimum": 1}}
    return json.dumps({"title": name, "type": "object", "properties": properties} | more)


def serialized(serializer, value, topic, headers=None):
    context = SerializationContext(topic, MessageField.VALUE, [] if headers is None else headers)
    return serializer(value, context)


def produce(running, topic, value, headers=()):
    """Produce as a user does; return the code of the error, or 0."""
    producer = Producer({"bootstrap.servers": running.address, "delivery.timeout.ms": 60_000})
    found = []
    producer.produce(
        topic, value, headers=list(headers), on_delivery=lambda error, _: found.append(error)
    )
    assert producer.flush(90) == 0
    return 0 if found[0] is None else found[0].code()


SUBJECTS = {
    "TopicNameStrategy": lambda context, _: f"{context.topic}-value",
    "RecordNameStrategy": lambda _, record: record,
    "TopicRecordNameStrategy": lambda context, record: f"{context.topic}-{record}",
}


@pytest.mark.parametrize("strategy", SUBJECTS)
@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF"])
def test_each_strategy_finds_the_subject_of_the_serializer(
    gateway, topic, apicurio, client, name, kind, strategy
):
    judged = topic("judged")
    conf = {"subject.name.strategy": SUBJECTS[strategy]}
    if kind == "AVRO":
        value = serialized(AvroSerializer(client, avro(name), conf=conf), {"id": 7}, judged)
    elif kind == "JSON":
        value = serialized(JSONSerializer(as_json(name), client, conf=conf), {"id": 7}, judged)
    else:
        message = proto_class(name, "Order")
        value = serialized(ProtobufSerializer(message, client, conf=conf), message(id=7), judged)
    running = gateway(settings(apicurio) | {f"topics.{judged}.{STRATEGY}": strategy})
    assert produce(running, judged, value) == 0
    assert produce(running, judged, value + b"\xff") == 87
    others = topic("judged-other")
    expected = 0 if strategy == "RecordNameStrategy" else 87
    running.stop()
    running = gateway(settings(apicurio) | {f"topics.judged*.{STRATEGY}": strategy})
    assert produce(running, others, value) == expected


def test_references_are_followed(gateway, topic, apicurio, client, name):
    judged = topic("judged")
    address = json.dumps({"type": "fixed", "name": f"shop.A{name}", "size": 2})
    client.register_schema(f"A{name}", Schema(address, "AVRO"))
    text = json.dumps({
        "type": "record", "name": name, "fields": [{"name": "to", "type": f"shop.A{name}"}],
    })  # fmt: skip
    schema = Schema(text, "AVRO", [SchemaReference(f"shop.A{name}", f"A{name}", 1)])
    schema_id = client.register_schema(f"{judged}-value", schema)
    running = gateway(settings(apicurio))
    begins = b"\0" + schema_id.to_bytes(4)
    assert produce_and_error(running, judged, begins + b"ab") == (0, None)
    assert produce_and_error(running, judged, begins + b"a")[0] == 87


def test_versions_evolve_and_are_deleted(gateway, topic, apicurio, client, name):
    every, latest = topic("judged"), topic("judged-latest")
    old, new = {}, {}
    for judged in (every, latest):
        subject = f"{judged}-value"
        old[judged] = serialized(
            AvroSerializer(client, avro(name + judged[-8:])), {"id": 1}, judged
        )
        text = avro(name + judged[-8:], "more")
        new[judged] = serialized(AvroSerializer(client, text), {"id": 1, "more": "x"}, judged)
        assert sorted(client.get_versions(subject)) == [1, 2]
    running = gateway(settings(apicurio) | {f"topics.{latest}.schema.versions": "latest"})
    assert [produce(running, every, version[every]) for version in (old, new)] == [0, 0]
    assert [produce(running, latest, version[latest]) for version in (old, new)] == [87, 0]

    client.delete_version(f"{every}-value", 1)
    running.restart()
    assert [produce(running, every, version[every]) for version in (old, new)] == [87, 0]


def test_ids_in_headers(gateway, topic, fake, name):
    judged = topic("judged")
    running = gateway(settings(fake))
    with SchemaRegistryClient({"url": fake.url}) as client:
        conf = {"schema.id.serializer": header_schema_id_serializer}
        for serializer, value in (
            (AvroSerializer(client, avro(name), conf=conf), {"id": 7}),
            (JSONSerializer(as_json(name), client, conf=conf), {"id": 7}),
        ):
            headers = []
            data = serialized(serializer, value, judged, headers)
            assert produce(running, judged, data, headers) == 0
            assert produce(running, judged, data + b"\xff", headers) == 87
            assert produce(running, judged, data) == 87


def test_a_context_has_separate_subjects(gateway, topic, fake, name):
    judged = topic("judged")
    fake.register(f"{judged}-value", avro(f"{name}x"))
    with SchemaRegistryClient({"url": fake.url_of(".team")}) as client:
        first = serialized(AvroSerializer(client, avro(f"{name}y")), {"id": 7}, topic("judged"))
        value = serialized(AvroSerializer(client, avro(name)), {"id": 7}, judged)
    running = gateway(settings(fake) | {"schema.registry.url": fake.url_of(".team")})
    assert produce(running, judged, value) == 0
    assert produce(running, judged, first) == 87


def test_logins(gateway, topic):
    judged = topic("judged")
    with FakeRegistry(user_info="me:secret") as registry:
        schema_id = registry.register(f"{judged}-value", text_of(ORDER))
        running = gateway(settings(registry, schema_registry_basic_auth_user_info="me:secret"))
        assert produce(running, judged, order(schema_id)) == 0
        running.stop()
        registry.wants("given")
        running = gateway(settings(registry, schema_registry_bearer_auth_token="given"))
        assert produce(running, judged, order(schema_id)) == 0
        running.stop()
        registry.wants("token-1")
        with FakeIssuer() as issuer:
            running = gateway(settings(registry) | issuer.settings)
            assert produce(running, judged, order(schema_id)) == 0
            assert len(issuer.issued) == 1
            running.stop()
        assert not any("secret" in json.dumps(event) for event in running.log)


@pytest.mark.parametrize("trouble", TROUBLE, ids=str)
def test_a_bad_response_of_the_registry_postpones_batches(gateway, topic, fake, trouble):
    judged = topic("judged")
    schema_id = fake.register(f"{judged}-value", text_of(ORDER))
    running = gateway(settings(fake) | {"schema.registry.timeout.ms": 500})
    assert produce_and_error(running, judged, order(schema_id)) == (0, None)
    if isinstance(trouble, Fault):
        fake.fault = trouble
    else:
        fake.status = trouble
    two = fake.register(f"{judged}-value", text_of(ORDER_2))  # so no worker has looked it up
    assert produce_and_error(running, judged, order(two))[0] == 7
    assert produce_and_error(running, judged, order(schema_id)) == (0, None)
    assert produce_and_error(running, judged, order(schema_id)[:-1])[0] == 87
    fake.fault = fake.status = None
    wait_until(lambda: produce_and_error(running, judged, order(two))[0] == 87)  # it lacks a field
    assert running.events("policy worker died") == []

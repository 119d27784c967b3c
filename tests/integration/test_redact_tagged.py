"""`RedactTagged` in a gateway: stored records of real codecs, with a registry that may be slow."""

import io
import json
import struct

import fastavro
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.integration.reading import read_topic, values_of
from tests.kafka.records.encoding import encode_batch, values
from tests.policies.schema_policy.fake_registry import FakeRegistry, Fault
from tests.policies.schema_policy.messages import order_class
from tests.raw import RawClient, produce_request, produced

SECRET = "078-05-1120"
USER = "me:registry-secret"
AVRO = {
    "type": "record",
    "name": "User",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "ssn", "type": "string", "confluent:tags": ["PII"]},
    ],
}
PROTOBUF = """
    syntax = "proto3";
    package shop;
    import "confluent/meta.proto";
    message Order {
      int64 id = 1;
      string ssn = 2 [(confluent.field_meta) = { tags: ["PII"] }];
    }
"""
INTERCEPTOR = """
from penstock.policies import RedactTagged

class Redact(RedactTagged):
    topics = "."
    tags = ("PII",)
    registry = {REGISTRY}
"""
ORDER = order_class()


def interceptor(registry, timeout_ms=60_000):
    settings = {
        "schema.registry.url": registry.url,
        "schema.registry.basic.auth.user.info": USER,
        "schema.registry.timeout.ms": str(timeout_ms),
    }
    return INTERCEPTOR.replace("{REGISTRY}", repr(settings))


def framed(schema_id, payload):
    return b"\x00" + struct.pack(">i", schema_id) + payload


def user(schema_id, number, ssn=SECRET):
    encoded = io.BytesIO()
    fastavro.schemaless_writer(encoded, fastavro.parse_schema(AVRO), {"id": number, "ssn": ssn})
    return framed(schema_id, encoded.getvalue())


def order(schema_id, number, ssn=SECRET):
    return framed(schema_id, b"\x00" + ORDER(id=number, ssn=ssn).SerializeToString())


@pytest.fixture
def registry():
    with FakeRegistry(user_info=USER) as running:
        yield running


def send(running, name, *records):
    request = produce_request([(name, [(0, encode_batch(values(*records)))])], timeout_ms=120_000)
    with RawClient(running.address) as client:
        return produced(client.call(request))[name, 0]


def test_stored_records_are_redacted_and_readable_with_the_same_schema(
    gateway, topic, kafka, registry
):
    name = topic()
    avro = registry.register(f"{name}-value", json.dumps(AVRO))
    protobuf = registry.register("orders-value", PROTOBUF, "PROTOBUF")
    running = gateway({"produce.request.interceptors": "policies.Redact"}, interceptor(registry))

    assert send(running, name, user(avro, 1), order(protobuf, 2), None).error_code == 0
    # One that cannot be redacted keeps its whole batch out.
    for bad in (
        user(avro, 3)[:-1],
        order(protobuf, 3)[:-1],
        order(protobuf, 3) + b"\x3a\x01x",
        user(99, 3),
        SECRET.encode(),
    ):
        answer = send(running, name, user(avro, 3), bad)
        assert answer.error_code == -1
        assert SECRET not in answer.error_message
    assert send(running, name, user(avro, 4, "")).error_code == 0

    stored = values_of(read_topic(kafka.bootstrap_servers, name))
    first, second, tombstone, last = stored
    assert (first, second) == (user(avro, 1, "***"), order(protobuf, 2, "***"))
    with SchemaRegistryClient({"url": registry.url, "basic.auth.user.info": USER}) as client:
        read = AvroDeserializer(client)
        context = SerializationContext(name, MessageField.VALUE)
        assert read(first, context) == {"id": 1, "ssn": "***"}
        assert read(last, context) == {"id": 4, "ssn": "***"}
    assert ORDER.FromString(second[6:]) == ORDER(id=2, ssn="***")
    assert tombstone is None
    assert SECRET not in json.dumps(running.log)
    assert "registry-secret" not in json.dumps(running.log)


@pytest.mark.slow
def test_a_slow_registry_stops_no_worker(gateway, topic, kafka, registry):
    name = topic()
    known = registry.register(f"{name}-value", json.dumps(AVRO))
    new = registry.register(f"{name}-value", json.dumps(AVRO | {"doc": "more"}))
    running = gateway(
        {
            "produce.request.interceptors": "policies.Redact",
            "produce.request.interceptors.timeout.ms": "3000",  # look-ups take longer
            "policy.preparation.timeout.ms": "60000",
            "policy.workers": "1",
        },
        interceptor(registry, timeout_ms=5000),
    )
    assert send(running, name, user(known, 1)).error_code == 0
    registry.fault = Fault.SILENT
    answer = send(running, name, user(known, 2), user(new, 2))
    assert answer.error_code == 7
    assert f"schema {new} cannot be looked up" in answer.error_message
    assert send(running, name, user(known, 3)).error_code == 0
    registry.fault = None
    running.wait_for("records postponed", 1, timeout_s=60)
    while send(running, name, user(new, 4)).error_code == 7:
        pass  # an unavailable URL is not used for a second

    found = values_of(read_topic(kafka.bootstrap_servers, name))
    assert found == [user(known, 1, "***"), user(known, 3, "***"), user(new, 4, "***")]
    assert running.events("policy worker died") == []

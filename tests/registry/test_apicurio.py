"""Penstock's client and Confluent's serializers against a real registry."""

import json
import uuid

import pytest
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

from penstock.policies.schema_policy.registry.cache import Registry
from penstock.policies.schema_policy.registry.client import RegistryClient
from penstock.policies.schema_policy.registry.errors import (
    RegistryAwayException,
    UnknownSchemaError,
)
from penstock.policies.schema_policy.registry.settings import RegistrySettings
from penstock.policies.schema_policy.registry.subjects import SubjectNameStrategy, subject_of
from penstock.policies.schema_policy.wire_format import (
    KEY_HEADER,
    VALUE_HEADER,
    SchemaIdLocation,
    check_header,
    find_id,
    groups_of,
)
from penstock.policy import Header, RetriableException
from tests.policies.schema_policy.fake_registry import FakeRegistry
from tests.registry.apicurio import Apicurio
from tests.registry.proto_classes import proto_class

pytestmark = pytest.mark.registry
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}],
}


@pytest.fixture(scope="module")
def apicurio(tmp_path_factory):
    with Apicurio(tmp_path_factory.mktemp("apicurio")) as running:
        yield running


def client_of(url):
    given = {"schema.registry.url": url, "schema.registry.timeout.ms": "60000"}
    return RegistryClient(RegistrySettings.from_configs(given))


@pytest.fixture
def client(apicurio):
    made = client_of(apicurio.url)
    yield made
    made.close()


@pytest.fixture
def theirs(apicurio):
    with SchemaRegistryClient({"url": apicurio.url}) as made:
        yield made


@pytest.fixture
def topic():
    return f"orders-{uuid.uuid4().hex[:8]}"


def avro(**more):
    return json.dumps(ORDER | more)


def parsed(schema):
    return json.loads(schema.text)


def test_a_registered_schema_is_found_in_every_way(client, theirs, topic):
    subject = f"{topic}-value"
    schema_id = theirs.register_schema(subject, Schema(avro(name=f"A{topic[7:]}"), "AVRO"))
    found = client.schema_by_id(schema_id)
    assert (found.schema_type, found.schema_id) == ("AVRO", schema_id)
    assert parsed(found)["name"] == f"A{topic[7:]}"
    assert client.subject_versions(schema_id) == ((subject, 1),)
    latest, version = client.latest(subject)
    assert (latest.text, latest.schema_id, version) == (found.text, schema_id, 1)
    assert client.schema_of_version(subject, 1).text == found.text


def test_one_schema_may_have_several_subjects(client, theirs, topic):
    schema = Schema(avro(name=f"B{topic[7:]}"), "AVRO")
    ids = {theirs.register_schema(f"{topic}-{side}", schema) for side in ("key", "value")}
    assert len(ids) == 1
    found = Registry(client).subject_versions(ids.pop(), f"{topic}-key")
    assert set(found) == {(f"{topic}-key", 1), (f"{topic}-value", 1)}


def test_unknown_ids_and_subjects(client):
    for request in (
        lambda: client.schema_by_id(2**31 - 1),
        lambda: client.subject_versions(2**31 - 1),
        lambda: client.latest("no-such-subject"),
        lambda: client.schema_of_version("no-such-subject", 1),
    ):
        with pytest.raises(UnknownSchemaError, match="is not in the schema registry"):
            request()


def test_a_registry_without_guids_is_a_retriable_error(client):
    with pytest.raises(RetriableException, match="404, but not as a schema registry does"):
        client.schema_by_guid(str(uuid.uuid4()))


def test_a_wrong_path_is_a_retriable_error(apicurio):
    wrong = client_of(apicurio.url.replace("ccompat", "compat"))
    with pytest.raises(RetriableException, match=r"see the path in schema\.registry\.url"):
        wrong.schema_by_id(1)
    wrong.close()


def test_a_softly_deleted_version_is_known_by_its_id_alone(client, theirs, topic):
    subject = f"{topic}-value"
    theirs.register_schema(subject, Schema(avro(name=f"C{topic[7:]}"), "AVRO"))
    more = avro(name=f"C{topic[7:]}", doc="more")
    schema_id = theirs.register_schema(subject, Schema(more, "AVRO"))
    theirs.delete_version(subject, 2)
    assert parsed(client.schema_by_id(schema_id))["doc"] == "more"
    assert client.subject_versions(schema_id) == ()
    assert parsed(client.schema_of_version(subject, 2))["doc"] == "more"
    assert client.latest(subject)[1] == 1


def test_references_are_resolved(client, theirs, topic):
    name = f"shop.Address{topic[7:]}"
    address = json.dumps({"type": "record", "name": name, "fields": []})
    theirs.register_schema(name, Schema(address, "AVRO"))
    order = avro(fields=[{"name": "to", "type": name}], name=f"D{topic[7:]}")
    schema_id = theirs.register_schema(
        f"{topic}-value", Schema(order, "AVRO", [SchemaReference(name, name, 1)])
    )
    registry = Registry(client)
    source = registry.source(registry.schema(schema_id))
    assert json.loads(source.text)["fields"][0]["type"] == name
    assert {reference: json.loads(text) for reference, text in source.references.items()} == {
        name: json.loads(address)
    }


def test_a_stopped_registry_is_unavailable(tmp_path):
    with Apicurio(tmp_path) as running:
        client = client_of(running.url)  # the registry closes the connection when it stops
        with pytest.raises(UnknownSchemaError):
            client.latest("x")
    with pytest.raises(RegistryAwayException, match="cannot be reached: Connection refused"):
        client.latest("x")


def serialized(serializer, value, topic, *, is_key=False):
    """Return the bytes and headers that a Confluent client produces."""
    headers = []
    field = MessageField.KEY if is_key else MessageField.VALUE
    data = serializer(value, SerializationContext(topic, field, headers))
    return data, [Header(*header) for header in headers]


def framed(data, headers, *, is_key=False):
    found = find_id(data, headers, is_key=is_key, location=SchemaIdLocation.ANY)
    return found, found.payload(data)


@pytest.mark.parametrize("is_key", [True, False])
def test_the_schema_of_the_avro_serializer_is_found(client, theirs, topic, is_key):
    data, headers = serialized(AvroSerializer(theirs, avro()), {"id": 7}, topic, is_key=is_key)
    found, payload = framed(data, headers, is_key=is_key)
    assert payload == b"\x0e"
    subject = subject_of(SubjectNameStrategy.TOPIC_NAME, topic, "shop.Order", is_key=is_key)
    assert (subject, 1) in client.subject_versions(found.schema)
    assert parsed(client.schema_by_id(found.schema))["name"] == "Order"


def test_the_schema_of_the_json_serializer_is_found(client, theirs, topic):
    text = json.dumps({"title": "Order", "type": "object", "properties": {"id": {}}})
    data, headers = serialized(JSONSerializer(text, theirs), {"id": 7}, topic)
    found, payload = framed(data, headers)
    assert json.loads(payload) == {"id": 7}
    schema = client.schema_by_id(found.schema)
    assert (schema.schema_type, parsed(schema)["title"]) == ("JSON", "Order")
    assert client.subject_versions(found.schema) == ((f"{topic}-value", 1),)


@pytest.mark.parametrize(
    ("path", "indexes"),
    [
        (("First",), b"\0"),
        (("Order",), b"\2\2"),
        (("Order", "Line"), b"\4\2\2"),
    ],
)
def test_the_schema_of_the_protobuf_serializer_is_found(client, theirs, topic, path, indexes):
    message = proto_class(topic, *path)
    serializer = ProtobufSerializer(message, theirs)
    data, headers = serialized(serializer, message(id=7), topic)
    found, payload = framed(data, headers)
    assert payload == indexes + b"\x08\x07"
    assert client.schema_by_id(found.schema).schema_type == "PROTOBUF"
    assert (f"{topic}-value", 1) in client.subject_versions(found.schema)


def test_batches_of_serializers_are_grouped(theirs, topic):
    first = AvroSerializer(theirs, avro())
    second = AvroSerializer(theirs, avro(name="Other"), conf={"subject.name.strategy": str_subject})
    records = [
        serialized(serializer, {"id": number}, topic)[0]
        for number, serializer in enumerate([first] * 500 + [second] + [first] * 499)
    ]
    groups, objections = groups_of(
        records, [()] * 1000, is_key=False, location=SchemaIdLocation.ANY
    )
    assert objections == []
    assert [len(group.positions) for group in groups] == [999, 1]
    assert list(groups[1].positions) == [500]


def str_subject(context, record_name):
    return f"{context.topic}-{record_name}"


@pytest.mark.parametrize("is_key", [True, False])
@pytest.mark.parametrize("path", [("First",), ("Order", "Line")])
def test_guids_in_headers_are_found(topic, is_key, path):
    """Apicurio has no GUIDs, so Confluent's client registers with the fake registry."""
    with FakeRegistry() as registry, SchemaRegistryClient({"url": registry.url}) as theirs:
        conf = {"schema.id.serializer": header_schema_id_serializer}
        message = proto_class(topic, *path)
        for schema_type, serializer, value in (
            ("AVRO", AvroSerializer(theirs, avro(), conf=conf), {"id": 7}),
            ("PROTOBUF", ProtobufSerializer(message, theirs, conf=conf), message(id=7)),
        ):
            data, headers = serialized(serializer, value, topic, is_key=is_key)
            assert [header.key for header in headers] == [KEY_HEADER if is_key else VALUE_HEADER]
            found, payload = framed(data, headers, is_key=is_key)
            check_header(found, schema_type)
            client = client_of(registry.url)
            schema = client.schema_by_guid(found.schema)
            assert (schema.schema_type, schema.guid) == (schema_type, found.schema)
            assert schema.schema_id
            client.close()
            assert payload.endswith(data)
            if schema_type == "PROTOBUF":
                assert payload == (b"\0" if path == ("First",) else b"\4\2\2") + b"\x08\x07"

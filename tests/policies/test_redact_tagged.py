"""The interceptor that redacts by tags of a registry's schemas."""

import json
from io import BytesIO

import fastavro
import orjson
import pytest

from penstock.engine.chain import Chain
from penstock.engine.interceptors.intercepted_batch import intercept_and_judge
from penstock.engine.interceptors.policy_batch import PolicyBatch
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.kafka.records.batch import read_batch
from penstock.kafka.records.stored_batch import read_stored_batch
from penstock.policies import RedactTagged
from penstock.policies.schema_policy import payloads
from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.payloads.avro.compile import compile_avro
from penstock.policies.schema_policy.payloads.compiled import SchemaSource
from penstock.policies.schema_policy.registered import RegisteredSchema
from penstock.policies.schema_policy.registry.errors import UnknownSchemaError
from penstock.policy import (
    BrokerRecordValidator,
    Header,
    InvalidRecordException,
    Record,
    RetriableException,
)
from tests.engine.chains import TOPIC_ID, columns, instances
from tests.kafka.records.encoding import encode_batch
from tests.policies.schema_policy.messages import Messages, meta, order_class

PREFIX = b"\x00\x00\x00\x00\x07"
AVRO = {
    "type": "record",
    "name": "User",
    "fields": [
        {"name": "ssn", "type": "string", "confluent:tags": ["PII"]},
        {"name": "age", "type": "int"},
    ],
}
ORDER = order_class(ssn_meta=meta("PII"))
YOUNG = b'{"ssn":"secret","age":5}'
OLD = b'{"ssn":"secret","age":50}'


class Known:
    """A registry with one schema, which counts its requests."""

    def __init__(self, schema):
        self.known = schema
        self.requests = 0

    def use_share_of(self, topic):
        self.topic = topic

    def schema(self, schema):
        self.requests += 1
        if isinstance(self.known, Exception):
            raise self.known
        assert schema == 7
        return self.known

    def source(self, schema):
        return SchemaSource(schema.schema_type, schema.text)


class Json:
    """A compiled schema that takes every JSON object."""

    def objections(self, payloads):
        return [
            (n, "at $: is no object") for n, payload in enumerate(payloads) if payload[:1] != b"{"
        ]

    def decode(self, payload):
        return orjson.loads(payload)

    def encode(self, value):
        return orjson.dumps(value)


@pytest.fixture(autouse=True)
def compile_schema(monkeypatch):
    def compile_source(source):
        if source.schema_type == "AVRO":
            return compile_avro(source)
        return Messages(ORDER) if source.schema_type == "PROTOBUF" else Json()

    monkeypatch.setattr(payloads, "compile_schema", compile_source)


def interceptor(schema, **settings):
    registry = Known(schema)

    class Redact(RedactTagged):
        topics = "^t"
        tags = ("PII",)
        registry = {"schema.registry.url": "http://registry.example"}

        def open_registry(self):
            return registry_of_test

    registry_of_test = registry
    for name, value in settings.items():
        setattr(Redact, name, value)
    made = Redact()
    made.configure()
    return made, registry


def registered(kind, schema="", **more):
    return RegisteredSchema(kind, schema if isinstance(schema, str) else json.dumps(schema), **more)


def avro_bytes(value):
    out = BytesIO()
    fastavro.schemaless_writer(out, AVRO, value)
    return out.getvalue()


def value_of(made, value, headers=()):
    return made.process_record(b"key", value, "t", 0, headers).value


def test_avro_is_written_again_behind_the_same_id():
    made, registry = interceptor(registered("AVRO", AVRO))
    data = PREFIX + avro_bytes({"ssn": "secret", "age": 5})
    expected = PREFIX + avro_bytes({"ssn": "***", "age": 5})
    assert value_of(made, data) == expected
    assert value_of(made, data) == expected
    assert registry.requests == 1


def test_tags_beside_the_schema_and_another_replacement():
    schema = registered("AVRO", AVRO, metadata={"tags": {"User.age": ["AGE"]}})
    made, _ = interceptor(schema, tags=("AGE", "PII"), replacement="-")
    data = PREFIX + avro_bytes({"ssn": "secret", "age": 5})
    assert value_of(made, data) == PREFIX + avro_bytes({"ssn": "-", "age": 0})


def test_without_a_tagged_field_the_bytes_stay():
    made, _ = interceptor(registered("AVRO", AVRO), tags=("OTHER",))
    data = PREFIX + avro_bytes({"ssn": "secret", "age": 5})
    assert value_of(made, data) is data


def test_json():
    schema = {"properties": {"ssn": {"type": "string", "confluent:tags": ["PII"]}}}
    made, _ = interceptor(registered("JSON", schema))
    data = PREFIX + b'{ "n": 1.10, "ssn": "secret", "big": 12345678901234567.89, "s\\u0073n":4}'
    assert value_of(made, data) == data.replace(b'"secret"', b'"***"').replace(b":4", b":0")
    data = PREFIX + b'{ "other": "stays" }'
    assert value_of(made, data) is data


def test_json_with_a_name_that_comes_twice_hides_nothing():
    schema = {"properties": {"a": {"properties": {"ssn": {"confluent:tags": ["PII"]}}}}}
    made, _ = interceptor(registered("JSON", schema))
    data = PREFIX + b'{"a":{"ssn":"secret"},"a":{}}'
    assert value_of(made, data) == PREFIX + b'{"a":{"ssn":"***"},"a":{}}'


def test_protobuf():
    made, _ = interceptor(registered("PROTOBUF"))
    data = PREFIX + b"\x00" + ORDER(id=1, ssn="secret").SerializeToString()
    assert value_of(made, data) == PREFIX + b"\x00" + ORDER(id=1, ssn="***").SerializeToString()


TAGGED = {"type": "string", "confluent:tags": ["PII"]}
OF_TAGGED = {"properties": {"a": TAGGED}}
IN_B = {"b": {"a": "secret"}}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        pytest.param({"confluent:tags": ["PII"]}, {"a": "secret"}, id="the whole"),
        pytest.param({"properties": {"a": {"allOf": [TAGGED]}}}, {"a": "secret"}, id="allOf"),
        pytest.param(
            {"properties": {"a": {"oneOf": [{"type": "null"}, TAGGED]}}}, {"a": "secret"},
            id="oneOf"
        ),
        pytest.param({"properties": {"a": {"items": {"anyOf": [{"$ref": "#/$defs/a"}]}}},
                      "$defs": {"a": TAGGED}}, {"a": ["secret"]}, id="a $ref in anyOf"),
        pytest.param({"properties": {"a": {"if": True, "then": TAGGED}}}, {"a": "secret"},
        id="then"), pytest.param({"dependencies": {"a": OF_TAGGED}}, {"a": "secret"},
        id="dependencies"), pytest.param({"$dynamicAnchor": "n", "properties": {"a": TAGGED, "b":
        {"$dynamicRef": "#n"}}},
                     IN_B, id="$dynamicRef"),
        pytest.param(
            {"$defs": {"x": {"$id": "x", "$dynamicAnchor": "n"},
                       "y": {"$id": "y", "$dynamicAnchor": "n", **OF_TAGGED}},
             "properties": {"b": {"$dynamicRef": "x#n"}}},
            IN_B, id="$dynamicRef to another of its name"),
        pytest.param({"$recursiveAnchor": True, "properties": {"a": TAGGED,
                      "b": {"$recursiveRef": "#"}}}, IN_B, id="$recursiveRef"),
        pytest.param({"properties": {"n": {"anyOf": [{"$ref": "#/properties/n"}, TAGGED]}}},
                     {"n": "secret"}, id="a circle"),
    ],
)  # fmt: skip
def test_no_keyword_hides_tagged_fields_in_json(schema, value):
    made, _ = interceptor(registered("JSON", schema))
    found = value_of(made, PREFIX + json.dumps(value).encode())
    assert b"secret" not in found


OF_SECRET = ORDER(ssn="secret").SerializeToString()


def in_map(*entries):
    """Bytes of the map `scores`, where each entry is for the same key."""
    inner = [b"\x0a\x01k\x12" + bytes([len(entry)]) + entry for entry in entries]
    return b"".join(b"\x42" + bytes([len(entry)]) + entry for entry in inner)


@pytest.mark.parametrize(
    "hidden",
    [
        pytest.param(OF_SECRET + b"\x12\x00", id="a string that an empty one follows"),
        pytest.param(b"\x30\x7b\x30\x00", id="a number that 0 follows"),
        pytest.param(in_map(OF_SECRET, b""), id="a value of a key that comes twice"),
    ],
)
def test_protobuf_with_a_field_that_comes_twice_hides_nothing(hidden):
    made, _ = interceptor(registered("PROTOBUF"))
    left = ORDER.FromString(hidden).SerializeToString()
    assert left != hidden
    assert value_of(made, PREFIX + b"\x00" + hidden) == PREFIX + b"\x00" + left


def test_protobuf_without_a_tagged_field_stays_as_it_is():
    made, _ = interceptor(registered("PROTOBUF"))
    data = PREFIX + b"\x00" + ORDER(id=1, names=[]).SerializeToString()
    assert value_of(made, data) is data
    made, _ = interceptor(registered("PROTOBUF"), tags=("OTHER",))
    twice = PREFIX + b"\x00" + OF_SECRET + b"\x12\x00"
    assert value_of(made, twice) is twice


def test_an_id_in_a_header_with_protobufs_indexes():
    made, _ = interceptor(registered("PROTOBUF"))
    headers = [Header("__value_schema_id", PREFIX + b"\x00")]
    data = ORDER(id=1, ssn="secret").SerializeToString()
    assert value_of(made, data, headers) == ORDER(id=1, ssn="***").SerializeToString()


def test_the_last_of_several_ids_in_headers_counts():
    made, _ = interceptor(registered("PROTOBUF"))
    headers = [Header("__value_schema_id", PREFIX[:-1] + end) for end in (b"\x08", b"\x07\x00")]
    data = ORDER(id=1, ssn="secret").SerializeToString()
    assert value_of(made, data, headers) == ORDER(id=1, ssn="***").SerializeToString()


@pytest.mark.parametrize(
    ("schema", "header"),
    [(registered("PROTOBUF"), PREFIX), (registered("AVRO", AVRO), PREFIX + b"x")],
)
def test_a_header_that_does_not_suit_the_schema(schema, header):
    made, _ = interceptor(schema)
    with pytest.raises(ValueError, match="the value has"):
        value_of(made, b"secret", [Header("__value_schema_id", header)])


def test_keys_only_if_configured():
    data = PREFIX + avro_bytes({"ssn": "secret", "age": 5})
    made, _ = interceptor(registered("AVRO", AVRO))
    assert made.process_record(data, None, "t", 0, ()) == (data, None)
    made, _ = interceptor(registered("AVRO", AVRO), keys=True, values=False)
    result = made.process_record(data, b"anything", "t", 0, ())
    assert result == (PREFIX + avro_bytes({"ssn": "***", "age": 5}), b"anything")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "the value is empty"),
        (b"secret", "the value does not begin with a schema id"),
        (b"\x00\x00", "the value is 2 bytes long"),
        (PREFIX + b"\x0csecr", "the value does not fit its schema: "),
        (PREFIX + avro_bytes({"ssn": "secret", "age": 5}) + b"x", "the value does not fit"),
    ],
)
def test_records_that_cannot_be_redacted_do_not_pass(value, reason):
    made, _ = interceptor(registered("AVRO", AVRO))
    with pytest.raises(ValueError, match=reason) as caught:
        value_of(made, value)
    assert "secr" not in str(caught.value)


def test_an_unavailable_registry_is_tried_again():
    made, registry = interceptor(RetriableException("the registry is away"))
    data = PREFIX + avro_bytes({"ssn": "secret", "age": 5})
    with pytest.raises(RetriableException):
        value_of(made, data)
    registry.known = registered("AVRO", AVRO)
    assert b"secret" not in value_of(made, data)


def prepare(made, *values):
    made.prepare_batch("t", 0, PolicyBatch(columns(*values)))


def test_the_schemas_of_a_batch_are_requested_before_it_is_processed():
    made, registry = interceptor(registered("AVRO", AVRO))
    data = PREFIX + avro_bytes({"ssn": "secret", "age": 5})
    prepare(made, data, None, b"no id", data)
    assert registry.requests == 1
    registry.known = RetriableException("the registry is away")
    assert b"secret" not in value_of(made, data)
    prepare(made, data)
    assert registry.requests == 1


def test_while_the_registry_is_away_nothing_is_processed():
    made, _ = interceptor(RetriableException("the registry is away"))
    with pytest.raises(RetriableException):
        prepare(made, PREFIX + avro_bytes({"ssn": "secret", "age": 5}))


def test_an_unknown_schema_fails_only_its_records_and_is_requested_with_the_next_batch():
    made, registry = interceptor(UnknownSchemaError("schema 7 is not in the schema registry"))
    data = PREFIX + avro_bytes({"ssn": "secret", "age": 5})
    prepare(made, data, None)
    for _ in range(2):
        with pytest.raises(UnknownSchemaError):
            value_of(made, data)
    assert registry.requests == 1
    registry.known = registered("AVRO", AVRO)
    prepare(made, data)
    assert b"secret" not in value_of(made, data)


def test_a_compiler_that_cannot_be_run_is_our_trouble(monkeypatch):
    def fails(_):
        raise OSError("no more processes")

    made, _ = interceptor(registered("PROTOBUF"))
    monkeypatch.setattr(payloads, "compile_schema", fails)
    with pytest.raises(RetriableException, match="no more processes"):
        prepare(made, PREFIX + b"\x00")


@pytest.mark.parametrize(
    "schema",
    [
        registered("AVRO", "{"),
        registered("AVRO", AVRO, metadata={"tags": 5}),
        registered("JSON", {"properties": {"a": {"$ref": "#/nowhere"}}}),
    ],
)
def test_a_schema_that_cannot_be_used_lets_nothing_pass(schema):
    made, _ = interceptor(schema)
    with pytest.raises(InvalidSchemaError):
        value_of(made, PREFIX + b"{}")


def test_a_value_without_end():
    schema = {
        "properties": {"a": {"$ref": "#"}, "ssn": {"type": "string", "confluent:tags": ["PII"]}}
    }
    made, _ = interceptor(registered("JSON", schema))
    with pytest.raises(ValueError, match=r"nested too deeply|recursion"):
        value_of(made, PREFIX + b'{"a":' * 1000 + b'{"ssn":"secret"}' + b"}" * 1000)


class Adults(BrokerRecordValidator):
    """Refuses the young, and records with a readable number."""

    def validate_record(self, topic_partition, key, value, headers):
        if b"secret" in value:
            return InvalidRecordException("it is not redacted")
        return InvalidRecordException("too young") if b'"age":5}' in value else None


def of_redacted_batch(mode):
    """Return the stored records of a batch with one bad record, and its dead letters."""
    schema = {"properties": {"ssn": {"type": "string", "confluent:tags": ["PII"]}}}
    made, _ = interceptor(registered("JSON", schema), topics="^orders$")
    plan = TopicPlan(topic="orders", interceptors=("Redact",), validators=("Adults",), mode=mode)
    policies = Chain(plan, instances(interceptors=[type(made)], validators=[Adults]))
    records = [Record(1000, b"k", PREFIX + value, ()) for value in (YOUNG, OLD)]
    batch = read_batch(encode_batch(records), api_version=9, max_decompressed_bytes=2**20)
    verdict = intercept_and_judge(
        policies, 3, TOPIC_ID, batch, on_intercepted=lambda: None, max_bytes=2**20
    )
    (diverted,) = verdict.diverted
    assert [error.message for error in diverted.verdict.record_errors] == ["too young"]
    stored = read_batch(verdict.replacement.data, api_version=9, max_decompressed_bytes=2**20)
    return stored.records, verdict.replacement.letters


def test_a_marked_record_is_redacted():
    stored, letters = of_redacted_batch("mark")
    assert list(stored.values) == [
        PREFIX + b'{"ssn":"***","age":5}',
        PREFIX + b'{"ssn":"***","age":50}',
    ]
    assert [dict(header).get("__mark.errors.message") for header in stored.headers] == [
        b"too young", None,
    ]  # fmt: skip
    assert letters == b""


def test_a_dead_letter_has_the_original_record_and_the_others_are_redacted():
    stored, letters = of_redacted_batch("quarantine")
    assert list(stored.values) == [PREFIX + b'{"ssn":"***","age":50}']
    (letter,) = read_stored_batch(letters, max_decompressed_bytes=2**20).records.values
    assert letter == PREFIX + YOUNG


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"topics": ""}, "topics must be set"),
        ({"tags": ()}, "tags must be set"),
        ({"tags": "PII"}, "tags must be a tuple"),
        ({"registry": {}}, "registry must be set"),
        ({"replacement": 5}, "replacement must be a string"),
        ({"values": False}, "keys or values must be true"),
    ],
)
def test_settings(settings, reason):
    with pytest.raises(ValueError, match=reason):
        interceptor(registered("AVRO", AVRO), **settings)


def test_the_registry_of_the_settings_is_opened():
    class Redact(RedactTagged):
        topics = "^t"
        tags = ("PII",)
        registry = {"schema.registry.url": "http://registry.example:8081"}

    Redact().configure()
    Redact.registry = {"schema.registry.url": "nothing"}
    with pytest.raises(ValueError, match=r"schema\.registry\.url"):
        Redact().configure()
    Redact.registry = {"schema.registry.timeout.ms": "5"}
    with pytest.raises(ValueError, match=r"schema\.registry\.url"):
        Redact().configure()

"""Policies that read values by a schema: the values for tables."""

import io
import json
from decimal import Decimal

import fastavro
import pytest

from penstock.policies import Rules, SchemaPolicy
from penstock.policies.decoded.errors import NotDecodedError
from penstock.policies.schema_policy import compiled_schemas
from penstock.policy import Header, RetriableException
from tests.policies.schema_policy.fake_registry import FakeRegistry

pytestmark = pytest.mark.system

AVRO = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
PROTO = 'syntax = "proto3"; package shop; message Order { int64 id = 1; }'
JUDGED = {"confluent.value.schema.validation": "true"}
RULE = {"rules.r": "value.id > 0"}


@pytest.fixture
def registry():
    with FakeRegistry() as started:
        yield started


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "order.avsc").write_text(json.dumps(AVRO))
    (tmp_path / "order.proto").write_text(PROTO)
    (tmp_path / "order.json").write_text("{}")
    return tmp_path


def avro(number):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, AVRO, {"id": number})
    return out.getvalue()


def framed(number, data):
    return b"\0" + number.to_bytes(4, "big") + data


@pytest.fixture
def reader(folder):
    """Returns the reader of a policy, which is closed at the end."""
    policies = []

    def opened(policy, configs):
        made = policy()
        policies.append(made)
        made.use_folder(folder)
        made.configure(configs)
        return made

    def make(policy, configs, topic=JUDGED):
        return opened(policy, configs).value_reader("orders", topic)

    make.policy = opened
    yield make
    for made in policies:
        made.close()


@pytest.fixture
def by_registry(registry, reader):
    return reader(SchemaPolicy, {"schema.registry.url": registry.url})


def flaw(of, value, headers=()):
    with pytest.raises(NotDecodedError) as raised:
        of.read(value, headers)
    return str(raised.value)


@pytest.mark.parametrize(
    ("file", "value", "expected"),
    [
        ("order.avsc", avro(5), {"id": 5}),
        ("order.proto#shop.Order", b"\x08\x05", {"id": 5}),
        ("order.json", b'{"id": 0.10}', {"id": Decimal("0.10")}),
    ],
)
def test_by_a_file(reader, file, value, expected):
    of = reader(SchemaPolicy, {}, {**JUDGED, "schema.file": file})
    assert (of.read(value, ()), of.reads_headers) == (expected, False)
    assert flaw(of, b"\xff\xffsecret").startswith(
        "is not JSON" if "json" in file else "does not fit its schema"
    )


def test_values_that_are_not_judged(reader):
    keys = {"confluent.key.schema.validation": "true", "schema.file": "key=order.avsc"}
    assert reader(SchemaPolicy, {}, keys) is None
    assert reader(SchemaPolicy, {}, {}) is None


def test_by_a_registry(registry, by_registry):
    of = by_registry
    as_avro = registry.register("orders-value", json.dumps(AVRO), "AVRO")
    as_json = registry.register("orders-value", "{}", "JSON")
    as_proto = registry.register("orders-value", PROTO, "PROTOBUF")
    assert of.read(framed(as_avro, avro(5)), ()) == {"id": 5}
    assert of.read(framed(as_json, b'{"id": 0.1}'), ()) == {"id": Decimal("0.1")}
    assert of.read(framed(as_proto, b"\0\x08\x05"), ()) == {"id": 5}
    header = Header("__value_schema_id", framed(as_avro, b""))
    assert (of.read(avro(6), (header,)), of.reads_headers) == ({"id": 6}, True)
    header = Header("__value_schema_id", framed(as_avro, b"\x08"))
    assert flaw(of, avro(6), (header,)) == "has 1 bytes too many in the header with its schema id"
    assert flaw(of, framed(999, b"")) == "has schema id 999, which the registry does not know"
    assert flaw(of, b"secret").startswith("does not begin with a schema id")
    assert flaw(of, framed(as_avro, b"")).startswith("does not fit its schema: ")
    assert flaw(of, framed(as_json, b"x")) == "is not JSON"


def test_a_schema_that_cannot_be_used(registry, by_registry):
    of = by_registry
    broken = registry.register("orders-value", '{"type": "no"}', "AVRO")
    text = flaw(of, framed(broken, b""))
    assert text.startswith(f"has schema id {broken}, which cannot be used: ")


def test_a_registry_that_is_away(registry, by_registry):
    of = by_registry
    number = registry.register("orders-value", json.dumps(AVRO), "AVRO")
    registry.goes_away()
    with pytest.raises(RetriableException):
        of.read(framed(number, avro(5)), ())


def test_a_schema_is_compiled_once_for_all_topics(registry, reader, monkeypatch):
    compiled = []
    of = compiled_schemas.compile_schema
    monkeypatch.setattr(
        compiled_schemas, "compile_schema", lambda *a, **b: compiled.append(a) or of(*a, **b)
    )
    configs = {"schema.registry.url": registry.url}
    policies = ((SchemaPolicy, configs), (Rules, {**RULE, "format": "avro", **configs}))
    for number, (policy, own) in enumerate(policies):
        schema = {**AVRO, "name": f"Order{number}"}
        known = registry.register("orders-value", json.dumps(schema), "AVRO")
        made = reader.policy(policy, own)
        for topic in ("a", "b"):
            assert made.value_reader(topic, JUDGED).read(framed(known, avro(5)), ()) == {"id": 5}
        assert len(compiled) == number + 1


def test_bytes_after_an_id_in_a_header(registry, reader):
    """They are before no payload."""
    configs = {**RULE, "format": "avro", "schema.registry.url": registry.url}
    known = registry.register("orders-value", json.dumps(AVRO), "AVRO")
    header = Header("__value_schema_id", framed(known, b"\x08"))
    text = "has 1 bytes too many in the header with its schema id"
    assert flaw(reader(Rules, configs), b"", (header,)) == text


def test_rules(registry, reader):
    assert reader(Rules, RULE) is None
    file = {"format": "avro", "schema.file": "order.avsc"}
    assert reader(Rules, {**RULE, **file}).read(avro(5), ()) == {"id": 5}
    file = {"format": "protobuf", "schema.file": "order.proto#shop.Order"}
    assert reader(Rules, {**RULE, **file}).read(b"\x08\x05", ()) == {"id": 5}
    number = registry.register("orders-value", json.dumps(AVRO), "AVRO")
    of = reader(Rules, {**RULE, "format": "avro", "schema.registry.url": registry.url})
    assert of.read(framed(number, avro(5)), ()) == {"id": 5}

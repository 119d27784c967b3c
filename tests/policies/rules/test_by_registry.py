"""`Rules` over Avro whose schema a registry has."""

import io
import json
from uuid import UUID

import fastavro
import pytest

from penstock.configuration import ConfigurationError
from penstock.policies import Rules
from penstock.policy import Header
from penstock.policy.testing import judge
from tests.policies.schema_policy.fake_registry import FakeRegistry

pytestmark = pytest.mark.system

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "amount", "type": ["null", "double"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
RULE = {"rules.r": "value.amount > 1.0 && value.at > timestamp('2024-01-01T00:00:00Z')"}


@pytest.fixture
def registry():
    with FakeRegistry() as started:
        yield started


def payload(amount, at=1_800_000_000_000):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, {"amount": amount, "at": at})
    return out.getvalue()


def framed(number, data):
    return b"\0" + number.to_bytes(4, "big") + data


def verdicts(registry, records, **configs):
    configs = {"format": "avro", "schema.registry.url": registry.url, **RULE, **configs}
    return judge(Rules, records, topic="orders", configs=configs)


def test_each_value_is_read_by_its_schema(registry):
    number = registry.register("orders-value", json.dumps(SCHEMA), "AVRO")
    other = registry.register("other-value", '{"type": "object"}', "JSON")
    found = verdicts(
        registry,
        [
            framed(number, payload(1.5)),
            framed(number, payload(0.5)),
            framed(number, payload(None)),
            framed(number, b"SECRET"),
            framed(other, b"{}"),
            framed(999, b"x"),
            b"SECRET",
            None,
        ],
    )
    rule = "value.amount > 1.0 && value.at > timestamp('2024-01-01T00:00:00Z')"
    texts = [verdict.message for verdict in found]
    assert texts[:3] == [
        None,
        f'rule "r" failed: {rule}',
        f'rule "r" has no result: a value is null, or has a type that it cannot be used with: {rule}',
    ]
    assert texts[3].startswith(f"the value does not fit schema id {number}: ")
    assert texts[4] == f"the value has schema id {other}, which has the type JSON, not AVRO"
    assert texts[5] == "the value has schema id 999, which the registry does not know"
    assert texts[6].startswith("the value ")
    assert texts[7] is None
    assert "SECRET" not in "".join(filter(None, texts))


def test_keys_too(registry):
    number = registry.register("orders-key", json.dumps(SCHEMA), "AVRO")
    configs = {"format": "json", "key.format": "avro", "rules.r": "key.amount > 1.0"}
    good, bad = verdicts(
        registry,
        [{"key": framed(number, payload(2.0))}, {"key": framed(number, payload(0.0))}],
        **configs,
    )
    assert (good.message, bad.message) == (None, 'rule "r" failed: key.amount > 1.0')


def test_a_registry_that_is_away_postpones():
    class Away:
        url = "http://127.0.0.1:9"

    number = 1
    [found] = verdicts(
        Away, [framed(number, payload(2.0))], **{"schema.registry.timeout.ms": "300"}
    )
    assert found.outcome == "postponed"


def test_protobuf_needs_a_file(registry):
    with pytest.raises(ConfigurationError, match=r"format=protobuf needs schema\.file, like"):
        verdicts(registry, [b"x"], format="protobuf")


def test_a_batch_is_prepared_only_if_a_registry_is_used(registry):
    policy = Rules()
    policy.configure({"format": "avro", "schema.registry.url": registry.url, **RULE})
    assert "prepare_batch" in vars(policy)
    assert policy.get_hints().access_headers
    policy.close()
    plain = Rules()
    plain.configure(RULE)
    assert "prepare_batch" not in vars(plain)
    assert not plain.get_hints().access_headers
    plain.close()
    Rules().close()


def test_an_id_may_be_in_a_header(registry):
    number = registry.register("orders-value", json.dumps(SCHEMA), "AVRO")
    header = Header("__value_schema_id", b"\1" + UUID(registry.guid(number)).bytes)
    [found] = verdicts(registry, [{"value": payload(2.0), "headers": [header]}])
    assert found.message is None
    longer = Header("__value_schema_id", (header.value or b"") + payload(2.0))
    [found] = verdicts(registry, [{"value": b"", "headers": [longer]}])
    assert found.message == (
        f"the value has {len(payload(2.0))} bytes too many in the header with its schema id"
    )

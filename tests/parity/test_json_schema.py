"""The built-in JSON Schema check says the same at both doors."""

import json
import time

import pytest

from penstock.policy import Record
from tests.parity.test_parity import VALUES, Sinks, check
from tests.records.encoding import CODECS

SCHEMA = {
    "type": ["object", "array"],
    "required": ["id"],
    "properties": {
        "id": {"pattern": "^ord-[0-9]{2}$"},
        "amount": {"multipleOf": 0.01, "maximum": 1e30},
        "lines": {"items": {"$ref": "line.json"}},
    },
    "propertyNames": {"maxLength": 9},
    "items": {"maxItems": 3},
}
LINE = {"type": "object", "additionalProperties": {"type": "integer"}}
TEXTS = [
    b'{"id": "ord-12"}', b'{"id": "ord-1"}', b'{"id": "ord-12", "amount": 19.99}', b'{"id": 7, "amount": 1e400}',
    b'{"id": 7, "amount": 0.001}', b'{"id": 7, "lines": [{"a": 1}, {"a": "x"}]}', b'{"id": 7, "lines": [1]}',
    b'{"id": 7, "id": "x"}', b'{"id": "x", "id": 7}', b'{"id": 1, "a very long name": 1}', b"[" * 127 + b"]" * 127,
    b"[" * 128 + b"]" * 128, b"[[1, 2, 3], [1, 2, 3, 4]]", b'{"id": "\\ud800"}', b'{"id": 18446744073709551616}',
]  # fmt: skip


@pytest.fixture
def doors(spark, kafka, gateway, topic, admin, tmp_path):
    schemas = tmp_path / "schemas"
    schemas.mkdir()
    (schemas / "order.json").write_text(json.dumps(SCHEMA))
    (schemas / "line.json").write_text(json.dumps(LINE))
    (schemas / "key.json").write_text('{"minLength": 1}')
    properties = {
        "record.validation.policy.class.name": "penstock.policies.JsonSchema",
        "topics.parity-*.record.validation.policy": "key=key.json,value=order.json",
        "json.schema.folder": str(schemas),
        "policy.workers": "1",
    }
    return Sinks(spark, kafka, gateway(properties), topic, admin)


@pytest.mark.slow
def test_all_doors_have_the_same_verdicts_and_reasons(doors):
    now = int(time.time() * 1000)
    keys = [b'"k"', b'"k"', b'"k"', b'""', None]
    texts = [*TEXTS, *VALUES]
    records = [Record(now, keys[n % 5], text) for n, text in enumerate(texts)]
    codecs = list(CODECS)

    answers = check(doors, records, [codecs[n % len(codecs)] for n in range(len(records))])

    assert {outcome for outcome, _, _ in answers} == {"accepted", "refused"}
    assert ("refused", 87, "the key has fewer characters than 1") in answers
    assert ("refused", 87, 'the value at /id must match "^ord-[0-9]{2}$"') in answers

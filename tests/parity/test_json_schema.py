"""The built-in JSON Schema check says the same at both doors."""

import json
import time

import pytest

from penstock.policy import Record
from tests.kafka.records.encoding import CODECS
from tests.parity.json_texts import LINE, SCHEMA, TEXTS
from tests.parity.same import VALUES, Sinks, check


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

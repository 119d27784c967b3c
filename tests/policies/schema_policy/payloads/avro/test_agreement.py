"""Native, Python and a slow reference say the same of every payload."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.policies.schema_policy.payloads.avro.parse import parse
from penstock.policies.schema_policy.payloads.avro.table import flatten
from tests.policies.schema_policy.payloads.avro import reference
from tests.policies.schema_policy.payloads.avro.schemas import SCHEMAS, compiled, values, written
from tests.policies.schema_policy.payloads.avro.walk import Walker

BROAD = settings(max_examples=60, suppress_health_check=list(HealthCheck))
ID = b"\0\0\0\0\1"


def check(schema, payloads):
    """Verdicts are those of the reference, reasons those of Python; return how many fit."""
    expected = list(Walker(flatten(parse(json.dumps(schema), {}))).objections(payloads))
    # Any bare bytes fit.
    if schema != "bytes":
        assert list(compiled(schema).objections(payloads)) == expected
        with_id = [ID + payload for payload in payloads]
        assert list(compiled(schema).objections(with_id, len(ID))) == expected
        assert list(compiled(schema).objections(tuple(with_id), len(ID))) == expected
    refused = dict(expected)
    for position, payload in enumerate(payloads):
        assert (position not in refused) == reference.fits(schema, payload), payload
    return len(payloads) - len(refused)


@pytest.mark.thorough
@BROAD
@given(st.data())
def test_payloads_of_fastavro_fit_and_both_implementations_agree_on_parts_of_them(data):
    schema = data.draw(SCHEMAS)
    payload = written(schema, data.draw(values(schema)))

    assert check(schema, [payload]) == 1
    check(schema, [payload[:end] for end in range(min(len(payload), 300))])
    check(schema, [payload + b"\0", payload + b"\2", payload + payload])


@pytest.mark.thorough
@BROAD
@given(st.data())
def test_changed_payloads(data):
    schema = data.draw(SCHEMAS)
    payload = written(schema, data.draw(values(schema)))
    changed = []
    for _ in range(20):
        at = data.draw(st.integers(0, len(payload)))
        behind = at + data.draw(st.integers(0, 2))
        instead = data.draw(
            st.sampled_from(
                [b"", b"\0", b"\1", b"\2", b"\3", b"\x7f", b"\x80", b"\xff", b"\xff" * 9]
            )
            | st.binary(max_size=3)
        )
        changed.append(payload[:at] + instead + payload[behind:])

    check(schema, changed)


@BROAD
@given(SCHEMAS, st.binary(max_size=60))
def test_any_bytes(schema, payload):
    check(schema, [payload])

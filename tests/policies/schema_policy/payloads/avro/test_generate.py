"""The fast way says yes where a value fits, and nowhere else; the slow way always knows."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.policies.schema_policy.payloads.avro import generate as module
from penstock.policies.schema_policy.payloads.avro.generate import generate
from penstock.policies.schema_policy.payloads.avro.parse import parse
from penstock.policies.schema_policy.payloads.avro.walk import objection
from tests.policies.schema_policy.payloads.avro import reference
from tests.policies.schema_policy.payloads.avro.schemas import (
    LIST,
    SCHEMAS,
    TREE,
    compiled,
    values,
    written,
)

BROAD = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))


def fast_answer(fits, payload):
    """True, or anything else where it has no answer; the same behind a schema id."""
    answer = answer_of(fits, payload)
    assert (answer_of(fits, b"\0\0\0\0\1" + payload, 5) is True) is (answer is True)
    return answer


def answer_of(fits, *arguments):
    try:
        return fits(*arguments)
    except Exception:
        return None


def check(schema, payloads):
    """All three say the same of each payload; return how many fit."""
    root = parse(json.dumps(schema), {})
    fits = generate(root)
    assert fits is not None
    fitting = 0
    for payload in payloads:
        expected = reference.fits(schema, payload)
        text = objection(root, payload)
        assert (text is None) == expected, (text, payload)
        # Anything but yes is no answer; an array of items without bytes never has one.
        assert fast_answer(fits, payload) is not True or expected, payload
        fitting += expected
    return fitting


@pytest.mark.thorough
@BROAD
@given(st.data())
def test_what_fastavro_writes_fits_and_each_part_of_it_is_judged_as_the_reference_does(data):
    schema = data.draw(SCHEMAS)
    payload = written(schema, data.draw(values(schema)))

    assert check(schema, [payload]) == 1
    check(schema, [payload[:end] for end in range(min(len(payload), 300))])
    check(schema, [payload + b"\0", payload + b"\2", payload + payload])


@pytest.mark.thorough
@BROAD
@given(st.data())
def test_changed_payloads_are_judged_as_the_reference_does(data):
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
def test_any_bytes_are_judged_as_the_reference_does(schema, payload):
    check(schema, [payload])


@pytest.mark.parametrize("schema", [LIST, TREE], ids=["list", "tree"])
def test_what_is_ordinary_is_answered_fast(schema):
    fits = generate(parse(json.dumps(schema), {}))
    value = (
        {"n": {"n": None}} if schema is LIST else {"label": "é", "leaves": [], "named": {"a": 1}}
    )

    assert fits(written(schema, value)) is True


@pytest.mark.thorough
@BROAD
@given(st.data())
def test_every_payload_that_fits_is_answered_fast(data):
    """But arrays of items that take no bytes, and numbers longer than they need to be."""
    schema = data.draw(SCHEMAS)
    payload = written(schema, data.draw(values(schema)))
    root = parse(json.dumps(schema), {})

    assert fast_answer(generate(root), payload) is True or has_empty_items(root, set())


def has_empty_items(schema, seen):
    if id(schema) in seen:
        return False
    seen.add(id(schema))
    empty = schema.kind == "array" and schema.inner[0].size == 0
    return empty or any(has_empty_items(inner, seen) for inner in schema.inner)


def test_blocks_with_their_size_are_answered_fast():
    fits = generate(parse('{"type": "array", "items": "string"}', {}))

    assert fits(b"\x03\x08\x02a\x02b\x00") is True
    assert fast_answer(fits, b"\x03\x06\x02a\x02b\x00") is not True


def test_a_schema_of_any_depth_makes_code_that_can_be_compiled():
    schema = "int"
    for at in range(62):
        keyword = "items" if at % 2 else "values"
        schema = [{"type": "array" if at % 2 else "map", keyword: schema}, "null"]
    fits = generate(parse(json.dumps(schema[0]), {}))

    assert fits(b"\0") is True


def test_the_deepest_that_fits_is_answered_fast_and_one_more_is_not():
    root = parse(json.dumps(LIST), {})
    fits = generate(root)

    assert fits(b"\2" * 126 + b"\0") is True
    assert objection(root, b"\2" * 126 + b"\0") is None
    assert fast_answer(fits, b"\2" * 127 + b"\0") is None
    assert "inside more than 127" in objection(root, b"\2" * 127 + b"\0")


def test_a_large_schema_is_judged_the_slow_way(monkeypatch):
    many = {
        "type": "record",
        "name": "R",
        "fields": [{"name": f"f{at}", "type": "int"} for at in range(module.MAX_GENERATED + 1)],
    }
    assert generate(parse(json.dumps(many), {})) is None
    zeros = bytes(module.MAX_GENERATED + 1)

    assert list(compiled(many).objections([zeros, zeros[1:]])) == [
        (1, f"Avro: ends before the field f{module.MAX_GENERATED} does")
    ]


def test_no_name_gets_into_the_code(monkeypatch):
    seen = []
    monkeypatch.setattr(
        module, "compile", lambda source, *_, **__: seen.append(source) or "", raising=False
    )
    monkeypatch.setattr(module, "exec", lambda _, names: names.update(fits=None), raising=False)
    schema = {
        "type": "record",
        "name": "Zebra",
        "fields": [{"name": "yak", "type": ["null", "string"]}],
    }

    generate(parse(json.dumps(schema), {}))

    assert "Zebra" not in seen[0]
    assert "yak" not in seen[0]

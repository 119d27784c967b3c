"""JSON payloads: the verdicts of `penstock.policies.JsonSchema`, with references by name."""

import json
import urllib.request

import pytest

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.payloads.compiled import SchemaSource
from penstock.policies.schema_policy.payloads.json import MAX_REFERENCES, compile_json
from tests.policies.json_schema.schemas import check

ORDER = {
    "type": "object",
    "required": ["id"],
    "properties": {"id": {"type": "string"}, "amount": {"type": "number", "exclusiveMinimum": 0}},
}
SLOW = {"multipleOf": 2}
PAYLOADS = [
    b'{"id": "a", "amount": 1}',
    b'{"id": "a", "amount": 0}',
    b"{}",
    b"7",
    b"8",
    b"",
    b'{"id": "secret"',
    b"\xff",
    b"[" * 10_000 + b"]" * 10_000,
    b"1e999",
]


def compiled(schema, **references):
    texts = {name: json.dumps(reference) for name, reference in references.items()}
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return compile_json(SchemaSource("JSON", text, texts))


@pytest.mark.parametrize("schema", [ORDER, SLOW, True, False], ids=str)
def test_verdicts_and_reasons_are_those_of_the_policy_by_file(tmp_path, schema):
    by_file = check(tmp_path, schema)
    expected = [
        (at, text.removeprefix("the value "))
        for at, text in enumerate(by_file.objection(payload, "value") for payload in PAYLOADS)
        if text is not None
    ]

    assert list(compiled(schema).objections(PAYLOADS)) == expected
    assert (
        list(compiled(schema).objections([memoryview(payload) for payload in PAYLOADS])) == expected
    )
    behind_ids = [b"\0\0\0\0\1" + payload for payload in PAYLOADS]
    assert list(compiled(schema).objections(behind_ids, 5)) == expected
    assert expected
    assert "secret" not in str(expected)


def test_positions_are_right_however_many_there_are():
    fits, not_json = b"\0\0\0\0\1" + PAYLOADS[0], b"\0\0\0\0\1"
    payloads = [fits] * 600
    payloads[255] = payloads[256] = payloads[599] = not_json
    for schema in (compiled(ORDER), compiled(SLOW)):
        assert [at for at, _ in schema.objections(payloads, 5)] == [255, 256, 599]


def test_the_place_and_the_reason():
    assert list(compiled(ORDER).objections(PAYLOADS))[:3] == [
        (1, "at /amount must be greater than 0"),
        (2, 'lacks the property "id"'),
        (3, "must be of type object"),
    ]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "the schema is not JSON"),
        ('"\ud800"', "the schema is not JSON"),
        ("[]", "the schema is not a schema"),
        ('{"a":' * 100_000, "the schema is not JSON"),
        ('{"type": "strin"}', "is not a valid schema at /type"),
        ('{"$ref": "#"}', "leads back to itself"),
        ({"$ref": "http://localhost:9/x"}, "no reference has this name"),
        ({"$ref": "file:///etc/passwd"}, "no reference has this name"),
        ({"$ref": "/etc/passwd"}, "no reference has this name"),
        ({"$ref": "../../etc/passwd"}, "no reference has this name"),
        ({"type": "x" * 10_000}, "..."),
    ],
)
def test_unusable_schemas(monkeypatch, schema, message):
    monkeypatch.setattr(urllib.request, "urlopen", None)
    with pytest.raises(InvalidSchemaError) as raised:
        compiled(schema, **{"other.json": {}})
    assert message in str(raised.value)
    assert len(str(raised.value)) < 600


def doubling(times):
    schemas = {f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(times)}
    return {"$ref": "#/$defs/d0", "$defs": schemas | {f"d{times}": {"type": "object"}}}


def test_references_that_double_are_bounded():
    assert list(compiled(doubling(10)).objections([b"{}", b"1"])) == [(1, "must be of type object")]


def test_references_are_bounded():
    with pytest.raises(InvalidSchemaError, match=f"more than {MAX_REFERENCES} references"):
        compiled({}, **{f"r{at}": {} for at in range(MAX_REFERENCES + 1)})


def test_values_are_made_and_written():
    schema = compiled(ORDER)
    value = schema.decode(PAYLOADS[0])
    assert value == {"id": "a", "amount": 1}
    assert schema.encode(value) == b'{"id":"a","amount":1}'
    with pytest.raises(ValueError, match=r"^the payload is not JSON$"):
        schema.decode(b"secret")
    with pytest.raises(ValueError, match=r"^the value cannot be written as JSON$"):
        schema.encode({"secret": object()})


def test_formats_are_judged_if_configured():
    source = SchemaSource("JSON", json.dumps({"format": "email"}))
    assert list(compile_json(source).objections([b'"x"'])) == []
    refused = [(0, 'must be of format "email"')]
    assert list(compile_json(source, formats=True).objections([b'"x"'])) == refused
    of_ours = SchemaSource("JSON", json.dumps({"format": "of-ours"}))
    assert list(compile_json(of_ours, formats=True).objections([b'"x"'])) == []

"""The reasons of refusals: the place, and what the schema expects; no content of the record."""

import json
import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.policies.explanations import NO_REASON
from penstock.policies.json_schema.reasons import pointer
from tests.policies.json_schema.oracle import read
from tests.policies.json_schema.pairs import DRAFTS, Pairs
from tests.policies.json_schema.schemas import IMPLEMENTATIONS, check

CASES = [
    ({"type": "integer"}, '"x"', "the value must be of type integer"),
    ({"type": ["string", "null"]}, "1", "the value must be of type null or string"),
    ({"required": ["id"]}, "{}", 'the value lacks the property "id"'),
    ({"dependentRequired": {"a": ["b"]}}, '{"a": 1}', 'the value lacks the property "b"'),
    ({"enum": ["EUR", 1]}, "2", 'the value must be one of ["EUR", 1]'),
    ({"enum": ["x" * 300]}, "2", f'the value must be one of ["{"x" * 198}...'),
    ({"const": {"a": 1}}, "2", 'the value must be {"a": 1}'),
    ({"minimum": 3}, "2", "the value must be at least 3"),
    ({"maximum": 1.5}, "2", "the value must be at most 1.5"),
    ({"exclusiveMinimum": 3}, "3", "the value must be greater than 3"),
    ({"exclusiveMaximum": 3}, "3", "the value must be less than 3"),
    ({"multipleOf": 2}, "3", "the value must be a multiple of 2"),
    ({"minLength": 2}, '"s"', "the value has fewer characters than 2"),
    ({"maxLength": 2}, '"sss"', "the value has more characters than 2"),
    ({"pattern": "^a"}, '"s"', 'the value must match "^a"'),
    ({"minItems": 2}, "[1]", "the value has fewer items than 2"),
    ({"maxItems": 0}, "[1]", "the value has more items than 0"),
    ({"uniqueItems": True}, "[1, 1]", "the value has the same item twice"),
    ({"contains": {"type": "null"}}, "[1]", "the value does not have the items that contains asks for"),
    ({"prefixItems": [{}], "items": False}, "[1, 2]", "the value at /1 may not be there"),
    ({"unevaluatedItems": False}, "[1]", "the value has more items than the schema allows"),
    ({"minProperties": 1}, "{}", "the value has fewer properties than 1"),
    ({"maxProperties": 0}, '{"s": 1}', "the value has more properties than 0"),
    ({"additionalProperties": False, "properties": {"a": {}}}, '{"s": 1}', "the value has a property that the schema does not allow"),
    ({"unevaluatedProperties": False}, '{"s": 1}', "the value has a property that the schema does not allow"),
    ({"propertyNames": {"maxLength": 1}}, '{"ss": 1}', "the value has a property with a name that the schema does not allow"),
    ({"anyOf": [{"type": "null"}]}, "1", "the value fits no schema of anyOf"),
    ({"oneOf": [{}, {}]}, "1", "the value does not fit exactly one schema of oneOf"),
    ({"oneOf": [False]}, "1", "the value does not fit exactly one schema of oneOf"),
    ({"not": {}}, "1", "the value fits the schema of not"),
    (False, "1", "the value may not be there"),
    ({"properties": {"a": {"items": {"type": "null"}}}}, '{"a": [null, 1]}', "the value at /a/1 must be of type null"),
    ({"additionalProperties": {"type": "null"}}, '{"secret": 1}', "the value at /* must be of type null"),
    ({"patternProperties": {"^s": {"items": False}}}, '{"secret": [1]}', "the value at /*/0 may not be there"),
    ({"properties": {"a/b~c": False}}, '{"a/b~c": 1}', "the value at /a~1b~0c may not be there"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "text", "message"), CASES)
def test_a_reason_has_the_words_of_the_schema(tmp_path, schema, text, message, implementation):
    judged = check(tmp_path, schema, implementation=implementation)

    assert judged.objection(text.encode(), "value") == message


def test_encoded_bytes_that_are_no_text_are_refused_with_a_reason(tmp_path, implementation):
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "contentEncoding": "base64",
        "contentMediaType": "application/json",
    }
    judged = check(tmp_path, schema, implementation=implementation)

    reason = judged.objection(b'"/w=="')
    assert reason in {
        "the value breaks contentMediaType",
        'the value must be of media type "application/json"',
    }
    assert judged.objection(b'"e30="', "value") is None


def test_a_format_is_named(tmp_path, implementation):
    judged = check(tmp_path, {"format": "email"}, formats=True, implementation=implementation)

    assert judged.objection(b'"x"', "key") == 'the key must be of format "email"'


def test_items_beyond_a_list_of_schemas(tmp_path, implementation):
    schema = {"$schema": DRAFTS["7"], "items": [{}], "additionalItems": False}

    reason = check(tmp_path, schema, implementation=implementation).objection(b"[1, 2]", "value")

    assert reason == "the value has more items than the schema allows"


def test_a_pointer_shows_known_names_and_indexes():
    assert pointer(["a", 3, "b"], {"a"}) == "/a/3/*"
    assert pointer([], {"a"}) == ""


secrets = st.text(string.ascii_letters, min_size=8, max_size=20).map(lambda text: f"Secret{text}")


def planted(value, secret, names):
    """A value whose every string is the secret, and every name that the schema has not."""
    if isinstance(value, str):
        return secret
    if isinstance(value, list):
        return [planted(item, secret, names) for item in value]
    if isinstance(value, dict):
        return {
            name if name in names else f"{secret}{n}": planted(item, secret, names)
            for n, (name, item) in enumerate(value.items())
        }
    return value


@pytest.mark.thorough
@pytest.mark.parametrize("draft", DRAFTS)
@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), secret=secrets, number=st.integers(10**12, 10**15))
def test_no_text_has_anything_of_a_record(tmp_path_factory, draft, seed, secret, number):
    """For any schema, and any place of the secret."""
    folder = tmp_path_factory.mktemp("schemas")
    pairs = Pairs(draft, seed)
    schema = pairs.schema()
    judged = [judge for judge in (read(schema, folder, name) for name in IMPLEMENTATIONS) if judge]
    names = set(re.findall(r'"((?:[^"\\]|\\.)*)"', json.dumps(schema, ensure_ascii=False)))
    for _ in range(8):
        try:
            document = json.loads(pairs.text(schema))
        except ValueError:
            continue
        hidden = planted(document, secret, names)
        text = json.dumps(hidden).encode()
        for wrong in (text, text[:-1], text + b"}", json.dumps([hidden, number, secret]).encode()):
            for each in judged:
                reason = each.objection(wrong, "value") or ""
                assert secret not in reason
                assert str(number) not in reason


REF = {"$ref": "#"}
SEVERAL_WAYS = {
    "anyOf": {"type": ["object", "array"], "properties": {"a": {"anyOf": [REF, REF]}}},
    "oneOf": {"type": "object", "properties": {"a": {"oneOf": [REF, REF]}, "b": {"type": "null"}}},
    "allOf": {"type": "object", "properties": {"a": {"allOf": [REF, REF]}, "b": {"type": "null"}}},
    "in place": {
        "type": "object",
        "anyOf": [
            {"anyOf": [{"properties": {"a": REF}}, {"properties": {"a": REF}}]},
            {"properties": {"a": REF}, "required": ["c"]},
        ],
    },
    "beside": {"type": "object", "properties": {"a": REF}, "allOf": [{"properties": {"a": REF}}]},
    "patterns": {
        "type": "object",
        "properties": {"a": REF, "b": {"type": "null"}},
        "patternProperties": {"^a": REF},
    },
    "by a reference": {
        "$ref": "#/$defs/n",
        "$defs": {
            "n": {"type": "object", "properties": {"a": {"$ref": "#/$defs/both"}}},
            "both": {"anyOf": [{"$ref": "#/$defs/n"}, {"$ref": "#/$defs/m"}]},
            "m": {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}},
        },
    },
}


def nested(levels, inner, *more):
    """An object in an object, and so on."""
    document = inner
    for _ in range(levels):
        document = {"a": document} | dict(more)
    return json.dumps(document)


@pytest.mark.parametrize("schema", SEVERAL_WAYS.values(), ids=SEVERAL_WAYS)
def test_a_recursive_schema_with_several_ways_is_judged_once_for_each_value(
    tmp_path, schema, implementation
):
    """Two ways at each of a hundred levels would never end."""
    made = check(tmp_path, schema, implementation=implementation)
    reason = made.objection(nested(100, 1).encode())
    assert (reason == f"the value {NO_REASON}") is (implementation == "library")
    assert reason.startswith("the value ")
    assert made.objection(nested(100, {}, ("b", 1)).encode()) is None or ("b" in json.dumps(schema))
    found = made.objection(nested(100, {}).encode())
    assert (found is None) is ("oneOf" not in json.dumps(schema))


@pytest.mark.parametrize("schema", SEVERAL_WAYS.values(), ids=SEVERAL_WAYS)
def test_few_levels_have_a_reason(tmp_path, schema, implementation):
    found = check(tmp_path, schema, implementation=implementation).objection(nested(2, 1).encode())
    assert NO_REASON not in found


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}, REF]}}},
        {"type": "object", "properties": {"a": REF}, "items": REF, "additionalProperties": REF},
        {"type": "object", "required": ["a"], "properties": {"a": {"type": "array", "items": REF}}},
    ],
)
def test_a_recursive_schema_without_branches_has_its_reasons(tmp_path, schema, implementation):
    made = check(tmp_path, schema, implementation=implementation)
    assert NO_REASON not in made.objection(nested(100, 1).encode())

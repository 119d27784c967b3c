"""Words of schemas that judge nothing."""

import json
from random import Random

import pytest
from jsonschema_rs import validator_for

from penstock.policies import JsonSchema
from penstock.policies.json_schema.unread_words import unread_words

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
LATEST = "https://json-schema.org/draft/2020-12/schema"


def found(schema, draft=LATEST):
    return [*unread_words([{"$schema": draft, **schema}])]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            {"type": "object", "requierd": ["id"]},
            "requierd is no keyword, and judges nothing: did you mean required?",
        ),
        (
            {"properties": {"age": {"type": "integer", "min": 1}}},
            "at /properties/age, min is no keyword, and judges nothing: did you mean minimum?",
        ),
        (
            {"type": "object", "requiredProperties": ["id"]},
            "requiredProperties is no keyword, and judges nothing: did you mean required?",
        ),
        ({"items": [{"then": {}}]}, "at /items/0, then judges nothing without if"),
        (
            {"id": {"type": "string"}},
            "it has no keyword that judges a value, so every JSON value is accepted",
        ),
        (
            {"openapi": "3.0.0", "components": {"schemas": {"O": {"required": ["id"]}}}},
            "it has no keyword that judges a value, so every JSON value is accepted",
        ),
        (
            {"prefixItems": [{}], "additionalItems": False},
            "additionalItems is no keyword of draft 2020-12, and judges nothing",
        ),
    ],
)
def test_a_word_that_judges_nothing_is_reported(schema, expected):
    assert found(schema) == [expected]


def test_words_of_a_later_draft_are_reported():
    assert found({"dependentRequired": {"card": ["cvv"]}}, DRAFT_7) == [
        "dependentRequired is no keyword of draft 7, and judges nothing"
    ]


def test_keywords_beside_a_reference_are_reported_in_early_drafts_only():
    schema = {"properties": {"a": {"$ref": "#/definitions/x", "minLength": 3, "title": "A"}}}
    assert found(schema, DRAFT_7) == [
        "at /properties/a, draft 7 ignores minLength beside a $ref: write both into allOf"
    ]
    assert found(schema) == []


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "title": "a", "example": 1, "x-owner": "shop", "note": "a", "id": "a"},
        {"properties": {"requierd": {}, "min": {}, "then": {"enum": [{"min": 1}]}}},
        {"type": "object", "$defs": {"a": {}}, "definitions": {}, "$comment": "a", "default": {}},
        {"dependencies": {"a": ["b"]}, "examples": [1], "deprecated": True},
    ],
)
def test_nothing_is_reported_of_annotations_and_properties(schema):
    assert found(schema) == []


def test_the_policy_says_it_with_the_file(tmp_path):
    (tmp_path / "order.json").write_text(json.dumps({"type": "object", "requierd": ["id"]}))
    policy = JsonSchema()
    policy.use_folder(tmp_path)
    policy.configure({"schema": "order.json"})
    [warning] = policy.warnings
    assert warning == (
        "schema: order.json has words that judge nothing: requierd is no keyword, and judges "
        "nothing: did you mean required?"
    )
    policy.configure({})
    assert [*policy.warnings] == []
    policy.prepare_validation_policy("order.json")
    assert [text.partition(":")[0] for text in policy.warnings] == ["record.validation.policy"]


_KEYWORDS = {
    "minimum": 7,
    "min": 7,
    "const": 7,
    "minLength": 3,
    "minlength": 3,
    "required": ["a"],
    "requird": ["a"],
    "dependentRequired": {"b": ["a"]},
    "additionalProperties": False,
    "additionalItems": False,
    "contains": {"type": "null"},
    "propertyNames": {"maxLength": 0},
    "then": {"type": "null"},
    "minContains": 2,
    "unevaluatedProperties": False,
    "prefixItems": [{"type": "null"}],
}
_VALUES = [1, "", "a", {"b": 1}, [1, 1], None, 1.5]


def test_a_word_that_changes_no_verdict_is_reported():
    random = Random(52)
    drafts = [
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-06/schema#",
        DRAFT_7,
        "https://json-schema.org/draft/2019-09/schema",
        LATEST,
    ]
    for _ in range(1000):
        draft, word = random.choice(drafts), random.choice([*_KEYWORDS])
        around = random.choice(["properties", "patternProperties"])
        schema = {"$schema": draft, around: {"x": {word: _KEYWORDS[word]}}}
        judge = validator_for(schema)
        judges = not all(judge.is_valid({"x": value}) for value in _VALUES)
        reported = [*unread_words([schema])]
        assert judges == (not reported), (schema, reported)

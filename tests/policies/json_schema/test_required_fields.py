"""The fields without which no object fits a schema."""

import json

import pytest

from penstock.policies.json_schema.check import compile_check
from penstock.policies.json_schema.library import LibraryCheck
from penstock.policies.json_schema.required_fields import required_fields
from penstock.policies.json_schema.texts import SchemaTexts

OBJECT = {"type": "object", "required": ["b"], "properties": {"b": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "draft", "expected"),
    [
        (True, 2020, []),
        ({"properties": {"a": {"type": "string"}}}, 2020, []),
        ({"required": ["a"]}, 2020, [(("a",), ())]),
        (
            {"required": ["a"], "properties": {"a": OBJECT}},
            2020,
            [(("a",), ("object",)), (("a", "b"), ("string",))],
        ),
        ({"properties": {"a": OBJECT}}, 2020, []),
        (
            {"required": ["a"], "properties": {"a": {**OBJECT, "type": ["object", "null"]}}},
            2020,
            [(("a",), ("object", "null"))],
        ),
        ({"allOf": [{"required": ["a"]}, True]}, 7, [(("a",), ())]),
        ({"anyOf": [{"required": ["a"]}], "if": {"required": ["b"]}}, 2020, []),
        ({"$ref": "#/$defs/x", "required": ["a"]}, 2020, [(("a",), ())]),
        ({"$ref": "#/definitions/x", "required": ["a"]}, 7, []),
        (
            {"required": ["a"], "properties": {"a": {"$ref": "#", "type": "object"}}},
            7,
            [(("a",), ())],
        ),
    ],
)
def test_fields(schema, draft, expected):
    assert list(required_fields(schema, draft)) == expected


def test_both_judges_have_them():
    text = json.dumps({"required": ["a"]})
    library = LibraryCheck(SchemaTexts(text, {}), formats=False)
    native = compile_check(SchemaTexts(text, {}), formats=False)
    assert list(library.required_fields) == list(native.required_fields) == [(("a",), ())]

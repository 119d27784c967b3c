"""A pattern that is given up must not let a text pass."""

from __future__ import annotations

import pytest

from penstock.policies.json_schema.documents import SchemaError
from penstock.policies.json_schema.inversions import inverted_pattern
from tests.policies.json_schema.schemas import check

SLOW = "^(?=a)(a|aa)+$"
LINEAR = "^a+$"


@pytest.mark.parametrize(
    "schema",
    [
        {"not": {"pattern": SLOW}},
        {"if": {"properties": {"a": {"pattern": SLOW}}}, "then": False},
        {"oneOf": [{"pattern": LINEAR}, {"pattern": SLOW}]},
        {"properties": {"not": {"not": {"items": {"pattern": SLOW}}}}},
        {"patternProperties": {SLOW: False}},
        {"contains": {"pattern": SLOW}, "maxContains": 1},
        {"not": {"$ref": "#/$defs/a"}, "$defs": {"a": {"pattern": SLOW}}},
    ],
)
def test_names_a_pattern_whose_mismatch_lets_a_text_pass(tmp_path, schema):
    assert inverted_pattern([schema]) == SLOW
    with pytest.raises(SchemaError, match="a schema that refers to a metaschema"):
        check(tmp_path, schema, implementation="library")


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": SLOW},
        {"anyOf": [{"pattern": SLOW}, {"minLength": 3}]},
        {"not": {"pattern": LINEAR}},
        {"properties": {"not": {"pattern": SLOW}, "if": {"pattern": SLOW}}},
        {"contains": {"pattern": SLOW}},
        {"not": {"$ref": "#/$defs/a"}, "$defs": {"a": {"pattern": LINEAR}}},
        True,
    ],
)
def test_takes_every_other_schema(tmp_path, schema):
    assert inverted_pattern([schema]) is None
    check(tmp_path, schema, implementation="library")

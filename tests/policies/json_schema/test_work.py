"""How much work a schema is decides whether the library explains a refusal."""

from math import inf

import pytest

from penstock.policies.json_schema.documents import SchemaError
from penstock.policies.json_schema.work import MAX_SCHEMAS
from tests.policies.json_schema.pairs import DRAFTS
from tests.policies.json_schema.schemas import check


def many(levels):
    """A schema that is applied 2^levels times in one place."""
    defs = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} if n < levels else {}
        for n in range(levels + 1)
    }
    return {"$defs": defs, "$ref": "#/$defs/d0"}


def work(folder, schema):
    return check(folder, schema, implementation="library").check.work


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"anyOf": [{"type": "string"}, {"$ref": "#"}]},
        {"$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}}, "items": {"$ref": "#/$defs/a"}},
        {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a/allOf/0"}]}}, "$ref": "#/$defs/a"},
        {"$ref": "schema.json#"},
        {"dependentSchemas": {"a": {"if": {"$ref": "#"}}}},
    ],
)  # fmt: skip
def test_a_reference_without_a_target_is_refused(tmp_path, schema, implementation):
    with pytest.raises(SchemaError, match="leads back to itself without a step"):
        check(tmp_path, schema, implementation=implementation)


def test_a_keyword_that_a_draft_does_not_have_leads_nowhere(tmp_path, implementation):
    schema = {"$schema": DRAFTS["4"], "if": {"$ref": "#"}, "type": "string"}
    assert check(tmp_path, schema, implementation=implementation).objection(b'"a"') is None


def test_a_schema_that_would_take_days_is_refused(tmp_path):
    with pytest.raises(SchemaError, match=f"more than {MAX_SCHEMAS} schemas"):
        work(tmp_path, many(40))


def test_the_names_that_a_schema_mentions(tmp_path):
    schema = {
        "properties": {"a": {"required": ["b"]}},
        "dependentRequired": {"c": ["d"]},
        "patternProperties": {"^e": {"properties": {"f": {}}}},
        "enum": [{"g": "h"}],
    }
    assert work(tmp_path, schema).names == {"a", "b", "c", "d", "f"}


def test_work_is_estimated_from_sizes(tmp_path):
    plain = work(tmp_path, {"properties": {"a": {"type": "string"}}})
    assert plain.milliseconds(1000, 3) == plain.milliseconds(1000, 100) < 1
    branches = work(tmp_path, {"anyOf": [{"items": {"type": "string"}}]})
    assert branches.milliseconds(1000, 3) < branches.milliseconds(1000, 100) < 50
    several = work(tmp_path, {"properties": {"a": {"anyOf": [{"$ref": "#"}] * 2}}})
    assert several.milliseconds(100, 3) < several.milliseconds(100, 9) < several.milliseconds(1, 99)
    assert several.milliseconds(100, 100) == inf

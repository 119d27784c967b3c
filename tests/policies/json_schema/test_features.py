"""What a schema uses decides which way judges it, and whether its time is bounded."""

import pytest

from penstock.policies.json_schema.features import MAX_SCHEMAS
from penstock.policies.json_schema.files import SchemaError
from tests.policies.json_schema.pairs import DRAFTS
from tests.policies.json_schema.schemas import check

ARRAY = {"items": {"type": "integer"}}
TWICE = {"$defs": {"a": {"type": "integer"}}, "allOf": [{"$ref": "#/$defs/a"}] * 2}


def many(levels):
    """A schema that is applied 2^levels times in one place."""
    defs = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} if n < levels else {}
        for n in range(levels + 1)
    }
    return {"$defs": defs, "$ref": "#/$defs/d0"}


@pytest.mark.parametrize(
    ("schema", "slow"),
    [
        ({"type": "object", "properties": {"a": {"minimum": 1}}, "title": "t", "x-own": 1}, set()),
        ({"format": "date"}, set()),
        ({"multipleOf": 2}, {"multipleOf"}),
        ({"properties": {"a": {"items": {"multipleOf": 2}}}}, {"multipleOf"}),
        ({"$defs": {"a": {"multipleOf": 2}}, "items": {"$ref": "#/$defs/a"}}, {"multipleOf"}),
        ({"$defs": {"a": {"multipleOf": 2}}}, set()),
        ({"pattern": "^\\w+$"}, {"pattern ^\\w+$"}),
        ({"patternProperties": {"(a+)+": True}}, {"pattern (a+)+"}),
        ({"dependencies": {"a": ["b"]}}, {"dependencies"}),
        ({"contentEncoding": "base64"}, {"contentEncoding"}),
        ({"enum": [2**53 + 1]}, {"a number beyond 2^53"}),
        ({"const": {"a": [-(2**60)]}}, {"a number beyond 2^53"}),
        ({"not": {"$schema": DRAFTS["7"], "$ref": "#/$defs/o", "type": "string"}, "$defs": {"o": {}}},
         {"$schema inside a file"}),
        ({"$dynamicAnchor": "n", "items": {"$dynamicRef": "#n"}}, {"$dynamicAnchor", "$dynamicRef"}),
    ],
)  # fmt: skip
def test_only_what_both_ways_agree_about_is_fast(tmp_path, schema, slow):
    compiled = check(tmp_path, schema)

    assert compiled.features.slow == slow
    assert (compiled.fits is None) == bool(slow)


@pytest.mark.parametrize(
    ("draft", "schema", "slow"),
    [
        ("4", {"type": "integer"}, {"type integer in draft 4"}),
        ("4", {"type": ["null", "integer"]}, {"type integer in draft 4"}),
        ("6", {"type": "integer"}, set()),
        ("4", {"const": 1}, {"const"}),
        ("7", {"unevaluatedProperties": False}, {"unevaluatedProperties"}),
        ("2019-09", {"unevaluatedItems": False}, {"unevaluatedItems"}),
        ("2020-12", {"unevaluatedItems": False}, set()),
        ("7", {"$ref": "#/definitions/a", "multipleOf": 2, "definitions": {"a": {}}}, {"multipleOf"}),
    ],
)  # fmt: skip
def test_drafts_differ(tmp_path, draft, schema, slow):
    compiled = check(tmp_path, {"$schema": DRAFTS[draft], **schema})

    assert compiled.features.slow == slow


def test_a_format_is_judged_the_slow_way_where_formats_are(tmp_path):
    assert check(tmp_path, {"format": "date"}, formats=True).features.slow == {"format"}
    assert check(tmp_path, {"format": "date"}, formats=True).objection(b'"x"', "value")
    assert check(tmp_path, {"format": "date"}).objection(b'"x"', "value") is None
    with pytest.raises(SchemaError, match="Unknown format: 'of-ours'"):
        check(tmp_path, {"format": "of-ours"}, formats=True)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"anyOf": [{"type": "string"}, {"$ref": "#"}]},
        {"$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}}, "items": {"$ref": "#/$defs/a"}},
        {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a/allOf/0"}]}}, "$ref": "#/$defs/a"},
        {"$ref": "schema.json#"},
        {"$dynamicAnchor": "n", "allOf": [{"$dynamicRef": "#n"}]},
        {"dependentSchemas": {"a": {"if": {"$ref": "#"}}}},
    ],
)  # fmt: skip
def test_a_reference_that_leads_nowhere_is_refused(tmp_path, schema):
    with pytest.raises(SchemaError, match="leads back to itself without a step"):
        check(tmp_path, schema)


@pytest.mark.parametrize(
    ("schema", "bounded"),
    [
        ({"type": "object", "properties": {"a": ARRAY}, "additionalProperties": False}, True),
        ({"anyOf": [{"type": "string"}, {"const": 3}]}, True),
        (TWICE, True),
        ({"enum": list(range(299))}, True),
        ({"enum": list(range(300))}, False),
        ({"required": [str(n) for n in range(300)]}, False),
        ({"items": {"allOf": [{"enum": list(range(50))}] * 7}}, False),
        ({"pattern": "^[a-z]{1,20}$"}, True),
        ({"pattern": "a{1000}b"}, False),
        ({"patternProperties": {"a{1000}b": True}}, False),
        ({"items": {"$ref": "#"}}, False),
        ({"uniqueItems": True}, False),
        ({"anyOf": [ARRAY, {"type": "string"}]}, False),
        ({"oneOf": [{"allOf": [ARRAY]}]}, False),
        ({"multipleOf": 2}, False),
        (many(5), True),
        (many(12), False),
    ],
)
def test_what_is_bounded(tmp_path, schema, bounded):
    assert check(tmp_path, schema).features.bounded is bounded


def test_what_would_be_judged_for_days_is_refused(tmp_path):
    with pytest.raises(SchemaError, match=f"more than {MAX_SCHEMAS} schemas"):
        check(tmp_path, many(40))


def test_the_names_that_a_schema_mentions(tmp_path):
    schema = {
        "properties": {"a": {"required": ["b"]}},
        "dependentRequired": {"c": ["d"]},
        "patternProperties": {"^e": {"properties": {"f": {}}}},
        "enum": [{"g": "h"}],
    }
    assert check(tmp_path, schema).features.names == {"a", "b", "c", "d", "f"}

"""Which fields of a variable conditions read."""

import pytest

from penstock.policies.rules.paths import fields_read, only
from penstock.policies.schema_policy.rules.program import Language

LANGUAGE = Language(("value", "key"))


@pytest.mark.parametrize(
    ("texts", "fields"),
    [
        (["value.a > 0"], {"a": None}),
        (["value.a.b > 0 && value.a.c > 0"], {"a": {"b": None, "c": None}}),
        (["value.a.b > 0", "value.a.size() > 0"], {"a": None}),
        (["value.a.size() > 0", "value.a.b > 0"], {"a": None}),
        (["value['x y'].b == 1"], {"x y": {"b": None}}),
        (["value.a[0].b == 1"], {"a": None}),
        (["has(value.a.b)"], {"a": {"b": None}}),
        (["value.a.all(x, x.b > value.c)"], {"a": None, "c": None}),
        (["value.size() > 0"], None),
        (["value == key"], None),
        (["key == 'x'"], {}),
        (["[1].all(value, value > 0)"], None),
        (["value[key] == 1"], None),
    ],
)
def test_fields_that_are_read(texts, fields):
    trees = [LANGUAGE.compile(text).tree for text in texts]
    assert fields_read(trees, "value") == fields


def test_a_document_with_no_other_fields():
    fields = {"a": {"b": None}, "c": None}
    assert only({"a": {"b": [1], "x": 2}, "c": {"d": 1}, "y": 1}, fields) == {
        "a": {"b": [1]},
        "c": {"d": 1},
    }
    assert only({"a": [1, 2], "x": 1}, fields) == {"a": []}
    assert only("text", fields) == "text"
    assert only({"x": 1}, None) == {"x": 1}
    assert only({"x": 1}, {}) == {}

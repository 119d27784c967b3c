"""Schemas that replace conditions: the condition is true, or false, for every value that fits."""

import json

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.policies.json_schema.made import compile_made
from penstock.policies.rules.schemas import schema_of
from penstock.policies.schema_policy.rules.program import Language
from penstock.policies.schema_policy.rules.values import EvaluationError
from penstock.policies.schema_policy.rules.variables import Variables

LANGUAGE = Language(("value",))


def program(text):
    return LANGUAGE.compile(text, only_bool=True)


def result(found, document):
    """Return what a condition says about a value; None if it has no result."""
    try:
        return found.holds(Variables({"value": document}))
    except EvaluationError:
        return None


def holds(found, document):
    return result(found, document) is True


def fits(schema, data):
    return next(iter(compile_made(schema).refused((data,))), None) is None


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        ("value.a > 0", {"a": 1}, {"a": 0}),
        ("0 < value.a", {"a": 0.5}, {"a": -0.5}),
        ("value.a >= -1.5 && value.a < 10", {"a": -1.5}, {"a": 10}),
        ("value.a == 'x' || value.a == 'y'", {"a": "y"}, {"a": "z"}),
        ("value.a != null", None, {"a": None}),
        ("value.a in ['EUR', 'USD']", {"a": "USD"}, {"a": "CHF"}),
        ("!(value.a in [1, 2.5])", {"a": 2}, {"a": 2.5}),
        ("size(value.a) <= 2", {"a": "äö"}, {"a": "abc"}),
        ("value.a.size() > 1", {"a": [1, 2]}, {"a": [1]}),
        ("has(value.a.b)", {"a": {"b": None}}, {"a": {}}),
        ("!has(value.a) || value.a > 0", {}, {"a": 0}),
        ("has(value.a) ? value.a > 0 : value.b == 'x'", {"b": "x"}, {"a": 0, "b": "x"}),
        ("value.a.startsWith('a.c')", {"a": "a.cd"}, {"a": "abcd"}),
        ("value.a.endsWith('$')", {"a": "a$"}, {"a": "a"}),
        ("value['a'].contains('(x')", {"a": "a(x)"}, {"a": "x"}),
        ("value.a.matches('^[a-z]{2,3}$')", {"a": "ab"}, {"a": "ab\n"}),
        ("value.a", {"a": True}, {"a": "true"}),
        ("!value.a", {"a": False}, {"a": True}),
    ],
)
def test_conditions_that_have_a_schema(text, good, bad):
    found = program(text)
    schema = schema_of(found.tree)
    if good is None:
        assert schema is None
        return
    assert holds(found, good)
    assert fits(schema, json.dumps(good).encode())
    assert not holds(found, bad)
    assert not fits(schema, json.dumps(bad).encode())


@pytest.mark.parametrize(
    "text",
    [
        "value.a > value.b",
        "value.items.all(i, i > 0)",
        "value.a + 1 > 2",
        "value.a > 9007199254740993",
        "value.a.matches('(a|b).')",
        "value.a.matches('[[:alpha:]]')",
        "value.a < 'x'",
        "value.a == b'x'",
        "size(value.a) != 1",
        "now > timestamp(value.a)",
        "type(value.a) == string",
        "value.a.b[0] == 1",
        "value.a in value.b",
    ],
)
def test_conditions_without_a_schema(text):
    assert schema_of(program(text).tree) is None


NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([0.0, -0.0, 0.5, 1.0, 1.5, 2.0, 1e300, -1e300]),
    st.sampled_from([2**53, 2**53 + 1, -(2**53), 2**63, 2**63 - 1, -(2**63), 2**64 - 1]),
)
TEXTS = st.one_of(
    st.sampled_from(["", "a", "ab", "a.b", "b", "a\n", "a\0", "\0", "äb", "a-b", "1", "a+", "aab"]),
    st.text(max_size=4),
)
LEAVES = st.one_of(NUMBERS, TEXTS, st.booleans(), st.none())
FIELDS = ("a", "b", "c")
DOCUMENTS = st.one_of(
    st.dictionaries(
        st.sampled_from(FIELDS),
        st.one_of(
            LEAVES,
            st.lists(LEAVES, max_size=3),
            st.dictionaries(st.sampled_from(FIELDS), LEAVES, max_size=2),
        ),
        max_size=3,
    ),
    LEAVES,
    st.lists(LEAVES, max_size=2),
)
PLACES = st.sampled_from(["value.a", "value.b", "value.a.b", "value['c']", "value"])
CONSTANTS = st.sampled_from(
    ["0", "1", "-1", "2", "0.5", "1.0", "-0.0", "2u", "9007199254740992", "'a'", "'ab'", "''",
     "true", "false", "null", "9007199254740993"]
)  # fmt: skip
LISTS = st.sampled_from(["[1, 2]", "['a', 'ab']", "[1.5, 1]", "[true]", "['a', 1]", "[]", "[null]"])
PATTERNS = st.sampled_from(
    ["^a", "b$", "^[a-z]+$", "a+", "^a{1,2}$", "a.b", r"a\\.b", "^$", "[^a]", "^[a-z-]*$", "a?b",
     r"\\d", "[ab]{2}", "^[0-9]{1,}$", "(ab)+"]
)  # fmt: skip
ATOMS = st.one_of(
    st.builds(
        "{} {} {}".format, PLACES, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), CONSTANTS
    ),
    st.builds("{} {} {}".format, CONSTANTS, st.sampled_from(["<", ">=", "==", "!="]), PLACES),
    st.builds(
        "size({}) {} {}".format,
        PLACES,
        st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
        st.integers(-1, 3),
    ),
    st.builds("{} in {}".format, PLACES, LISTS),
    st.builds("{}.matches('{}')".format, PLACES, PATTERNS),
    st.builds(
        "{}.{}('{}')".format,
        PLACES,
        st.sampled_from(["startsWith", "endsWith", "contains"]),
        st.sampled_from(["a", ".", "a+", "", "(", "ä"]),
    ),
    st.builds("has({})".format, st.sampled_from(["value.a", "value.a.b", "value.c"])),
    st.builds("{}".format, PLACES),
)
CONDITIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds("({} && {})".format, inner, inner),
        st.builds("({} || {})".format, inner, inner),
        st.builds("!({})".format, inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
    ),
    max_leaves=4,
)


@pytest.mark.thorough
@settings(max_examples=1500)
@given(CONDITIONS, st.lists(DOCUMENTS, min_size=1, max_size=12))
def test_the_condition_is_true_or_false_for_values_that_fit_the_schema(text, documents):
    try:
        found = program(text)
    except ValueError:
        return
    except Exception as error:  # a condition that CEL's check refuses
        assert type(error).__name__ == "InvalidSchemaError", error
        return
    for expected in (True, False):
        schema = schema_of(found.tree, holds=expected)
        if schema is None:
            continue
        check = compile_made(schema)
        for document in documents:
            data = json.dumps(document).encode()
            if next(iter(check.refused((data,))), None) is None:
                assert result(found, orjson.loads(data)) is expected, (text, data, schema)

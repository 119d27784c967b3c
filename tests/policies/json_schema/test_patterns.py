"""Patterns that are said to be matched in linear time are, and mean the same to both engines."""

import json
import time

import corvus_json_schema_rs as corvus
import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.policies.json_schema.patterns import is_linear

LINEAR = [
    "^ord-[0-9]{6}$", "^[A-Z]{3}$", "^[a-z]+$", "^(EUR|USD|GBP)$", "^a*b?c$", "^\\d{4}-\\d{2}-\\d{2}$", "abc",
    "[0-9]{1,3}", "^[A-Za-z_][A-Za-z0-9_.-]*$", "^x\\.y\\/z$", "^$", "", "^(?:a|bc)d", "^[^/]+$", "^a{2,}$", "a\\$",
    "^[+-]?\\d+$", "^\\d{1,3}[.]\\d{1,2}$",
]  # fmt: skip
NOT_LINEAR = [
    "(a+)+", "^(a+)+$", "a+b", "^a+b+$", "^[a-z]+@[a-z]+$", ".", "^.*$", "\\w", "\\s", "(?=a)", "(?<!a)", "\\1",
    "^(a|b)*$", "a*?", "a{1,5}?", "\\p{L}", "\u00e4", "^a{2000}$", "[[:alpha:]]", "[\\w]", "a|b", "(a", "a)", "[a",
    "{2}", "^" + "a?" * 10, "^[a-z]{1,30}[a-z]{1,30}$", "x" * 1001, "^*", "a^b", "a$b", "\\u0061", "[b-a", "^a{3,2}$",
]  # fmt: skip


@pytest.mark.parametrize("pattern", LINEAR)
def test_linear(pattern):
    assert is_linear(pattern)


@pytest.mark.parametrize("pattern", NOT_LINEAR)
def test_not_known_to_be_linear(pattern):
    assert not is_linear(pattern)


@pytest.mark.parametrize("pattern", LINEAR)
def test_linear_patterns_take_no_time(pattern):
    fits = corvus.compile({"pattern": pattern}).is_valid_json
    for unit in ("a", "0", "1.", "ord-", "x.y/", "ab", "EU", "\u00e4", " "):
        text = json.dumps(unit * (300_000 // len(unit)) + "!").encode()
        begin = time.perf_counter()
        fits(text)
        assert time.perf_counter() - begin < 0.5


parts = st.sampled_from(
    ["a", "b", "-", "0", "\\d", "\\.", "[ab]", "[^a]", "[a-c0-9]", "[^0-9-]", "(a|bb)", "(?:b|0|)", "/", " "]
)  # fmt: skip
counts = st.sampled_from(["", "", "", "?", "*", "+", "{2}", "{1,2}", "{1,}", "{0}"])
patterns = st.builds(
    lambda start, body, end: start + "".join(body) + end,
    st.sampled_from(["", "^"]),
    st.lists(
        st.builds(lambda part, count: part + ("" if part[0] == "(" else count), parts, counts),
        max_size=5,
    ),
    st.sampled_from(["", "$"]),
).filter(is_linear)
texts = st.text(st.sampled_from("ab-0.1/ \n\u00e4\u0661\U0001f600\r\u2028c"), max_size=8)


@pytest.mark.thorough
@settings(max_examples=300, deadline=None)
@given(patterns, st.lists(texts, min_size=5, max_size=20))
def test_both_engines_match_the_same(pattern, some):
    fast = corvus.compile({"pattern": pattern})
    slow = jsonschema_rs.validator_for(
        {"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions()
    )
    for text in some:
        assert fast.is_valid_json(json.dumps(text)) == slow.is_valid(text), (pattern, text)

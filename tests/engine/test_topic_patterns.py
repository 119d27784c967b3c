"""The patterns of interceptors, against `re` on all short names of a small alphabet."""

import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.interceptors.topic_patterns import may_be_in_names

NAMES = ["".join(name) for length in range(5) for name in product("a0-.", repeat=length)]
PARTS = st.recursive(
    st.sampled_from(["a", "0", ",", " ", ".", "[a,]", "[,;]", "[^a]", r"[^\w.-]", r"\d", r"\s"]),
    lambda parts: st.one_of(
        st.tuples(parts, parts).map("".join),
        st.tuples(parts, parts).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        parts.map("({})?".format),
        parts.map("(?:{})+".format),
        parts.map("(?>{}){{0,2}}".format),
        parts.map("(?={})".format),
    ),
    max_leaves=4,
)


@settings(max_examples=1500, deadline=None)
@given(PARTS)
def test_a_pattern_that_is_found_in_a_name_may_be_in_names(text):
    pattern = re.compile(text)
    is_found = any(map(pattern.search, NAMES))
    assert may_be_in_names(pattern) >= is_found
    if "(?=" not in text:
        assert may_be_in_names(pattern) is is_found


@pytest.mark.parametrize(
    "text",
    [
        "orders,payments",
        "{orders,payments}",
        "orders, payments",
        "^orders/",
        "a,b|c,d",
        "ö",
        "[,;]",
    ],
)
def test_a_pattern_with_a_character_of_no_name_is_found_nowhere(text):
    assert not may_be_in_names(re.compile(text))


@pytest.mark.parametrize(
    "text", ["", "^orders", "orders|payments", "orders{1,2}", "a,?b", "(?!)", "$^", "[^,]", r"\W"]
)
def test_other_patterns_may_be_found(text):
    assert may_be_in_names(re.compile(text))


@pytest.mark.parametrize("depth", [50, 100, 150, 200, 250])
def test_groups_may_be_nested_as_deep_as_python_compiles_them(depth):
    try:
        pattern = re.compile("(" * depth + "a" + ")" * depth)
    except (RecursionError, OverflowError):
        return
    assert may_be_in_names(pattern)


@pytest.mark.parametrize("text", ["\u212a", "[\u017f]", "ORDERS"])
def test_letters_are_compared_as_re_does_without_regard_to_case(text):
    pattern = re.compile(text, re.IGNORECASE)
    assert pattern.search("orders-k")
    assert may_be_in_names(pattern)

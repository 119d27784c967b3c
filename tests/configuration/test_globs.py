"""Globs against `fnmatch`, on all short names of a small alphabet."""

import re
from fnmatch import fnmatchcase
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.configuration.globs import (
    check_glob,
    covers,
    in_words,
    is_glob,
    meaningless_in,
    shared_name,
)

NAMES = ["".join(name) for length in range(1, 6) for name in product("abz", repeat=length)]
"""No glob names `z`, which stands for all other characters."""
PARTS = st.sampled_from(["a", "b", "*", "?"])
WITH_SETS = st.sampled_from(["a", "b", "*", "?", "[ab]", "[!a]", "[a-b]", "[b]"])


def globs(parts):
    return st.lists(parts, min_size=1, max_size=4).map("".join)


def matched(glob: str) -> set[str]:
    return {name for name in NAMES if fnmatchcase(name, glob)}


@pytest.mark.parametrize(
    ("glob", "words"),
    [
        ("orders", ""),
        ("*", "all names"),
        ("orders.*", 'names that begin with "orders."'),
        ("*.eu", 'names that end with ".eu"'),
        ("*-pii-*", 'names with "-pii-" in them'),
        ("orders-??", 'names of "orders-", then 2 characters'),
        ("orders-?*", 'names of "orders-", then one character, then any characters'),
        ("a*b", 'names of "a", then any characters, then "b"'),
        ("orders[12]", 'names of "orders", then a character of 12'),
        ("[!_]*", "names of a character other than _, then any characters"),
        ("orders[a-c]", 'names of "orders", then a character of a-c'),
        ("**", "all names"),
    ],
)
def test_a_glob_is_described_in_words(glob, words):
    assert in_words(glob) == words


def of_words(words: str) -> re.Pattern[str]:
    """Return what the words say, as a regular expression."""
    words = words.removeprefix("names of ")
    for before, after in (
        ("all names", "any characters"),
        ("names that begin with (.*)", r"\1, then any characters"),
        ("names that end with (.*)", r"any characters, then \1"),
        ("names with (.*) in them", r"any characters, then \1, then any characters"),
    ):
        words = re.sub(f"^{before}$", after, words)
    pattern = ""
    for part in words.split(", then "):
        if part == "any characters":
            pattern += ".*"
        elif part.endswith(("one character", " characters")):
            pattern += "." * (1 if part.startswith("one") else int(part.split()[0]))
        elif part.startswith("a character other than "):
            pattern += f"[^{part.removeprefix('a character other than ')}]"
        elif part.startswith("a character of "):
            pattern += f"[{part.removeprefix('a character of ')}]"
        else:
            pattern += re.escape(part.strip('"'))
    return re.compile(pattern)


@settings(max_examples=1000, deadline=None)
@given(globs(WITH_SETS).filter(is_glob))
def test_the_words_mean_what_fnmatch_does(glob):
    pattern = of_words(in_words(glob))
    assert {name for name in NAMES if pattern.fullmatch(name)} == matched(glob)


@settings(max_examples=1000, deadline=None)
@given(globs(PARTS), globs(PARTS))
def test_a_glob_covers_another_if_it_matches_all_its_names(glob, other):
    assert covers(glob, other) is (matched(other) <= matched(glob))


@settings(max_examples=1000, deadline=None)
@given(globs(WITH_SETS), globs(WITH_SETS))
def test_a_glob_with_sets_covers_another_only_if_it_matches_all_its_names(glob, other):
    assert covers(glob, other) <= (matched(other) <= matched(glob))
    assert covers(glob, glob)
    assert covers("*", glob)


@settings(max_examples=1000, deadline=None)
@given(globs(WITH_SETS), globs(WITH_SETS))
def test_a_shared_name_is_matched_by_both(glob, other):
    name = shared_name(glob, other)
    assert (name is not None) is bool(matched(glob) & matched(other))
    assert name is None or (fnmatchcase(name, glob) and fnmatchcase(name, other))


@pytest.mark.parametrize(
    ("glob", "text"),
    [
        ("orders,payments", "is not one name or glob"),
        ("{a,b}", "is not one name or glob"),
        ("{a}", "is not one name or glob"),
        ("^{a,b}$", "is not one name or glob"),
        ("orders[12", "no topic's name has [ without its ]"),
        ("orders[,;]", "no topic's name has [,;]"),
        ("orders[;]", "no topic's name has [;]"),
        ("orders/eu", "no topic's name has /"),
        ("orders eu", "no topic's name has  "),
        ("bestellungen-ö", "no topic's name has ö"),
        ("!orders", "no topic's name has !"),
        ("a" * 250, "249 characters at most"),
        ("?" * 250 + "*", "249 characters at most"),
    ],
)
def test_a_glob_that_can_match_no_topic_is_an_error(glob, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        check_glob(glob)


@pytest.mark.parametrize(
    "glob", ["orders", "orders.*", "[!_]*", "[]a]", "[,a]", "a-b_c.D9", "*", "?" * 249, "orders.+"]
)
def test_other_globs_are_usable(glob):
    assert check_glob(glob) == glob


@settings(max_examples=1000, deadline=None)
@given(st.text(alphabet="ab*?[]!,{}^$|+\\(). /", min_size=1, max_size=5))
def test_every_glob_without_an_objection_matches_some_name(glob):
    try:
        is_usable = bool(check_glob(glob)) and not meaningless_in(glob)
    except ValueError:
        is_usable = False
    legal = "ab.-_0"
    some = any(
        fnmatchcase("".join(name), glob)
        for length in range(1, 6)
        for name in product(legal if length < 4 else "ab.", repeat=length)
    )
    assert is_usable is some


@pytest.mark.parametrize("glob", ["^orders", "orders$", "a|b", "orders.+", r"orders\.eu", "(a)"])
def test_a_glob_that_is_written_as_a_regular_expression_is_explained(glob):
    assert meaningless_in(glob).startswith("is a glob, not a regular expression")


@pytest.mark.parametrize("glob", ["orders.*", "orders.?", "[a-z]*", "orders"])
def test_a_glob_of_wildcards_is_no_regular_expression(glob):
    assert meaningless_in(glob) == ""

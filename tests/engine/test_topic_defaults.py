"""The topic level keys that the file sets for topics."""

from fnmatch import fnmatchcase
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.configuration.topic_keys import TopicDefault
from penstock.engine.plans.topic_defaults import TopicDefaults

LINES = [
    TopicDefault("*", "penstock.mode", "mark"),
    TopicDefault("b*", "penstock.mode", "observe"),
    TopicDefault("a*", "penstock.mode", "enforce"),
    TopicDefault("ab*", "record.validation.policy", "long"),
    TopicDefault("a?*", "record.validation.policy", "also long"),
    TopicDefault("abc", "penstock.policies", "x"),
]


def test_the_longest_glob_wins_key_by_key():
    defaults = TopicDefaults(LINES)
    assert defaults.settings("abc") == {
        "penstock.policies": "x",
        "record.validation.policy": "also long",
        "penstock.mode": "enforce",
    }
    assert defaults.settings("bcd") == {"penstock.mode": "observe"}
    assert defaults.settings("zzz") == {"penstock.mode": "mark"}


def test_of_equally_long_globs_the_first_in_the_alphabet_wins_in_any_order_of_lines():
    same = [TopicDefault("a?", "k", "question"), TopicDefault("a*", "k", "star")]
    for lines in (same, same[::-1]):
        assert TopicDefaults(lines).settings("ab") == {"k": "star"}


GLOBS = st.lists(st.sampled_from(["a", "b", "*", "?"]), min_size=1, max_size=3).map("".join)
NAMES = ["".join(name) for length in range(1, 5) for name in product("abz", repeat=length)]


def matched(glob):
    return {name for name in NAMES if fnmatchcase(name, glob)}


@settings(max_examples=1000, deadline=None)
@given(st.lists(GLOBS, min_size=1, max_size=5, unique=True))
def test_the_line_of_a_glob_is_the_first_that_matches_all_its_topics(globs):
    defaults = TopicDefaults([TopicDefault(glob, "k", glob) for glob in globs])
    for glob in globs:
        covering = [other for other in globs if matched(other) >= matched(glob)]
        first = min(covering, key=lambda other: (-len(other), other))
        assert defaults.settings_of_pattern(glob) == {"k": first}


def test_values_and_topics_are_those_of_all_lines():
    defaults = TopicDefaults(LINES)
    assert sorted(defaults.values("penstock.mode")) == ["enforce", "mark", "observe"]
    assert defaults.values("absent") == []
    assert defaults.topics == {"abc"}

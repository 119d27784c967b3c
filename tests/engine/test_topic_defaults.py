"""The topic level keys that the file sets for topics."""

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


def test_values_and_topics_are_those_of_all_lines():
    defaults = TopicDefaults(LINES)
    assert sorted(defaults.values("penstock.mode")) == ["enforce", "mark", "observe"]
    assert defaults.values("absent") == []
    assert defaults.topics == {"abc"}

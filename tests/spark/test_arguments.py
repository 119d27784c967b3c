"""The arguments of the functions: texts of topics and places, and what has no effect."""

import pytest

from penstock.configuration import ConfigurationError
from penstock.spark.arguments import (
    check_place,
    check_plan,
    check_text,
    check_unused,
    topic_name,
    topic_names,
)

pytestmark = pytest.mark.unit
FOLDERS = "read folders with Spark"


def names(topics):
    return topic_names(topics, "audit", folders=FOLDERS)


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        ("a", "a"),
        ("a,b*", "a,b*"),
        (["a", "b"], "a,b"),
        (("a", " "), "a, "),
        (frozenset({"a"}), "a"),
        ({"a"}, "a"),
        (5, None),
        (None, None),
        ({"a": 1}, None),
    ],
)
def test_names_of_topics_are_those_of_the_commands(topics, expected):
    assert names(topics) == expected


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        ("", "audit: name a topic"),
        (" , ", "audit: name a topic"),
        ([], "audit: name a topic"),
        (["a", 5], "audit: a topic: text is required, not int"),
        ("path:a", f"audit: path:a is not a topic; {FOLDERS}"),
        ("table:a", f"audit: table:a is not a topic; {FOLDERS}"),
        ("a,b/c", f"audit: b/c is not a topic; {FOLDERS}"),
    ],
)
def test_other_names_are_an_error(topics, message):
    with pytest.raises(ConfigurationError) as raised:
        names(topics)
    assert str(raised.value) == message


def test_one_topic():
    assert topic_name("a", "redrive: to", "redrive") == "a"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("a,b", "redrive: to: name one topic, not a,b"),
        (["a"], "redrive: to: text is required, not list"),
        ("", "redrive: to: name a topic"),
        ("/a", "redrive: to: /a is not a topic; for folders there is the command redrive"),
    ],
)
def test_another_number_of_topics_is_an_error(value, message):
    with pytest.raises(ConfigurationError) as raised:
        topic_name(value, "redrive: to", "redrive")
    assert str(raised.value) == message


def test_texts():
    assert check_text("a", "x") == check_place("a", "x") == "a"
    with pytest.raises(ConfigurationError, match=r"^x: text is required, not int$"):
        check_text(5, "x")
    with pytest.raises(ConfigurationError, match=r"^x: a name is required, not int$"):
        check_text(5, "x", such_as="a name")
    with pytest.raises(ConfigurationError, match=r"^x: earliest, .* as text is required, not int$"):
        check_place(5, "x")


def test_a_file_is_not_a_plan():
    with pytest.raises(ConfigurationError, match=r"^with: pass load_plan\(FILE\), not str$"):
        check_plan("penstock.properties", "with")


@pytest.mark.parametrize("value", [None, False, ""])
def test_arguments_that_are_not_given_are_no_error(value):
    check_unused({"a": value}, "no use")


@pytest.mark.parametrize("value", [True, "x", 0.5, [1]])
def test_arguments_without_effect_are_an_error(value):
    with pytest.raises(ConfigurationError, match=r"^b, d: no use$"):
        check_unused({"a": None, "b": value, "c": "", "d": "y"}, "no use")

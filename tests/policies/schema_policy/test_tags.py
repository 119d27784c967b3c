"""Patterns of `metadata.tags`."""

import pytest

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.tags import matches, read_patterns


@pytest.mark.parametrize(
    ("name", "pattern", "expected"),
    [
        ("eve", "eve*", True),
        ("alice.bob.eve", "a*.bob.eve", True),
        ("alice.bob.eve", "a*.bob.e*", True),
        ("alice.bob.eve", "a*", False),
        ("alice.bob.eve", "a**", True),
        ("alice.bob.eve", "alice.bob*", False),
        ("alice.bob.eve", "alice.bob**", True),
        ("a.b.ssn", "**.ssn", True),
        ("a.b.ssnx", "**.ssn", False),
        ("ssn", "**.ssn", False),
        ("$.user.ssn", "$.*.ssn", True),
        ("$.a.b.ssn", "$.*.ssn", False),
        ("a.b", "a?b", False),
        ("axb", "a?b", True),
        ("a+b", "a+b", True),
        ("aab", "a+b", False),
        ("a.b.c", "a.**.*", True),
        ("", "**", True),
    ],
)
def test_patterns(name, pattern, expected):
    # The first seven are the examples of Confluent's WildcardMatcher.
    assert matches(name, pattern) is expected


def test_a_pattern_cannot_take_long():
    assert not matches("a" * 900, "**a" * 300 + "b")
    assert not matches("a" * 900, "*a" * 300 + "b")


def test_tags_of_several_patterns_are_put_together():
    patterns = read_patterns({"tags": {"a.ssn": ["PII"], "**.ssn": ["SECRET"], "b.*": ["X"]}})
    assert patterns.of("a.ssn") == {"PII", "SECRET"}
    assert patterns.of("b.ssn") == {"X", "SECRET"}
    assert patterns.of("c.d") == frozenset()


def test_no_metadata_no_tags():
    assert read_patterns({}).of("a") == frozenset()
    assert read_patterns({"tags": None}).of("a") == frozenset()


@pytest.mark.parametrize("tags", [5, {"a": "PII"}, {"a": [1]}, {"a" * 2000: ["PII"]}])
def test_an_invalid_map_of_tags_is_refused(tags):
    with pytest.raises(InvalidSchemaError, match=r"metadata\.tags"):
        read_patterns({"tags": tags})

"""Sizes of regular expressions."""

import pytest

from penstock.policies.schema_policy.rules.patterns import size_of


@pytest.mark.parametrize(
    ("pattern", "size"),
    [
        ("", 0),
        ("abc", 3),
        ("^[0-9]{3}-[0-9]{2}-[0-9]{4}$", 11),
        ("a*b+c?", 3),
        ("(a|b)*", 2),
        ("(ab){3,5}", 10),
        ("(ab){3,}", 6),
        ("((a{50}){20}b?)+c", 1002),
        ("(?:a{10}){10}", 100),
        ("(?i)a", 2),
        (r"\d{4}\{5}", 7),
        (r"[]a-z{9}\]]{2}", 2),
        (r"[[:alpha:]]{4}", 4),
        (r"\Qa.b\E", 7),
        ("a{x}", 4),
    ],
)
def test_sizes(pattern, size):
    assert size_of(pattern) == size

"""Paths as policies take them."""

import pytest

from penstock.policies.json_paths import EVERY, find, parse, written

PATHS = [
    ("customer.email", ("customer", "email"), "customer.email"),
    ("cards[*].number", ("cards", EVERY, "number"), "cards[*].number"),
    ("[*].id", (EVERY, "id"), "[*].id"),
    ("$.customer.email", ("customer", "email"), "customer.email"),
    ("$[*].id", (EVERY, "id"), "[*].id"),
    ("$['$id']", ("$id",), "['$id']"),
    ("['$id']", ("$id",), "['$id']"),
    ('["$.a"].b', ("$.a", "b"), "['$.a'].b"),
    ("a['b.c'][*]['d[0]']", ("a", "b.c", EVERY, "d[0]"), "a['b.c'][*]['d[0]']"),
    (r"['it\'s']", ("it's",), "it's"),
    ("""['say "hi"']""", ('say "hi"',), 'say "hi"'),
    (r'["say \"hi\""]', ('say "hi"',), 'say "hi"'),
    (r"['\u00e4\\\u002c']", ("\u00e4\\,",), "\u00e4\\,"),
    (r"['it\'s a.b']", ("it's a.b",), r"['it\'s a.b']"),
    ("['/id']", ("/id",), "['/id']"),
    ("['*']", ("*",), "['*']"),
    ("$id", ("$id",), "['$id']"),
    ("a b", ("a b",), "a b"),
    ("['']", ("",), "['']"),
]


@pytest.mark.parametrize(("path", "steps", "again"), PATHS)
def test_paths(path, steps, again):
    assert parse(path) == steps
    assert written(steps) == again
    assert parse(again) == steps


@pytest.mark.parametrize(
    "path",
    ["", "$", "$.", "$..a", "$.*", "$.a.*", "a[0]", "a[?@.b]", "a['b'", "a[b]", "/a", "a..b", "a.",
     "['a','b']", "['a']b", r"['\q']", "['a\\']", "$['a'"],
)  # fmt: skip
def test_invalid_paths(path):
    with pytest.raises(ValueError, match="is not a path"):
        parse(path)


def test_names_that_have_to_be_in_quotes_are_found():
    document = {"$id": 1, "a.b": [{"it's": 2}, {"it's": 3}]}
    assert list(find(document, parse("$['$id']"))) == [1]
    assert list(find(document, parse(r"['a.b'][*]['it\'s']"))) == [2, 3]

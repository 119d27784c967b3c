"""Paths as policies take them."""

import pytest

from penstock.policies.json_paths import EVERY, PathTree, find, parse, split


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("customer.email", ("customer", "email")),
        ("cards[*].number", ("cards", EVERY, "number")),
        ("cards.*.number", ("cards", EVERY, "number")),
        ("$.cards.*.number", ("cards", EVERY, "number")),
        ("[*].id", (EVERY, "id")),
        ("*.id", (EVERY, "id")),
        ("*", (EVERY,)),
        ("$.*", (EVERY,)),
        ("$.a.*", ("a", EVERY)),
        ("$.customer.email", ("customer", "email")),
        (".customer.email", ("customer", "email")),
        ("$[*].id", (EVERY, "id")),
        ("$['$id']", ("$id",)),
        ("['$id']", ("$id",)),
        ('["$.a"].b', ("$.a", "b")),
        ("a['b.c'][*]['d[0]']", ("a", "b.c", EVERY, "d[0]")),
        (r"['it\'s']", ("it's",)),
        ("it's", ("it's",)),
        ("""['say "hi"']""", ('say "hi"',)),
        (r'["say \"hi\""]', ('say "hi"',)),
        (r"['\u00e4\\\u002c']", ("\u00e4\\,",)),
        (r"['it\'s a.b']", ("it's a.b",)),
        ("['/id']", ("/id",)),
        ("['*']", ("*",)),
        ("['0']", ("0",)),
        ("$id", ("$id",)),
        ("a.$id", ("a", "$id")),
        ("@type", ("@type",)),
        ("1st.2-3", ("1st", "2-3")),
        ("a b", ("a b",)),
        ("['']", ("",)),
        (" cards [ * ] ['number' ] .x ", ("cards", EVERY, "number", "x")),
        ("$ ['a']", ("a",)),
    ],
)  # fmt: skip
def test_paths(path, steps):
    assert parse(path) == steps


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", ""), ("$", ""), ("$.", ""), ("a[b]", ""), ("a['b'", ""), ("a.", ""), ("['a']b", ""),
        ("['a\\']", ""), ("$['a'", ""), ("$ a", ""), ("a]", ""), ("[*]b", ""),
        ("$..a", "has no .."), ("a..b", "has no .."), ("..", "has no .."), ("a..*", "has no .."),
        ("a[0]", "has no indexes and slices"), ("a[-1]", "has no indexes and slices"),
        ("a[1:3]", "has no indexes and slices"), ("a[::2]", "has no indexes and slices"),
        ("a[].b", "has no indexes and slices"), ("a.0.b", "a property with this name is ['0']"),
        ("a[?@.b]", "has no filters"), ("a[?(@.b==1)]", "has no filters"),
        ("a.length()", "has no filters and functions"), ("a.?b", "has no filters and functions"),
        ("['a','b']", "has one name in brackets"), ("a[*,'b']", "has one name in brackets"),
        ("card*", "has * only as a whole name"), ("a.**", "has * only as"),
        ("a.*b", "has * only as"), ("$*", "has * only as"),
        ("/a", "has other names in ['']"), ("a.'b'", "has other names in ['']"),
        ("a. b", "has other names in ['']"), ("@.a", "has other names in ['']"),
        ("a.b~", "has other names in ['']"), ("a.^", "has other names in ['']"),
        (r"['\q']", "has an escape that JSON lacks"),
    ],
)  # fmt: skip
def test_unsupported_parts_of_jsonpath_are_errors(path, why):
    with pytest.raises(ValueError, match="is not a path") as raised:
        parse(path)
    assert why in str(raised.value)


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("a, b.c ,d", ["a", "b.c", "d"]),
        ('a[\'b,c\'],[ "d,\\"," ]', ["a['b,c']", '[ "d,\\"," ]']),
        ("a['b,c", ["a['b", "c"]),
        ("it's,that's", ["it's", "that's"]),
        ("", [""]),
        (",a,", ["", "a", ""]),
    ],
)
def test_a_list_of_paths(text, items):
    assert split(text) == items


def test_paths_that_begin_alike_are_one_tree():
    tree = PathTree([parse("a.b"), parse("a.*"), parse("a"), parse("a.b")])

    assert tree.names["a"].ends == (2,)
    assert tree.names["a"].names["b"].ends == (0, 3)
    assert tree.names["a"].every.ends == (1,)
    assert tree.every is None


def test_names_that_have_to_be_in_quotes_are_found():
    document = {"$id": 1, "a.b": [{"it's": 2}, {"it's": 3}]}
    assert list(find(document, parse("$['$id']"))) == [1]
    assert list(find(document, parse(r"['a.b'][*]['it\'s']"))) == [2, 3]
    assert list(find(document, parse("*"))) == [1, document["a.b"]]
    assert list(find(document, parse("*.*.*"))) == [2, 3]


@pytest.mark.parametrize(
    "path",
    ["id;name", "a.b|c", "customer->email", "#name", "a!", "a=b"],
)
def test_separators_of_other_lists_are_errors(path):
    with pytest.raises(ValueError, match="is not a path"):
        parse(path)
    assert parse(f"['{path}']") == (path,)

"""How much work expressions may be."""

import pytest

from penstock.policies.schema_policy.rules.checked import read_tree
from penstock.policies.schema_policy.rules.program import Language
from penstock.policies.schema_policy.rules.work import (
    LARGEST,
    MOST,
    Size,
    always_allowed,
    work_of,
)

LANGUAGE = Language(["message"])
MEGABYTE = Size(1_000_000, 1_000, 1_000)


def tree_of(text):
    return read_tree(LANGUAGE._environment.compile(text).serialize())


@pytest.mark.parametrize(
    "text",
    [
        "message.a == message.b && message.c > 1",
        "message.items.all(x, x.p > 0)",
        "message.items.exists(x, x.currency == 'EUR')",
        "message.items.exists_one(x, x.p == 1)",
        "message.items.filter(x, x.p > 1).size() == 0",
        "message.items.map(x, x.p).size() > 0",
        "message.items.map(x, x.p > 1, x.p).all(p, p < 10)",
        "message.items.all(x, x.codes.all(y, y > x.least))",
        "message.items.all(x, x.a + x.b != '')",
        "message.a + message.b == message.c",
        "message.a.contains('x') && message.a.size() < 10",
        "message.a in message.b",
        "message.items.all(x, x.name.matches('^[a-z]+$'))",
        "message.a.replace('a', 'bb') == ''",
        "message.a.join(',') == ''",
        "'%s is %d'.format([message.a, 5]) == ''",
        "strings.quote(message.a) == ''",
        "message.items.map(x, [x, x]).size() > 0",
        "message.items.all(x, message.a.lowerAscii() == x || true)".replace("message.a", "x"),
        " && ".join(["message.all(x, x > 1)"] * 30),
    ],
)
def test_a_megabyte_is_little_for_linear_work(text):
    assert work_of(tree_of(text), MEGABYTE) < MOST


@pytest.mark.parametrize(
    "text",
    [
        "message.a.replace('', message.a) == ''",
        "message.a.replace('a', 'bbbbbbbbbbbbbbbb').replace('b', 'cccccccccccccccc') == ''",
        "message.a.join(message.b) == ''",
        "message.items.all(x, message.a.lowerAscii() == x)",
        "message.items.all(x, string(message.a) == x)",
        "message.items.all(x, x in message.allowed)",
        "message.items.map(x, message).size() > 0",
        "message.a.contains(message.b)",
        "message.a.indexOf(message.b) > 0",
        "message.a.matches(message.b)",
        "message.a.matches('((a{50}){20}b?)+c')",
        "message.a.all(x, message.b.all(y, message.c.matches('a')))",
    ],
)
def test_a_megabyte_is_too_much_for_quadratic_work(text):
    assert work_of(tree_of(text), MEGABYTE) > MOST
    assert work_of(tree_of(text), Size(100, 20, 20)) < MOST


def test_lists_that_grow_are_copied_for_each_item():
    # 9,900 items take 3 seconds and 1.5 GB.
    tree = tree_of("message.items.map(x, x.p).size() > 0")
    assert work_of(tree, Size(10_000, 9_900, 9_900)) > MOST
    assert work_of(tree, Size(1_000_000, 3_000, 3_000)) < MOST


def test_deep_loops_are_estimated_soon():
    text = "message.all(a, " * 12 + "true" + ")" * 12
    assert work_of(tree_of(text), MEGABYTE) < MOST


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("message.a == 1", LARGEST / 4, LARGEST),
        ("message.a.contains(message.b)", 1 << 15, 1 << 18),
        ("message.items.map(x, x).size() > 0", 1 << 11, 1 << 13),
        ("message.a.replace('', message.a) == ''", 1 << 11, 1 << 13),
    ],
)
def test_small_values_are_not_looked_at(text, least, most):
    assert least <= always_allowed(tree_of(text)) <= most


def test_names_and_messages_of_expressions_of_all_kinds():
    for text in ("true", "[1, 2] == [message]", "{'a': message} == {}", "message", "now == now"):
        assert always_allowed(tree_of(text)) >= 1 << 20, text


@pytest.mark.parametrize(
    "text",
    [
        f"message.all(x, decimals.lt(decimals.add(decimal('{'9' * 900}'), decimal(x)), decimal(x)))",
        "message.all(x, decimals.gt(decimals.sqrt(decimal(x)), decimal('0')))",
        "message.all(x, timestamp.of(x, 'ms') < now && timestamp.of(x, 's') < now)",
    ],
)
def test_a_function_in_python_is_dear_in_a_loop(text):
    # 9,000 items with the first of them take 5 seconds.
    assert work_of(tree_of(text), Size(100, 100, 100)) < MOST
    assert work_of(tree_of(text), Size(90_000, 9_000, 9_000)) > MOST / 5

"""What expressions may do."""

import pytest

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.rules.expression_tree import examine
from penstock.policies.schema_policy.rules.program import Language

LANGUAGE = Language(["message"])


def facts_of(text):
    return examine(LANGUAGE._environment.compile(text).serialize())


def test_what_is_found():
    facts = facts_of("message.a.matches('^a+$') && message.b == 'x' && now > timestamp('2020')")
    assert facts.names == {"message", "now"}
    assert facts.texts == {"^a+$", "x", "2020"}
    assert facts.patterns == {"^a+$"}
    assert not facts.multiplies


@pytest.mark.parametrize(
    "text",
    [
        "message.items.all(x, x.p > 0)",
        "message.items.exists(x, x.currency == message.currency)",
        "message.items.exists_one(x, x.p == 1)",
        "message.items.filter(x, x.p > 1).size() == 0",
        "message.items.map(x, x.p).size() > 0",
        "message.items.map(x, x.p > 1, x.p).all(p, p < 10)",
        "message.items.all(x, int(x.a) + int(x.b) > 2)",
        "message.items.all(x, x.codes.all(y, y > x.least))",
        "message.items.all(x, x in [1, 2, 3])",
        "message.counts.all(key, message.counts[key] > 0)",
        "message.a + message.b == message.c",
        "message.a.contains('x') && message.a.size() < 10",
        "message.a in message.b",
        "math.greatest(message.a, 2) == 2",
    ],
)
def test_the_work_grows_with_the_value(text):
    assert not facts_of(text).multiplies


@pytest.mark.parametrize(
    "text",
    [
        "message.items.all(x, x in message.allowed)",
        "message.items.all(x, size(message.b) > x)",
        "message.items.all(x, message.b.matches('a'))",
        "message.items.all(x, message.a == message.b)",
        "message.items.all(x, message.m[message.k] == x)",
        "message.items.all(x, message.others.all(y, y.matches('a')))",
        "message.a.contains(message.b)",
        "message.a.indexOf(message.b) > 0",
    ],
)
def test_the_work_grows_with_the_square(text):
    assert facts_of(text).multiplies


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("message.a.replace('a', 'bb') == ''", "calls replace"),
        ("message.a.join(',') == ''", "calls join"),
        ("message.a.format([1]) == ''", "calls format"),
        ("message.a.matches(message.b)", "pattern that is not a constant"),
        ("matches(message.a, message.b)", "pattern that is not a constant"),
        ("message.items.map(x, message).size() > 0", "read more than the item"),
        ("message.items.map(x, message.items.map(y, x)).size() > 0", "read more than the item"),
        ("message.items.map(x, [x, x]).size() > 0", "makes lists or maps inside a loop"),
        ("message.items.map(x, {'a': x}).size() > 0", "makes lists or maps inside a loop"),
        ("message.items.all(x, x.a + x.b == '')", "adds inside a loop"),
        ("message.items.all(x, string(message.a) == x)", "calls string inside a loop"),
        ("message.items.all(x, message.a.lowerAscii() == x)", "calls lowerAscii inside a loop"),
        ("message.a.all(x, x.all(y, y.all(z, z > 1)))", "nested more than 2 deep"),
        (" && ".join(["message.all(x, x > 1)"] * 11), "more than 10 loops"),
        (" && ".join(["message.a == 1"] * 200), "more than 400 parts"),
        (" && ".join(["message.a + message.b == message.c"] * 17), "more than 16 times"),
    ],
)
def test_what_is_refused(text, reason):
    with pytest.raises(InvalidSchemaError, match=reason):
        facts_of(text)

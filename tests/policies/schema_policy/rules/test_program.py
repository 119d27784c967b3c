"""Expressions in CEL."""

import pytest

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.rules.program import Language
from penstock.policies.schema_policy.rules.values import EvaluationError
from penstock.policies.schema_policy.rules.variables import Variables
from tests.policies.schema_policy.messages import order_class

SECRET = "4111-1111"


def holds(text, value=None, **more):
    return Language(["message"]).compile(text, **more).holds(Variables({"message": value}))


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("message.a == 1", {"a": 1}, True),
        ("message.a == 1", {"a": 2}, False),
        ("message.a > 1.5", {"a": 2}, True),
        ("size(message.s) == 9", {"s": "123456789"}, True),
        ("message.s.matches('^[0-9]+$')", {"s": "12a"}, False),
        ("message.s.isEmail()", {"s": "a@b.example"}, True),
        ("message.s.lowerAscii() == 'abc'", {"s": "ABC"}, True),
        ("!has(message.b) || message.b > 0", {"a": 1}, True),
        ("message.b == null", {"b": None}, True),
        ("message.data == b'a'", {"data": b"a"}, True),
        ("message.items.all(x, x.p > 0)", {"items": [{"p": 1}, {"p": 0}]}, False),
        ("now > timestamp('2020-01-01T00:00:00Z')", {}, True),
        ("message", True, True),
        ("message.big > 0", {"big": 2**63}, True),
    ],
)
def test_conditions(text, value, expected):
    assert holds(text, value) is expected


@pytest.mark.parametrize(
    ("text", "value", "reason"),
    [
        ("message.b == 1", {"a": SECRET}, "is not there"),
        ("message.m[message.k] == 1", {"k": SECRET, "m": {}}, "is not there"),
        ("message.a > 1", {"a": SECRET}, "has a type"),
        ("int(message.a) > 1", {"a": SECRET}, "ends with an error"),
        ("timestamp(message.a) > now", {"a": SECRET}, "reads a time with a zone"),
        ("timestamp(message.a) > now", {"a": "2026-01-31"}, "such as 2026-01-31T00:00:00Z"),
        ("message.a + 1 > 0", {"a": 2**63 - 1}, "a whole number is beyond 64 bits"),
        ("message.a", {"a": SECRET}, None),
        ("message.a", {"a": 5}, "neither true nor false"),
        ("message.a", {"a": [SECRET]}, "neither true nor false"),
        ("message == 1", {SECRET}, "ends with an error"),
        ("message == 1", "\ud800" + SECRET, "ends with an error"),
        ("message.all(x, x >= 0)", list(range(100_000)), "more than 10000 steps"),
        ("message.all(x, message.all(y, y >= 0))", list(range(1000)), "more than 10000 steps"),
    ],
)
def test_no_result_and_no_value_in_the_text(text, value, reason):
    if reason is None:
        assert holds(text, value) is False
        return
    with pytest.raises(EvaluationError, match=reason) as caught:
        holds(text, value)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_explanations_are_shown_if_they_are_constants():
    text = "message.a > 0 ? '' : (message.a == 0 ? 'must be positive' : message.s)"
    assert holds(text, {"a": 1, "s": SECRET}, may_be_text=True) is True
    assert holds(text, {"a": 0, "s": SECRET}, may_be_text=True) == "must be positive"
    assert holds(text, {"a": -1, "s": SECRET}, may_be_text=True) is False


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1 +", "is not valid"),
        ("nothing == 1", "is not valid"),
        ("message.nothing()", "is not valid"),
        ("1", "does not return true or false"),
        ("'text'", "does not return true or false"),
        ("message.a.matches('(')", "not a regular expression"),
        ("message.a == '" + "x" * 5000 + "'", "more than 4096 bytes"),
        ("(" * 500 + "true" + ")" * 500, "is not valid"),
        ("[" * 500 + "]" * 500 + " == message", "is not valid"),
    ],
)
def test_an_invalid_condition_is_refused(text, reason):
    with pytest.raises(InvalidSchemaError, match=reason):
        holds(text)


@pytest.mark.parametrize(
    ("text", "make", "large"),
    [
        (
            "message.a.contains(message.b)",
            lambda n: {"a": "a" * n, "b": "a" * (n // 2) + "b"},
            1_000_000,
        ),
        (
            "!message.items.all(x, x in message.allowed)",
            lambda n: {"items": [1] * n, "allowed": [2] * n},
            40_000,
        ),
        (
            "message.a.all(x, message.b.matches('c') || x == 1)",
            lambda n: {"a": [1] * n, "b": "b" * n},
            40_000,
        ),
        ("message.a.replace('', message.a) != ''", lambda n: {"a": "a" * n}, 1_000_000),
        ("message.map(x, x).size() >= 0", lambda n: [1] * n, 9_000),
        ("message.matches('((a{50}){20}b?)+c') || true", lambda n: "a" * n, 1_000_000),
    ],
)
def test_quadratic_expressions_are_for_small_values(text, make, large):
    assert holds(text, make(1000)) is True or "contains" in text
    with pytest.raises(EvaluationError, match="too much work for a value of this size"):
        holds(text, make(large))


def test_large_values_are_judged_by_linear_expressions():
    value = {"items": [{"name": "x" * 1000, "codes": [1] * 4} for _ in range(500)]}
    text = "message.items.all(x, x.name.matches('^x+$') && x.codes.all(c, c > 0))"
    assert holds(text, value) is True
    assert holds("message.items.map(x, x.name).size() == 500", value) is True
    assert holds("message.s.matches('^(a+)+$')", {"s": "a" * 500_000 + "b"}) is False


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("message.replace('a', 'bb') == 'bb'", "a"),
        ("message.join(',') == 'a,b'", ["a", "b"]),
        ("'%s: %d'.format(message) == 'a: 5'", ["a", 5]),
        ("strings.quote(message) == '\"a\"'", "a"),
        ("'abc'.matches(message)", "b"),
        ("message.map(x, [x, x]) == [['a', 'a']]", ["a"]),
        ("message.all(x, x + x == 'aa')", ["a"]),
        ("message.all(x, string(message[0]) == x)", ["a"]),
    ],
)
def test_any_function_may_be_called(text, value):
    assert holds(text, value) is True


def test_messages_and_enums_of_a_pool_of_their_own():
    of = order_class()
    language = Language(["message"], of.DESCRIPTOR.file.pool)
    message = of(id=3, ssn="123", state=1, count=5, names=["a"])
    for text in (
        "message.id == 3",
        "message.state == shop.State.PAID",
        "message.inner.ssn == ''",
        "!has(message.inner)",
        "message.count == 5",
        "message.count == 5u",
        "message.names.all(n, n == 'a')",
        "message == shop.Order{id: 3, ssn: '123', state: shop.State.PAID, count: 5u, names: ['a']}",
    ):
        assert language.compile(text).holds(Variables({"message": message})) is True, text
    with pytest.raises(EvaluationError, match="is not there"):
        language.compile("message.nothing == 1").holds(Variables({"message": message}))

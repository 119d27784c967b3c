"""Arithmetic of whole numbers and fractions in `Rules`, against Python's `int` and `float`."""

import json
import math
import operator
import random

import pytest

from penstock.configuration import ConfigurationError
from penstock.policies import Rules
from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.rules.program import Language
from penstock.policies.schema_policy.rules.values import EvaluationError
from penstock.policies.schema_policy.rules.variables import Variables
from penstock.policy.testing import judge

LEAST, MOST = -(2**63), 2**64 - 1
COMPARISONS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
FIELDS = "abc"


class NoResultError(Exception):
    pass


def verdicts(expression, values):
    configs = {"rules.r": expression}
    return [verdict.message for verdict in judge(Rules, values, topic="t", configs=configs)]


def verdict(expression, value):
    text = value if isinstance(value, str) else json.dumps(value)
    [found] = verdicts(expression, [text.encode()])
    return found


def of_json(number):
    """Return a number of JSON as Python's `int` if it is whole, as its `float` if not."""
    return int(number) if number == int(number) else number


def divided(left, right):
    if isinstance(left, int) and isinstance(right, int):
        if not right:
            raise NoResultError
        return int(math.copysign(1, left) * math.copysign(1, right)) * (abs(left) // abs(right))
    if right:
        return left / right
    if not left or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def calculated(sign, left, right):
    if sign == "/":
        result = divided(left, right)
    elif sign == "%":
        if not (isinstance(left, int) and isinstance(right, int) and right):
            raise NoResultError
        result = left - right * divided(left, right)
    else:
        result = {"+": operator.add, "-": operator.sub, "*": operator.mul}[sign](left, right)
    if isinstance(result, int) and not LEAST <= result <= MOST:
        raise NoResultError
    return result


def some_expression(numbers, depth, *, signs, literal):
    """Return an expression with its result for the value of each field."""
    kind = numbers.random()
    if depth == 0 or kind < 0.2:
        if kind < 0.05 or (depth == 0 and kind < 0.2):
            constant = literal(numbers)
            return repr(constant), lambda _: constant
        name = numbers.choice(FIELDS)
        return f"value.{name}", lambda value: value[name]
    sign = numbers.choice(signs)
    left, of_left = some_expression(numbers, depth - 1, signs=signs, literal=literal)
    right, of_right = some_expression(numbers, depth - 1, signs=signs, literal=literal)
    return f"({left} {sign} {right})", lambda value: calculated(
        sign, of_left(value), of_right(value)
    )


def compare_with_python(seed, *, signs, literal, number):
    """Judge 25 values by each of 60 conditions, and return how often each verdict was given."""
    numbers = random.Random(seed)
    seen = {None: 0, "failed": 0, "has no result": 0}
    for _ in range(60):
        while True:
            sign = numbers.choice(list(COMPARISONS))
            left, of_left = some_expression(numbers, 2, signs=signs, literal=literal)
            right, of_right = some_expression(numbers, 1, signs=signs, literal=literal)
            expression = f"{left} {sign} {right}"
            if "value" in expression and is_possible(expression):
                break
        values, expected = [], []
        for _ in range(25):
            given = {name: number(numbers) for name in FIELDS}
            value = {name: of_json(written) for name, written in given.items()}
            values.append(json.dumps(given).encode())
            try:
                holds = COMPARISONS[sign](of_left(value), of_right(value))
                expected.append(None if holds else "failed")
            except NoResultError:
                expected.append("has no result")
        for found, wanted, value in zip(
            verdicts(expression, values), expected, values, strict=True
        ):
            assert (found is None) == (wanted is None), (expression, value, found)
            assert wanted is None or wanted in found, (expression, value, found)
            seen[wanted] += 1
    return seen


def is_possible(expression):
    """Return whether CEL can have a result: constants may rule that out at start."""
    try:
        verdicts(expression, [])
    except ConfigurationError:
        return False
    return True


def test_mixed_numbers_as_in_python():
    def number(numbers):
        whole = numbers.randint(-1000, 1000)
        return numbers.choice([whole, float(whole), whole / 4, whole / 10, whole * 1e-3, 0])

    seen = compare_with_python(
        52,
        signs="++--***/%",
        literal=lambda numbers: numbers.choice([2, 100, 0.5, 0.19, 2.0, 1e3]),
        number=number,
    )
    assert min(seen.values()) > 50
    assert sum(seen.values()) == 1500


def test_whole_numbers_are_exact_up_to_64_bits():
    def number(numbers):
        whole = numbers.randint(0, 2 ** numbers.choice([4, 31, 54, 62, 63, 64]) - 1)
        return whole if numbers.random() < 0.6 else -whole // 2

    seen = compare_with_python(
        53,
        signs="+-*/%",
        literal=lambda numbers: numbers.choice([1, 2, 7, 2**53 + 1]),
        number=number,
    )
    assert min(seen.values()) > 50


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("value.paid + value.open == value.total", {"paid": 1.5, "open": 2, "total": 3.5}),
        ("value.tax == value.net * 0.19", {"tax": 19, "net": 100}),
        ("value.a + value.b == value.c", {"a": 2**63 - 1, "b": 1, "c": 2**63}),
        ("value.a + 1 == 9007199254740994", {"a": 2**53 + 1}),
        ("value.a % 2 == 1 && value.a / 2 == 3", '{"a":7.0}'),
        ("value.a % 2 == 1 && value.a / 2 == 3", '{"a":70e-1}'),
        ("value.a / 2.0 == 3.5", {"a": 7}),
        ("value.a > value.b", '{"a":9007199254740993,"b":9007199254740992.0}'),
        ("value.l.all(x, x.a * x.b == x.c)", {"l": [{"a": 2, "b": 0.5, "c": 1}, {"a": 1, "b": 2, "c": 2}]}),
        ("value.l.map(x, x * 2) == [2, 3.0]", {"l": [1, 1.5]}),
        ("math.ceil(value.a) == value.a && math.isFinite(value.a)", {"a": 7}),
        ("math.round(value.a * 100.0) / 100 == value.a", {"a": 7}),
        ("math.round(value.a * 100) / 100.0 == value.a", {"a": 7.25}),
        ("partition * 0.5 < 1", {}),
        ("size(value.l) * 0.5 == 1.5", {"l": [1, 2, 3]}),
        ("(value.a > 0 ? 1 : 0.5) == 1", {"a": 1}),
        ("value.a + 'x' == 'yx' && value.b + value.c == 1.5", {"a": "y", "b": 1, "c": 0.5}),
        ("value.a + value.a == 'y\\u0000y\\u0000' && 1.5 == value.c + 1", {"a": "y\0", "c": 0.5}),
        ("timestamp(value.t) + duration('1s') > timestamp(value.t) && value.n * 0.5 == 1",
         {"t": "2024-01-01T00:00:00.123456789Z", "n": 2}),
        ("string(decimal(value.a)) == '1.5' && value.b + value.c == 1.5", {"a": "1.5", "b": 1, "c": 0.5}),
        ("value.a in [1, 2.5] && value.b in [1, 2.5]", '{"a":1.0,"b":2.5}'),
        ("value.a - 18446744073709551615u == 0", {"a": 2**64 - 1}),
        ("-value.a < 0 && -value.b < 0", {"a": 2**63, "b": 0.5}),
    ],
)  # fmt: skip
def test_numbers_mix(expression, value):
    assert verdict(expression, value) is None


@pytest.mark.parametrize(
    ("expression", "value", "why"),
    [
        ("value.a + value.b > 0", {"a": 2**64 - 1, "b": 1}, "a whole number is beyond 64 bits"),
        ("-value.a < 0", {"a": 2**63 + 1}, "a whole number is beyond 64 bits"),
        ("-value.a < 0", {"a": "1"}, "a value is null, or has a type that it cannot be used with"),
        ("value.a / value.b > 0", {"a": 1, "b": 0}, "it divides by zero"),
        ("value.a % value.b == 0", {"a": 1, "b": 0}, "it divides by zero"),
        ("value.a % value.b == 0", {"a": 2**63, "b": 0}, "it divides by zero"),
        (
            "value.a % 2 == 1",
            {"a": 7.5},
            "a value is null, or has a type that it cannot be used with",
        ),
        (
            "value.a + value.b == 3",
            {"a": "1", "b": 2},
            "a value is null, or has a type that it cannot be used",
        ),
        (
            "value.a * value.b == 3",
            {"a": None, "b": 2},
            "a value is null, or has a type that it cannot be used",
        ),
        (
            "math.ceil(value.a) == 3",
            {"a": "3"},
            "a value is null, or has a type that it cannot be used with",
        ),
    ],
)
def test_conditions_without_a_result(expression, value, why):
    assert f'rule "r" has no result: {why}' in verdict(expression, value)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("value.a % 2.5 == 1", "no matching overload for '_%_' applied to '(dyn, double)'"),
        ("partition * 0.5", "does not return true or false"),
        ("(partition * 0.5) + 'a' == 'b'", "no matching overload for '_+_'"),
        ("partition * 0.5 > 1 && value.startsWith(1)", "no matching overload for 'startsWith'"),
        ("'1.5' + 1.5 == value.a", "no matching overload for '_+_' applied to '(string, double)'"),
    ],
)
def test_arithmetic_that_cel_has_not_is_an_error_at_start(expression, message):
    with pytest.raises(ConfigurationError, match=r"rules\.r: its condition") as error:
        verdicts(expression, [])
    assert message in str(error.value)


def test_rules_of_a_registry_have_numbers_as_cel_has_them():
    with pytest.raises(InvalidSchemaError, match="no matching overload"):
        Language(("value",)).compile("1 + 0.5 == 1.5")
    program = Language(("value",)).compile("value.a + value.b == 1.5")
    with pytest.raises(EvaluationError, match="a type that it cannot be used with"):
        program.holds(Variables({"value": {"a": 1, "b": 0.5}}))


def test_work_is_counted_for_mixed_numbers_too():
    expression = "value.l.all(x, value.l.all(y, x.a + y.a + 0.5 + x.a > 0))"
    assert "too much work" in verdict(expression, {"l": [{"a": 1}] * 5000})


@pytest.mark.parametrize("expression", ["{}" + "+1" * 28, "(1+" * 28 + "{}" + ")" * 28])
def test_long_and_nested_sums(expression):
    text = expression.format("value.a")
    total = text.count("1") + 0.5
    assert verdict(f"{text} == {total}", {"a": 0.5}) is None
    assert verdict(f"{text} == {total + 0.5}", {"a": 1}) is None

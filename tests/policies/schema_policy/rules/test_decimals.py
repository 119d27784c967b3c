"""Decimals in rules."""

import pytest

from penstock.policies.schema_policy.rules import decimals
from penstock.policies.schema_policy.rules.program import Language
from penstock.policies.schema_policy.rules.values import EvaluationError
from penstock.policies.schema_policy.rules.variables import Variables

LANGUAGE = Language(["message"])


def holds(text, value=None):
    return LANGUAGE.compile(text).holds(Variables({"message": value}))


@pytest.mark.parametrize(
    "text",
    [
        "decimals.eq(decimal('1.50'), decimal('1.5'))",
        "decimals.lt(decimal('0.1'), decimal('0.2'))",
        "decimals.le(decimal('0.2'), decimal('0.20'))",
        "decimals.gt(decimal(2), decimal(1u)) && decimals.ge(decimal(2), decimal(2.0))",
        "decimals.eq(decimals.add(decimal('0.1'), decimal('0.2')), decimal('0.3'))",
        "decimals.eq(decimals.sub(decimal('0.3'), decimal('0.2')), decimal('0.1'))",
        "decimals.eq(decimals.mul(decimal('1.1'), decimal('1.1')), decimal('1.21'))",
        "string(decimals.div(decimal(1), decimal(3))) == '0.' + '33333333333333333333333333333333333333'",
        "decimals.eq(decimals.mod(decimal('-7.5'), decimal('2')), decimal('-1.5'))",
        "decimals.eq(decimals.sqrt(decimal('6.25')), decimal('2.5'))",
        "decimals.eq(decimals.greatest(decimal(1), decimal(2)), decimal(2))",
        "decimals.eq(decimals.least(decimal(1), decimal(2)), decimal(1))",
        "decimals.eq(decimals.neg(decimal('1.5')), decimal('-1.5'))",
        "decimals.eq(decimals.abs(decimal('-1.5')), decimal('1.5'))",
        "decimals.sign(decimal('-1.5')) == -1 && decimals.sign(decimal('0.00')) == 0",
        "string(decimals.round(decimal('2.5'))) == '3' && string(decimals.round(decimal('-2.5'))) == '-3'",
        "string(decimals.round(decimal('2.345'), 2)) == '2.35'",
        "decimals.eq(decimals.round(decimal('1234'), -2), decimal('1200'))",
        "string(decimals.trunc(decimal('2.789'), 1)) == '2.7' && string(decimals.trunc(decimal('2.7'), 5)) == '2.7'",
        "string(decimals.floor(decimal('-2.1'))) == '-3' && string(decimals.ceil(decimal('2.1'))) == '3'",
        "string(decimal('1.50')) == '1.50' && string(decimal('1e3')) == '1000'",
        "double(decimal('1.5')) == 1.5",
        "decimals.eq(decimal(b'\\x00\\xff', 2), decimal('2.55'))",
        "decimals.eq(decimal(b'\\xff', 0), decimal(-1))",
        "decimals.eq(decimal(0.1), decimal('0.1'))",
    ],
)
def test_functions(text):
    assert holds(text) is True


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("1.5", "decimals.eq(decimal(message), decimal('1.5'))"),
        (3, "decimals.eq(decimal(message), decimal(3))"),
        (decimals.of_text("2.5"), "decimals.gt(message, decimal('2.4'))"),
        ({"a": decimals.of_text("2.5")}, "decimals.gt(message.a, decimal('2.4'))"),
        (decimals.of_text("2.5"), "decimal(message) == decimal('2.5')"),
    ],
)
def test_values(value, text):
    assert holds(text, value) is True


@pytest.mark.parametrize(
    "text",
    [
        "decimals.eq(decimal(message), decimal(1))",
        "decimals.div(decimal(1), decimal(0)) == decimal(1)",
        "decimals.mod(decimal(1), decimal(0)) == decimal(1)",
        "decimals.sqrt(decimal(-1)) == decimal(1)",
        "decimal('1_0') == decimal(10)",
        "decimal(' 1') == decimal(1)",
        "decimal('NaN') == decimal(1)",
        "decimal('1e99999') == decimal(1)",
        "decimal('1e-99999') == decimal(1)",
        "decimal(1.0 / 0.0) == decimal(1)",
        "decimal(b'1', 100000) == decimal(1)",
        "decimals.round(decimal(1), 100000) == decimal(1)",
        "decimals.mul(decimal('1e900'), decimal('1e900')) == decimal(1)",
    ],
)
def test_expressions_without_a_result(text):
    with pytest.raises(EvaluationError):
        holds(text, True)


def test_numbers_that_grow_end():
    text = "decimal('" + "9" * 900 + "')"
    with pytest.raises(EvaluationError):
        holds(f"decimals.mul({text}, {text}) == decimal(1)")

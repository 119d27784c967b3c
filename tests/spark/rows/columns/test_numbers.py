"""Numbers of columns are compared as those of JSON."""

from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.spark.rows.columns.numbers import numbers_of

pytestmark = pytest.mark.unit


def compared(array, keyword, limit):
    verdict = numbers_of(array, 2020).compared(keyword, limit)
    return verdict.to_pylist() if isinstance(verdict, pa.Array) else verdict


@pytest.mark.parametrize(
    ("keyword", "limit", "expected"),
    [
        ("minimum", 2.5, [False, True]),
        ("minimum", 3, [False, True]),
        ("exclusiveMinimum", 3, [False, False]),
        ("maximum", 2.5, [True, False]),
        ("exclusiveMaximum", 3.0, [True, False]),
        ("const", 3.0, [False, True]),
        ("const", 2.5, False),
        ("const", 2**70, False),
        ("maximum", 1e300, True),
        ("minimum", -(2**70), True),
        ("exclusiveMinimum", 2**63, False),
    ],
)
def test_whole_numbers(keyword, limit, expected):
    assert compared(pa.array([2, 3], pa.int8()), keyword, limit) == expected


def test_short_decimals_are_exact():
    decimals = pa.array([Decimal("0.10"), Decimal("0.11")], pa.decimal128(12, 2))
    assert compared(decimals, "minimum", 0.1) == [True, True]
    assert compared(decimals, "exclusiveMinimum", 0.1) == [False, True]
    assert compared(decimals, "const", 0.105) is False
    assert compared(decimals, "maximum", 0.105) == [True, False]
    assert compared(decimals, "maximum", 0.1234567890123456) is None
    assert compared(decimals, "maximum", 10**40) is True


def test_of_long_decimals_only_what_no_rounding_changes_is_known():
    texts = ["0.3", "0.30000000000000000001", "0.31", "0.29"]
    decimals = pa.array([Decimal(text) for text in texts], pa.decimal128(38, 20))
    assert compared(decimals, "minimum", 0.3) == [True, None, True, False]
    assert compared(decimals, "const", 0.3) == [True, None, False, False]
    assert compared(decimals, "exclusiveMinimum", 0) == [True, True, True, True]
    assert compared(decimals, "maximum", 1e300) is True


def test_doubles_that_are_no_numbers_are_strings():
    doubles = pa.array([1.5, float("nan"), float("inf"), None])
    assert compared(doubles, "minimum", 1) == [True, None, None, None]
    assert compared(doubles, "minimum", 2**53 + 1) is None
    assert numbers_of(doubles, 2020).are_whole().to_pylist()[:3] == [False, None, None]


def test_whole_numbers_of_other_types():
    assert numbers_of(pa.array([1]), 4).are_whole() is True
    assert numbers_of(pa.array([2.0, 2.5, 1e300]), 7).are_whole().to_pylist() == [True, False, None]
    assert numbers_of(pa.array([2.0]), 4).are_whole() is None
    assert numbers_of(pa.array([Decimal("2.00")]), 2020).are_whole() is None
    assert numbers_of(pa.array([Decimal(10**18)], pa.decimal128(38, 0)), 2020).are_whole() is True


def test_multiples():
    numbers = numbers_of(pa.array([6, -6, 7, 0]), 2020)
    assert numbers.are_multiples(3).to_pylist() == [True, True, False, True]
    assert numbers.are_multiples(0.5) is None
    assert numbers_of(pa.array([1.5]), 2020).are_multiples(1) is None


def test_a_fraction_of_32_bits_has_no_known_text():
    assert numbers_of(pa.array([0.1], pa.float32()), 2020) is None

"""Numbers for columns: each fits without a loss, or does not fit.

Only DOUBLE and FLOAT round, because decimal fractions are not exact in them.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal, Inexact, InvalidOperation
from math import isfinite, isinf, isnan
from typing import TYPE_CHECKING, Any, Final

from penstock.policies.decoded.floats import Single
from penstock.spark.values.misfits import MisfitError, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

_LARGEST_FLOAT: Final = float.fromhex("0x1.fffffep+127")
_DECIMAL_TEXT: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def boolean(value: Any) -> bool:
    """Return a BOOLEAN.

    Raises:
        MisfitError: It is of another kind.
    """
    if value is True or value is False:
        return bool(value)
    raise MisfitError(f"is {kind_of(value)}, not BOOLEAN")


def integer(bits: int, name: str) -> Callable[[Any], int]:
    """Return the conversion to integers of a size.

    Args:
        name: The type's name in SQL.
    """
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def convert(value: Any) -> int:
        if type(value) is int:
            if low <= value <= high:
                return value
        elif not isinstance(value, (Decimal, float)):
            raise MisfitError(f"is {kind_of(value)}, not {name}")
        elif isnan(value):
            raise MisfitError(f"is a number with a fraction, not {name}")
        elif low <= value <= high:  # before it is made an integer, which can be of any size
            whole = int(value)
            if whole == value:
                return whole
            raise MisfitError(f"is a number with a fraction, not {name}")
        raise MisfitError(f"is out of the range of {name}")

    return convert


def double(value: Any) -> float:
    """Return a DOUBLE.

    Raises:
        MisfitError: It is of another kind, or out of range.
    """
    return _double(value, "DOUBLE")


def single(value: Any) -> float:
    """Return a FLOAT, which Arrow rounds.

    Raises:
        MisfitError: It is of another kind, or out of range.
    """
    number = _double(value, "FLOAT")
    if isfinite(number) and abs(number) > _LARGEST_FLOAT:
        raise MisfitError("is out of the range of FLOAT")
    return number


def _double(value: Any, name: str) -> float:
    if isinstance(value, float):
        return float(value)
    kind = type(value)
    if kind is not int and kind is not Decimal:
        raise MisfitError(f"is {kind_of(value)}, not {name}")
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if isinf(number):
        raise MisfitError(f"is out of the range of {name}")
    return number


def decimal(precision: int, scale: int) -> Callable[[Any], Decimal]:
    """Return the conversion to decimals.

    A text with a number is taken, too: many producers write amounts so.

    Args:
        scale: The digits after the point.
    """
    name = f"DECIMAL({precision},{scale})"
    context = Context(prec=precision, traps=[Inexact, InvalidOperation])
    step = Decimal(1).scaleb(-scale)

    def convert(value: Any) -> Decimal:
        kind = type(value)
        if kind is float:
            value = repr(value)  # as it is written, not its digits in base 2
        elif kind is Single:
            value = value.shortest
        elif not (
            kind is int or kind is Decimal or (kind is str and _DECIMAL_TEXT.fullmatch(value))
        ):
            raise MisfitError(f"is {kind_of(value)}, not {name}")
        try:
            number = Decimal(value)  # its exponent has at most 18 digits
            if not number.is_finite():
                raise MisfitError(f"is not a number, as {name} is")
            fits = number.quantize(step, context=context)
        except (Inexact, InvalidOperation):
            raise MisfitError(f"has more digits than {name}") from None
        return fits

    return convert

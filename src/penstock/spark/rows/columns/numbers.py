"""Numbers of a column compared with those of a schema, as JSON's numbers are.

JSON's numbers are integers of 64 bits, exactly, or else the nearest double (`check.py` of
`json_schema`). Whole numbers and short decimals are compared exactly. Of a long decimal, whose
double may be rounded, only what is further away than any rounding is known.
"""

from __future__ import annotations

import math
import operator
from decimal import ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.rows.columns.kleene import Verdict, chosen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Number = int | float
_EXACT_DIGITS: Final = 15
"""No two decimals with so many digits are the same double."""
_FAR: Final = 10**_EXACT_DIGITS
_MARGIN: Final = 1e-12
"""How far from a limit, relative to it, no rounding leads to the other side."""
_LARGEST_DECIMAL: Final = 1e40
_WHOLE_BELOW: Final = float(2**40)
"""Below, a double in Java's form is whole only if it is whole itself."""
_WIDE: Final = Context(prec=400)
_COMPARISONS: Final[Mapping[str, tuple[Callable[..., Any], Callable[[Any, Any], bool]]]] = {
    "minimum": (pc.greater_equal, operator.ge),
    "exclusiveMinimum": (pc.greater, operator.gt),
    "maximum": (pc.less_equal, operator.le),
    "exclusiveMaximum": (pc.less, operator.lt),
    "const": (pc.equal, operator.eq),
}
LIMITS: Final = frozenset(_COMPARISONS)


class Numbers(Protocol):
    """The numbers of a column; where it is null, a verdict says nothing."""

    def compared(self, keyword: str, limit: Number) -> Verdict:
        """Return whether they are within a limit; `const` is equality."""

    def are_whole(self) -> Verdict:
        """Return whether they are whole numbers."""

    def are_multiples(self, divisor: Number) -> Verdict:
        """Return whether they are multiples of a number."""


def numbers_of(array: pa.Array, draft: int) -> Numbers | None:
    """Return the numbers of a column; None for other columns, and for 32-bit fractions.

    Java writes a 32-bit fraction with digits that differ with its version.
    """
    kind = array.type
    if pa.types.is_signed_integer(kind):
        bits = kind.bit_width
        return _Exact(array, Decimal(1), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if pa.types.is_float64(kind):
        return _Doubles(array, draft)
    if not pa.types.is_decimal128(kind):
        return None
    if kind.precision > _EXACT_DIGITS or kind.scale < 0:
        return _LongDecimals(array, draft)
    quantum = Decimal(1).scaleb(-kind.scale)
    most = Decimal((0, (9,) * kind.precision, -kind.scale))
    return _Exact(array, quantum, -most, most)


class _Exact:
    """Whole numbers, and decimals that no double rounds: all are multiples of a quantum."""

    def __init__(
        self, array: pa.Array, quantum: Decimal, least: Decimal | int, most: Decimal | int
    ) -> None:
        self._array = array
        self._quantum = quantum
        self._least, self._most = least, most
        self._is_decimal = pa.types.is_decimal(array.type)

    def compared(self, keyword: str, limit: Number) -> Verdict:
        if abs(limit) > _FAR and self._is_decimal:
            return _COMPARISONS[keyword][1](0, limit)
        exact = self._exact(limit)
        if exact is None:
            return None
        # A policy may have changed the decimal context of its process.
        whole = _WIDE.divide(exact, self._quantum).to_integral_value(ROUND_FLOOR, _WIDE)
        floor = _WIDE.multiply(whole, self._quantum)
        vectorised, of_two = _COMPARISONS[keyword]
        if floor != exact:  # no number of the column is between both
            if keyword == "const":
                return False
            above = keyword in {"minimum", "exclusiveMinimum"}
            vectorised, of_two = (pc.greater, operator.gt) if above else (
                pc.less_equal, operator.le,
            )  # fmt: skip
        if not self._least <= floor <= self._most:  # all are on one side of it
            return of_two(self._least, floor)
        return vectorised(self._array, self._scalar(floor))

    def are_whole(self) -> Verdict:
        # The double of a decimal with a fraction of zeros is whole, except in draft 4.
        return True if self._quantum == 1 else None

    def are_multiples(self, divisor: Number) -> Verdict:
        is_whole = isinstance(divisor, int) and not self._is_decimal
        if not is_whole or not 0 < divisor <= self._most:
            return None
        whole = pa.scalar(divisor, self._array.type)
        rest = pc.subtract(self._array, pc.multiply(pc.divide(self._array, whole), whole))
        return pc.equal(rest, pa.scalar(0, self._array.type))

    def _exact(self, limit: Number) -> Decimal | None:
        """Return a number of the schema exactly; None where the column has none as exact."""
        if not self._is_decimal:
            return _WIDE.create_decimal(limit)
        exact = Decimal(repr(limit))
        return exact if len(exact.normalize(_WIDE).as_tuple().digits) <= _EXACT_DIGITS else None

    def _scalar(self, number: Decimal) -> pa.Scalar:
        kind = self._array.type
        return pa.scalar(number if self._is_decimal else int(number), kind)


class _Doubles:
    """Doubles: Java writes digits that lead back to the same double, and a string for no number."""

    def __init__(self, array: pa.Array, draft: int) -> None:
        self._array = array
        self._draft = draft
        finite = pc.is_finite(array)
        self._finite = (
            None if pc.all(finite).as_py() in {True, None} else finite.fill_null(fill_value=True)
        )

    def compared(self, keyword: str, limit: Number) -> Verdict:
        double = float(limit) if abs(limit) < 2**1023 else math.inf
        if double != limit:  # an integer between two doubles
            return None
        return self._known(_COMPARISONS[keyword][0](self._array, double))

    def are_whole(self) -> Verdict:
        if self._draft == 4:
            return None
        small = pc.less(pc.abs(self._array), _WHOLE_BELOW).fill_null(fill_value=True)
        return self._known(chosen(small, pc.equal(self._array, pc.floor(self._array)), None))

    def are_multiples(self, divisor: Number) -> Verdict:
        del divisor
        return None

    def _known(self, verdict: Verdict) -> Verdict:
        return verdict if self._finite is None else chosen(self._finite, verdict, None)


class _LongDecimals:
    """Decimals that a double may round."""

    def __init__(self, array: pa.Array, draft: int) -> None:
        self._array = array
        self._draft = draft
        self._doubles = pc.cast(array, pa.float64())

    def compared(self, keyword: str, limit: Number) -> Verdict:
        of_two = _COMPARISONS[keyword][1]
        if abs(limit) > _LARGEST_DECIMAL:
            return of_two(0, limit)
        margin = abs(limit) * _MARGIN
        verdict: Verdict = None
        for is_there, outcome in (
            (self._are(limit), of_two(0, 0)),
            (pc.greater(self._doubles, limit + margin), of_two(1, 0)),
            (pc.less(self._doubles, limit - margin), of_two(0, 1)),
        ):
            if is_there is not None:
                verdict = chosen(is_there.fill_null(fill_value=False), outcome, verdict)
        return verdict

    def are_whole(self) -> Verdict:
        return True if self._array.type.scale == 0 and self._draft > 4 else None

    def are_multiples(self, divisor: Number) -> Verdict:
        del divisor
        return None

    def _are(self, limit: Number) -> pa.BooleanArray | None:
        """Return which are this number, digit by digit; None if the column cannot have it.

        The text of a number with a fraction is a double, also if all its digits are zeros.
        """
        if self._array.type.scale > 0 and abs(limit) >= _WHOLE_BELOW:
            return None
        try:
            return pc.equal(self._array, pa.scalar(Decimal(repr(limit)), self._array.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None

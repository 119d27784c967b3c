"""Verdicts on the values of a column: true, false, or not known.

A verdict is one for all values (`True`, `False` or None), or an Arrow array of booleans, whose
nulls are not known.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Verdict: TypeAlias = bool | pa.BooleanArray | None
_UNKNOWN: Final = pa.scalar(None, pa.bool_())


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """Return whether all hold; later verdicts are not made once one is false for all values."""
    return _combined(verdicts, pc.and_kleene, decisive=False)


def any_of(verdicts: Iterable[Verdict]) -> Verdict:
    """Return whether any holds; later verdicts are not made once one is true for all values."""
    return _combined(verdicts, pc.or_kleene, decisive=True)


def opposite(verdict: Verdict) -> Verdict:
    """Return whether a verdict does not hold."""
    if verdict is None:
        return None
    return not verdict if isinstance(verdict, bool) else pc.invert(verdict)


def chosen(condition: pa.BooleanArray, if_true: Verdict, if_false: Verdict) -> Verdict:
    """Return one of two verdicts on each value.

    Args:
        condition: Which of both; without nulls.
    """
    if if_true is if_false and not isinstance(if_true, pa.Array):
        return if_true
    return pc.if_else(condition, _operand(if_true), _operand(if_false))


def certain(verdict: Verdict, count: int) -> pa.BooleanArray:
    """Return for which of so many values a verdict certainly holds; without nulls."""
    if isinstance(verdict, pa.Array):
        return verdict.fill_null(fill_value=False) if verdict.null_count else verdict
    return pa.repeat(pa.scalar(verdict is True), count)


def _combined(
    verdicts: Iterable[Verdict],
    combine: Callable[[pa.Array, pa.Array], pa.Array],
    *,
    decisive: bool,
) -> Verdict:
    arrays: list[pa.BooleanArray] = []
    is_unknown = False
    for verdict in verdicts:
        if verdict is decisive:
            return decisive
        if verdict is None:
            is_unknown = True
        elif not isinstance(verdict, bool):
            arrays.append(verdict)
    if not arrays:
        return None if is_unknown else not decisive
    combined = reduce(combine, arrays)
    return combine(combined, _UNKNOWN) if is_unknown else combined


def _operand(verdict: Verdict) -> pa.Array | pa.Scalar:
    return verdict if isinstance(verdict, pa.Array) else pa.scalar(verdict, pa.bool_())

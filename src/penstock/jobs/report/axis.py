"""The scales of a chart: round numbers that are a little above the largest value."""

from __future__ import annotations

import math

_STEPS = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)


def round_up(value: float) -> float:
    """Return the least round number that is not below a number above 0."""
    power = 10.0 ** math.floor(math.log10(value))
    least = next(step for step in _STEPS if step * power >= value * (1 - 1e-9))
    # Rounded, since 3 * 0.1 is not 0.3.
    return round(least * power, 12)


def share_axis(largest: float) -> float:
    """Return the end of an axis of shares: at least 0.01 %, at most 100 %."""
    return min(1.0, round_up(max(largest, 0.0001)))


def short(number: float) -> str:
    """Return a number of records for an axis, such as `2.5 M`."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g} {letter}"
    return f"{number:.3g}"


def percent(part: float) -> str:
    """Return a share as percent: never 0 % for more than nothing, never 100 % for less than all."""
    if part in {0, 1}:
        return f"{part:.0%}".replace("%", " %")
    if part < 0.000001:
        return "< 0.0001 %"
    if part > 0.999:
        return "> 99.9 %"
    digits = f"{100 * part:.1f}" if part >= 0.1 else f"{100 * part:.2g}"
    return f"{digits.removesuffix('.0')} %"

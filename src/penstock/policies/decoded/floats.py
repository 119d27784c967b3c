"""Numbers of 32 bits, whose decimal text is shorter than that of the same number in 64 bits."""

from __future__ import annotations

import struct
from typing import Final

_FLOAT: Final = struct.Struct("<f")
_DIGITS: Final = 9
"""As many as distinguish any two numbers of 32 bits."""


class Single(float):
    """A number that a schema has as `float`."""

    __slots__ = ()

    @property
    def shortest(self) -> str:
        """The shortest text of the number in 32 bits: `0.1`, not `0.10000000149011612`."""
        for digits in range(1, _DIGITS + 1):
            text = f"{self:.{digits}g}"
            if _rounded(float(text)) == self:
                return text
        return repr(float(self))


def _rounded(number: float) -> float:
    try:
        (single,) = _FLOAT.unpack(_FLOAT.pack(number))
    except OverflowError:
        return float("nan")
    return float(single)

"""Work on the event loop that is cut into slices.

It is a generator that yields after each slice: after a number of steps, never after a time. Its
return value is the result. `gateway.turns` runs one slice of one such generator at a time, and
serves everything else in between.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Slices: TypeAlias = Generator[None, None, T]


def finish(slices: Slices[T]) -> T:
    """Do all of the work at once; return the result."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

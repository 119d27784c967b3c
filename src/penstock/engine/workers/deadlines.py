"""Things that are due at some time, found without looking at the others."""

from __future__ import annotations

import math
from typing import Final, Generic, TypeVar

_STEPS_A_SECOND: Final = 10
_NEVER: Final = math.inf

T = TypeVar("T")


class Deadlines(Generic[T]):
    """Keeps things by when they are due, to a tenth of a second."""

    def __init__(self) -> None:
        self._by_step: dict[int, dict[T, None]] = {}
        self._next = 0

    def add(self, one: T, at: float) -> None:
        """Add a thing that is due at a time; never, if that is infinite."""
        if at != _NEVER:
            step = max(int(at * _STEPS_A_SECOND) + 1, self._next)
            things = self._by_step.get(step)
            if things is None:
                things = self._by_step[step] = {}
            things[one] = None

    def discard(self, one: T, at: float) -> None:
        """Forget a thing; `at` is what it was added with. It may have been due."""
        if at == _NEVER:
            return
        step = int(at * _STEPS_A_SECOND) + 1
        things = self._by_step.get(step)
        if things is not None and one in things:
            del things[one]
            if not things:
                del self._by_step[step]

    def due(self, now: float) -> list[T]:
        """Take what is due."""
        last = int(now * _STEPS_A_SECOND)
        found: list[T] = []
        if last - self._next > len(self._by_step):
            steps = sorted(step for step in self._by_step if step <= last)
        else:
            steps = [step for step in range(self._next, last + 1) if step in self._by_step]
        for step in steps:
            found += self._by_step.pop(step)
        self._next = max(self._next, last + 1)
        return found

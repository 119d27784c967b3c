"""A timer wheel: finds due entries without reading the others."""

from __future__ import annotations

import math
from typing import Final, Generic, TypeVar

_STEPS_PER_SECOND: Final = 10
_NEVER: Final = math.inf

T = TypeVar("T")


class Deadlines(Generic[T]):
    """Items by the time at which they are due, to a tenth of a second."""

    def __init__(self) -> None:
        self._by_step: dict[int, dict[T, None]] = {}
        self._next = 0

    def add(self, item: T, deadline: float) -> None:
        """Add an item that is due at a time; never, if that is infinite."""
        if deadline != _NEVER:
            step = max(int(deadline * _STEPS_PER_SECOND) + 1, self._next)
            items = self._by_step.get(step)
            if items is None:
                items = self._by_step[step] = {}
            items[item] = None

    def discard(self, item: T, deadline: float) -> None:
        """Remove an item that was added with `deadline`; it may already have been due."""
        if deadline == _NEVER:
            return
        step = int(deadline * _STEPS_PER_SECOND) + 1
        items = self._by_step.get(step)
        if items is not None and item in items:
            del items[item]
            if not items:
                del self._by_step[step]

    def due(self, now: float) -> list[T]:
        """Remove and return the due entries."""
        last = int(now * _STEPS_PER_SECOND)
        due_items: list[T] = []
        if last - self._next > len(self._by_step):
            steps = sorted(step for step in self._by_step if step <= last)
        else:
            steps = [step for step in range(self._next, last + 1) if step in self._by_step]
        for step in steps:
            due_items += self._by_step.pop(step)
        self._next = max(self._next, last + 1)
        return due_items

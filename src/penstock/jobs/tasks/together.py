"""Runs several functions at a time, each of which mostly waits for brokers."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

T = TypeVar("T")
_LOOKED_EVERY_S: Final = 0.2


class Together(Generic[T]):
    """Runs generators that yield None while they are at work, some at a time, each in a thread."""

    def __init__(self, works: Sequence[Callable[[], Generator[None, None, T]]]) -> None:
        """Prepare.

        Args:
            works: The generators, in this order.
        """
        self._queue = deque(enumerate(works))
        self._results: dict[int, T] = {}
        self._errors: list[BaseException] = []
        self._steps = 0
        self._change = threading.Event()
        self._is_ended = False

    def run(self, most: int) -> Generator[None, None, list[T]]:
        """Run them; yields now and then while they are at work, and returns their results in order.

        Args:
            most: How many at a time.

        Raises:
            BaseException: What the first that failed raised. The others end at their next step, and
                are not waited for.
        """
        threads = [
            threading.Thread(target=self._work, name="penstock-range", daemon=True)
            for _ in range(min(most, len(self._queue)))
        ]
        for thread in threads:
            thread.start()
        last_steps = 0
        try:
            while any(thread.is_alive() for thread in threads) and not self._errors:
                self._change.wait(_LOOKED_EVERY_S)
                self._change.clear()
                if self._steps != last_steps:
                    last_steps = self._steps
                    yield
        finally:
            self._is_ended = True
        if self._errors:
            raise self._errors[0]
        return [self._results[number] for number in sorted(self._results)]

    def _work(self) -> None:
        while not self._is_ended:
            try:
                number, work = self._queue.popleft()
            except IndexError:
                break
            try:
                self._results[number] = self._driven(work())
            except BaseException as error:
                self._errors.append(error)
                break
            self._steps += 1
        self._change.set()

    def _driven(self, steps: Generator[None, None, T]) -> T:
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            self._steps += 1
            self._change.set()
            if self._is_ended:
                steps.close()
                raise CancelledError

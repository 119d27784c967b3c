"""Turns of the event loop: work that takes long is done in slices, one in each turn of the loop.

All connections share one slice at a time. So however much work they cause, others wait
for one slice at most.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from penstock.kafka.wire.slices import Slices, T


class Work:
    """Work that has begun, and is not finished."""

    __slots__ = ("on_done", "on_error", "slices")

    def __init__(
        self,
        slices: Slices[Any],
        on_done: Callable[[Any], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        self.slices: Slices[Any] | None = slices
        self.on_done = on_done
        self.on_error = on_error

    def cancel(self) -> None:
        """Stop; neither `on_done` nor `on_error` is called."""
        slices, self.slices = self.slices, None
        if slices is not None:
            slices.close()


class Steps:
    """Counts the steps of a coroutine's work, and cuts it into slices."""

    __slots__ = ("_done", "_size", "_turns")

    def __init__(self, turns: Turns, size: int) -> None:
        self._turns = turns
        self._size = size
        self._done = 0

    async def step(self) -> None:
        """Count a step; after the last one of a slice, wait for the next turn."""
        self._done += 1
        if not self._done % self._size:
            await self._turns.run(_nothing())

    async def over(self, values: Iterable[T]) -> AsyncIterator[T]:
        """Yield values again, each of which is a step."""
        for value in values:
            await self.step()
            yield value


class Turns:
    """Runs work in slices, that of several connections by turns."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        """Begin without work.

        Args:
            call_soon: Calls a function in the next turn of the event loop.
        """
        self._call_soon = call_soon
        self._waiting: deque[Work] = deque()
        self._is_next = False  # whether a turn is to come

    def begin(
        self,
        slices: Slices[T],
        on_done: Callable[[T], None],
        on_error: Callable[[Exception], None],
    ) -> Work | None:
        """Do the first slice at once, and the others in turns.

        Args:
            on_done: Called with its result; also at once, if there is no second slice.
            on_error: Called with its exception, if that is not raised in the first slice.

        Returns:
            The work, to cancel it; None if it is done.

        Raises:
            Exception: What the first slice raises.
        """
        try:
            next(slices)
        except StopIteration as end:
            on_done(end.value)
            return None
        work = Work(slices, on_done, on_error)
        self._waiting.append(work)
        self._take_turn_soon()
        return work

    async def run(self, slices: Slices[T]) -> T:
        """Do work in turns; return its result."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        work = self.begin(slices, partial(_set_result, future), partial(_set_exception, future))
        try:
            return await future
        finally:
            if work is not None:
                work.cancel()
            # An error keeps this frame: with the future it would be a cycle, collected seldom.
            del future, work

    def steps(self, size: int) -> Steps:
        """Return a counter of steps, for work that is a coroutine.

        Args:
            size: How many steps a slice has.
        """
        return Steps(self, size)

    def _take_turn_soon(self) -> None:
        """Schedule a single turn: work that ends may begin other work."""
        if self._waiting and not self._is_next:
            self._is_next = True
            self._call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_next = False
        work = self._waiting.popleft()
        try:
            if work.slices is not None:
                next(work.slices)
                self._waiting.append(work)
        except StopIteration as end:
            work.slices = None
            self._finish(work, end.value)
        except Exception as error:
            work.slices = None
            work.on_error(error)
        finally:
            del work  # an error keeps this frame, and may be kept by what the work ends with
            self._take_turn_soon()

    def _finish(self, work: Work, result: Any) -> None:
        try:
            work.on_done(result)
        except Exception as error:
            work.on_error(error)


def _set_result(future: asyncio.Future[T], result: T) -> None:
    if not future.done():  # its task may have been cancelled in this turn of the loop
        future.set_result(result)


def _set_exception(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def _nothing() -> Slices[None]:
    """Be done in the next turn: the slice is the coroutine's."""
    yield

"""Work in a separate thread, while Spark sees that the task is alive."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

T = TypeVar("T")
_LOOKED_EVERY_S: Final = 0.2


class HeartbeatThread(Generic[T]):
    """Runs work that calls `beat` now and then, in a thread."""

    def __init__(self) -> None:
        self._beats = 0
        self._is_cancelled = False

    def beat(self) -> None:
        """Signal that the work continues; called by the work.

        Raises:
            CancelledError: It is not wanted any more.
        """
        if self._is_cancelled:
            raise CancelledError
        self._beats += 1

    def run(self, work: Callable[[], T]) -> Generator[None, None, T]:
        """Run work in a thread; yield at each signal, and return its result.

        Raises:
            Exception: What the work raised.
        """
        future: Future[T] = Future()

        def do() -> None:
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=do, name="penstock-task", daemon=True).start()
        last_beats = 0
        try:
            while not future.done():
                with_result = _done_within(future, _LOOKED_EVERY_S)
                if not with_result and self._beats != last_beats:
                    last_beats = self._beats
                    yield
        finally:
            self._is_cancelled = True
        return future.result()


def _done_within(future: Future[T], seconds: float) -> bool:
    done_event = threading.Event()
    future.add_done_callback(lambda _: done_event.set())
    return done_event.wait(seconds)

"""Work that may wait for a cluster, in another thread: signals are handled meanwhile."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Result = TypeVar("_Result")
_POLL_S: Final = 0.2


def in_background(work: Callable[[], _Result]) -> Future[_Result]:
    """Start a function in a thread, which does not keep the process from ending."""
    future: Future[_Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def is_done(future: Future[_Result], is_ending: Callable[[], bool]) -> bool:
    """Wait until a result is there, or the process has to end; return whether it is there.

    Args:
        is_ending: Returns whether the process has to end.
    """
    while not is_ending():
        if wait((future,), _POLL_S).done:
            return True
    return False

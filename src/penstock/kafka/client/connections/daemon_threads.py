"""Threads for calls that may block for long, such as those to a KDC or to a token endpoint.

The end of a process does not wait for them, as it does for those of a `ThreadPoolExecutor`.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


class DaemonThreads(Executor):
    """Starts a thread for each call, so that a call that blocks does not hold up the next."""

    def __init__(self, name: str, limit: int) -> None:
        """Start no thread yet.

        Args:
            name: Of the threads.
            limit: The number of threads above which calls wait for another call to end.
        """
        self._name = name
        self._limit = limit
        self._lock = threading.Lock()
        self._count = 0
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    def submit(self, call: Callable[P, T], /, *args: P.args, **keywords: P.kwargs) -> Future[T]:
        """Let a call run; a call that is cancelled while it waits does not run."""
        future: Future[T] = Future()
        with self._lock:
            self._calls.append((future, lambda: call(*args, **keywords)))
            if self._count == self._limit:
                return future
            self._count += 1
        try:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        except RuntimeError:  # there are too many threads, or the process ends
            with self._lock:
                self._count -= 1
            raise
        return future

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._calls:
                    self._count -= 1
                    return
                future, call = self._calls.popleft()
            _settle(future, call)
            # A thread that waits for the lock keeps no result.
            del future, call


def _settle(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:
        future.set_exception(error)
        # Its traceback has this frame, which would keep the future, which has the error.
        del future
    else:
        future.set_result(result)

"""Asks a registry again for what is known already, in a thread.

Whoever needs the answer waits for it only for a while: what was said last is there. The thread
goes on asking, so that a registry that hangs, or is slow, holds up nothing that is known, and one
that is back is found out.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from penstock.policies.schema_policy.registry.errors import (
    RegistryAwayException,
    UnknownSchemaError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_WAITING: Final = 1000
"""How many questions may wait to be asked."""
_IDLE_S: Final = 60.0
"""How long the thread is there without anything to ask."""
_LATE: Final = "the schema registry takes too long; what it said last counts"
_Client = TypeVar("_Client")
_Found = TypeVar("_Found")


class Refresher(Generic[_Client]):
    """Questions that are asked in a thread. It is used by one thread.

    Attributes:
        is_away: Whether the registry did not answer the last question in time.
    """

    def __init__(self, client: _Client) -> None:
        """Ask nothing yet.

        Args:
            client: Asks the registry; used by the thread alone.
        """
        self.is_away = False
        self._client = client
        self._pending: dict[object, Future[Any]] = {}
        self._questions: deque[tuple[Future[Any], Callable[[_Client], Any]]] = deque()
        self._changed = Condition()
        self._thread: Thread | None = None
        self._ends = False

    def ask(self, key: object, question: Callable[[_Client], _Found], wait: float) -> _Found:
        """Return the answer to a question, if it comes soon.

        One that comes late is what the next call for the same key returns.

        Args:
            key: What is asked: a question that is on its way is not asked twice.
            question: Asks it.
            wait: Seconds to wait at most; no time where the registry is away.

        Raises:
            UnknownSchemaError: The registry says so.
            RetriableException: It does not answer; a `RegistryAwayException` where it takes
                longer than that.
        """
        pending = self._pending.get(key)
        if pending is None:
            if len(self._pending) >= MOST_WAITING:
                self._pending = {
                    one: asked for one, asked in self._pending.items() if not asked.done()
                }
            if len(self._pending) >= MOST_WAITING:
                raise RegistryAwayException(_LATE)
            pending = self._pending[key] = Future()
            self._start(pending, question)
        try:
            found: _Found = pending.result(0 if self.is_away else max(0.0, wait))
        except TimeoutError:
            self.is_away = True
            raise RegistryAwayException(_LATE) from None
        finally:
            if pending.done():
                del self._pending[key]
        return found

    def close(self) -> None:
        """Ask nothing more."""
        with self._changed:
            self._ends = True
            self._changed.notify()

    def _start(self, pending: Future[Any], question: Callable[[_Client], Any]) -> None:
        with self._changed:
            self._questions.append((pending, question))
            if self._thread is None:
                # A daemon: what hangs must not keep a process from its end.
                self._thread = Thread(target=self._run, daemon=True, name="registry refresher")
                try:
                    self._thread.start()
                except RuntimeError:  # there can be no more threads
                    self._thread = None
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._questions and not self._ends:
                    self._changed.wait(_IDLE_S)
                if not self._questions or self._ends:
                    self._thread = None
                    return
                pending, question = self._questions.popleft()
            try:
                found = question(self._client)
            except UnknownSchemaError as error:
                self.is_away = False
                pending.set_exception(error)
            except BaseException as error:
                self.is_away = True
                pending.set_exception(error)
            else:
                self.is_away = False
                pending.set_result(found)

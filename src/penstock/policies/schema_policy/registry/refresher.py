"""Refreshes known responses of a registry, in a thread.

Whoever needs the answer waits for it only for a while: the last response is there. The thread
goes on requesting, so that a registry that hangs, or is slow, delays no known response, and its
return is noticed.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Condition, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from penstock.policies.schema_policy.registry.errors import (
    RegistryAwayException,
    UnknownSchemaError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_WAITING: Final = 1000
"""How many requests may wait to be sent."""
LATE_AT_MOST_S: Final = 15.0
"""How old a request may be for a late answer to count; then it is sent again.
It is more than the cache lets pass before it comes for a late answer."""
_IDLE_S: Final = 60.0
"""How long the thread stays without requests."""
_LATE: Final = "the schema registry takes too long; what it said last counts"
_Client = TypeVar("_Client")
_Found = TypeVar("_Found")


@dataclass(slots=True, eq=False)
class _Question(Generic[_Client]):
    """A question on its way.

    Attributes:
        ask: Sends the request.
        answer: The response, or why there is none.
        sent_at: When the thread sent the request, in seconds of the clock; valid once there is an
            answer.
    """

    ask: Callable[[_Client], Any]
    answer: Future[Any] = field(default_factory=Future)
    sent_at: float = 0.0


class Refresher(Generic[_Client]):
    """Sends requests in a thread of its own. It is used by one thread.

    Attributes:
        is_away: Whether the registry did not answer the last question in time.
        age: How many seconds before `ask` returned, or raised the registry's answer, the
            request was sent; 0 without an answer.
    """

    def __init__(self, client: _Client, clock: Callable[[], float] = monotonic) -> None:
        """Send no request yet.

        Args:
            client: Asks the registry; used by the thread alone.
            clock: Seconds.
        """
        self.is_away = False
        self.age = 0.0
        self._client = client
        self._clock = clock
        self._pending: dict[object, _Question[_Client]] = {}
        self._questions: deque[_Question[_Client]] = deque()
        self._changed = Condition()
        self._thread: Thread | None = None
        self._ends = False

    def ask(self, key: object, question: Callable[[_Client], _Found], wait: float) -> _Found:
        """Return the answer to a question, if it comes soon.

        A late answer is returned by the next call for the same key, if it was requested
        `LATE_AT_MOST_S` ago at most.

        Args:
            key: Identifies the request: a request that is on its way is not sent twice.
            question: Sends the request.
            wait: Seconds to wait at most; no time where the registry is away.

        Raises:
            UnknownSchemaError: The registry says so.
            RetriableException: It does not answer; a `RegistryAwayException` where it takes
                longer than that.
        """
        self.age = 0.0
        pending = self._pending_request(key, question)
        try:
            found: _Found = pending.answer.result(0 if self.is_away else max(0.0, wait))
        except TimeoutError:
            self.is_away = True
            raise RegistryAwayException(_LATE) from None
        finally:
            if pending.answer.done():
                self.age = self._clock() - pending.sent_at
                del self._pending[key]
        return found

    def close(self) -> None:
        """Ask nothing more."""
        with self._changed:
            self._ends = True
            self._changed.notify()

    def _pending_request(
        self, key: object, question: Callable[[_Client], Any]
    ) -> _Question[_Client]:
        """Return the request that is on its way, or has an answer that counts; or start one."""
        pending = self._pending.get(key)
        if pending is not None and not self._is_too_old(pending):
            return pending
        self._pending.pop(key, None)
        if len(self._pending) >= MOST_WAITING:
            self._pending = {
                other: request
                for other, request in self._pending.items()
                if not request.answer.done()
            }
        if len(self._pending) >= MOST_WAITING:
            raise RegistryAwayException(_LATE)
        pending = self._pending[key] = _Question(question)
        self._start(pending)
        return pending

    def _is_too_old(self, pending: _Question[_Client]) -> bool:
        return pending.answer.done() and self._clock() - pending.sent_at > LATE_AT_MOST_S

    def _start(self, pending: _Question[_Client]) -> None:
        with self._changed:
            self._questions.append(pending)
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
                pending = self._questions.popleft()
            pending.sent_at = self._clock()
            try:
                found = pending.ask(self._client)
            except UnknownSchemaError as error:
                self.is_away = False
                pending.answer.set_exception(error)
            except BaseException as error:
                self.is_away = True
                pending.answer.set_exception(error)
            else:
                self.is_away = False
                pending.answer.set_result(found)

"""Refreshes known responses of a registry, in a thread.

A caller waits for a new response only briefly, because the last response can be used instead. The
thread continues to send requests, so a slow or hanging registry does not delay known responses, and
its return is noticed.
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
"""The maximum age of a request whose late response is used; an older request is sent again.
It is longer than the cache waits before it fetches a late response."""
_IDLE_S: Final = 60.0
"""How long the thread waits for a request before it ends."""
_LATE: Final = "the schema registry takes too long; what it said last counts"
_Client = TypeVar("_Client")
_Found = TypeVar("_Found")


@dataclass(slots=True, eq=False)
class _PendingRequest(Generic[_Client]):
    """A request without a response yet, or whose response was not fetched.

    Attributes:
        send: Sends the request, and returns the response.
        response: The response, or the exception.
        sent_at: When the thread sent the request, in seconds of the clock; valid once `response`
            is done.
    """

    send: Callable[[_Client], Any]
    response: Future[Any] = field(default_factory=Future)
    sent_at: float = 0.0


class Refresher(Generic[_Client]):
    """Sends requests in a separate thread. Not thread-safe.

    Attributes:
        is_away: Whether the registry did not respond to the last request in time.
        age: How many seconds before the end of `request` the request was sent; 0 without a
            response.
    """

    def __init__(self, client: _Client, clock: Callable[[], float] = monotonic) -> None:
        """Send no request yet.

        Args:
            client: The registry's client; only the thread uses it.
            clock: Returns seconds.
        """
        self.is_away = False
        self.age = 0.0
        self._client = client
        self._clock = clock
        self._pending: dict[object, _PendingRequest[_Client]] = {}
        self._queue: deque[_PendingRequest[_Client]] = deque()
        self._change = Condition()
        self._thread: Thread | None = None
        self._ends = False

    def request(self, key: object, send: Callable[[_Client], _Found], wait: float) -> _Found:
        """Return the response to a request, if it arrives in time.

        The next call for the same key returns a late response, if its request was sent at most
        `LATE_AT_MOST_S` ago.

        Args:
            key: Identifies the request: a pending request is not sent twice.
            send: Sends the request, and returns the response.
            wait: The maximum seconds to wait; ignored while the registry is away.

        Raises:
            UnknownSchemaError: The registry does not have it.
            RetriableException: The registry does not respond; `RegistryAwayException` if it does
                not respond in time.
        """
        self.age = 0.0
        pending = self._pending_request(key, send)
        try:
            response: _Found = pending.response.result(0 if self.is_away else max(0.0, wait))
        except TimeoutError:
            self.is_away = True
            raise RegistryAwayException(_LATE) from None
        finally:
            if pending.response.done():
                self.age = self._clock() - pending.sent_at
                del self._pending[key]
        return response

    def close(self) -> None:
        """End the thread. Nothing can be requested afterwards."""
        with self._change:
            self._ends = True
            self._change.notify()

    def _pending_request(
        self, key: object, send: Callable[[_Client], Any]
    ) -> _PendingRequest[_Client]:
        """Return the pending request with this key; start a new request if there is none."""
        pending = self._pending.get(key)
        if pending is not None and not self._is_too_old(pending):
            return pending
        self._pending.pop(key, None)
        if len(self._pending) >= MOST_WAITING:
            self._pending = {
                other: request
                for other, request in self._pending.items()
                if not request.response.done()
            }
        if len(self._pending) >= MOST_WAITING:
            raise RegistryAwayException(_LATE)
        pending = self._pending[key] = _PendingRequest(send)
        self._start(pending)
        return pending

    def _is_too_old(self, pending: _PendingRequest[_Client]) -> bool:
        return pending.response.done() and self._clock() - pending.sent_at > LATE_AT_MOST_S

    def _start(self, pending: _PendingRequest[_Client]) -> None:
        with self._change:
            self._queue.append(pending)
            if self._thread is None:
                # A daemon: a hanging request must not keep the process from ending.
                self._thread = Thread(target=self._run, daemon=True, name="registry refresher")
                try:
                    self._thread.start()
                except RuntimeError:  # no thread can be started
                    self._thread = None
            self._change.notify()

    def _run(self) -> None:
        while True:
            with self._change:
                if not self._queue and not self._ends:
                    self._change.wait(_IDLE_S)
                if not self._queue or self._ends:
                    self._thread = None
                    return
                pending = self._queue.popleft()
            pending.sent_at = self._clock()
            try:
                response = pending.send(self._client)
            except UnknownSchemaError as error:
                self.is_away = False
                pending.response.set_exception(error)
            except BaseException as error:
                self.is_away = True
                pending.response.set_exception(error)
            else:
                self.is_away = False
                pending.response.set_result(response)

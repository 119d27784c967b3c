"""Retries after errors that may pass: pauses that grow, within a time limit (KIP-580)."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from penstock.kafka.client.errors import ClientError, NoAnswerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.kafka.client.connections.settings import Settings

T = TypeVar("T")

_GROWTH: Final = 2.0
_JITTER: Final = 0.2
"""Pauses differ by up to this share, so that tasks that failed together do not return together."""
_DOUBLINGS_MAX: Final = 40
"""No pause grows after so many failures; a power of thousands of them is no float any more."""
_ATTEMPT_MIN_S: Final = 0.1


class Retries:
    """The retries of one operation; its time limit begins now, or at its last progress."""

    def __init__(
        self,
        settings: Settings,
        *,
        limit_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Begin.

        Args:
            settings: With the time limit and the pauses.
            limit_s: Another time limit; 0 for no retry.
            clock: Returns seconds that never go back.
            sleep: Waits for seconds.
        """
        self._settings = settings
        self._limit_s = settings.api_timeout_s if limit_s is None else limit_s
        self._clock = clock
        self._sleep = sleep
        self.progress()

    def progress(self) -> None:
        """Begin again: the operation came further."""
        self._failures = 0
        self._deadline = self._clock() + self._limit_s

    def after(self, error: ClientError) -> None:
        """Wait before the next attempt.

        Raises:
            ClientError: `error`, if it is final or the time is over.
        """
        if not error.retriable or self._clock() >= self._deadline:
            try:
                raise error
            finally:
                del error  # it would keep this frame, which keeps it
        growth = _GROWTH ** min(self._failures, _DOUBLINGS_MAX)
        pause = min(self._settings.backoff_s * growth, self._settings.max_backoff_s)
        self._failures += 1
        self._sleep(pause * random.uniform(1 - _JITTER, 1 + _JITTER))  # noqa: S311 - no secret


class _Retrying(Protocol):
    def retries(self, limit_s: float | None = None) -> Retries: ...


def retried(connection: _Retrying, limit_s: float, attempt: Callable[[float], T]) -> T:
    """Return the result of an attempt, which is repeated after an error that may pass.

    Args:
        connection: With the pauses.
        limit_s: When to give up.
        attempt: Called with the seconds that are left.

    Raises:
        ClientError: The last error that is more than the end of the time.
    """
    deadline = time.monotonic() + limit_s
    retries = connection.retries(limit_s)
    reason: ClientError | None = None
    try:
        while True:
            try:
                return attempt(max(deadline - time.monotonic(), _ATTEMPT_MIN_S))
            except ClientError as error:
                if reason is None or not isinstance(error, NoAnswerError):
                    reason = error.with_traceback(None)
            retries.after(reason)
    finally:
        del reason  # raised, it would keep this frame, which keeps it

"""Dead letters that are not stored yet, and the requests of clients that wait for them.

They are found by the batch of their client: a retry waits for the same letters.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog
from cachetools import TTLCache

from penstock.gateway.produce.dead_letters import partition_letters
from penstock.gateway.produce.dead_letters.failures import (
    LettersRefused,
    unexpected_failure,
)
from penstock.gateway.produce.dead_letters.late_letters import LateLetters
from penstock.gateway.produce.dead_letters.partition_letters import Waiter, WaitingLetters
from penstock.kafka.client.errors import describe
from penstock.kafka.error_codes import INVALID_RECORD, REQUEST_TIMED_OUT

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from penstock.gateway.produce.dead_letters.dead_letter_topic import DeadLetterTopic
    from penstock.gateway.produce.dead_letters.double_letters import DoubleLetters
    from penstock.gateway.produce.dead_letters.partition_letters import Done

log = structlog.get_logger()

WAITING_MAX_BYTES: Final = 64 * 2**20
_FOUND_LATER_MAX: Final = 10_000
_LOG_EVERY_S: Final = 60.0
_TOO_MANY: Final = "too many dead letters wait"


class PendingLetters:
    """All letters of the gateway that are not stored yet."""

    def __init__(self, doubles: DoubleLetters, clock: Callable[[], float]) -> None:
        self._doubles = doubles
        self._clock = clock
        self._unstored: dict[Hashable, WaitingLetters] = {}
        self._stored_late: TTLCache[Hashable, None] = TTLCache(
            _FOUND_LATER_MAX, partition_letters.RETRIED_S, timer=clock
        )
        self._late = LateLetters()
        self._failed = 0
        self._logged_at = -_LOG_EVERY_S
        self.size = 0

    def add(
        self, target: DeadLetterTopic, letters: bytes, callback: Done, key: Hashable = None
    ) -> WaitingLetters | None:
        """Let a request wait for letters; see `DeadLetterWriter.store`.

        Returns:
            The letters, if they have to be sent. None if they are stored, if they are on their way
            for an earlier request, or if too many letters wait.
        """
        # Another number of replicas does not make another topic.
        key = None if key is None else (target._replace(replicas=0), key)
        if key in self._stored_late:
            callback(None)
            return None
        waiting_letters = self._unstored.get(key)
        if waiting_letters is None:
            others = self.size - self._late.size
            if others and others + len(letters) > WAITING_MAX_BYTES:
                self._report(target, _TOO_MANY)
                callback(_TOO_MANY)
                return None
            waiting_letters = WaitingLetters(
                target, letters, self._clock() + partition_letters.DEADLINE_S, key
            )
            self.size += waiting_letters.size
            if key is not None:
                self._unstored[key] = waiting_letters
            self._wait(waiting_letters, callback)
            return waiting_letters
        waiting_letters.deadline = max(
            waiting_letters.deadline, self._clock() + partition_letters.DEADLINE_S
        )
        self._wait(waiting_letters, callback)
        return None

    def _wait(self, letters: WaitingLetters, callback: Done) -> None:
        waiter = Waiter(callback)
        loop = asyncio.get_running_loop()
        waiter.timer = loop.call_later(partition_letters.DEADLINE_S, self._give_up, letters, waiter)
        letters.waiters.append(waiter)

    def _give_up(self, letters: WaitingLetters, waiter: Waiter) -> None:
        """Let a request wait no longer for letters, wherever they are."""
        is_last = letters.waiters == [waiter]
        if is_last and not letters.outlive_waiters:
            self.end(letters, letters.why)
            return
        letters.waiters.remove(waiter)
        self._report(letters.to, letters.why)
        _notify(waiter, letters.why)
        if letters.outlive_waiters:
            self._late.add(letters)
        for oldest in self._late.surplus():
            self._doubles.warn(_TOO_MANY)
            self.end(oldest, _TOO_MANY)

    def end(self, letters: WaitingLetters, failure: str | None) -> None:
        """Notify the requests that wait for letters.

        Args:
            letters: They are stored, or have failed.
            failure: Why they have failed; None if they are stored.
        """
        if letters.is_over:
            return
        letters.is_over = True
        self.size -= letters.size
        self._late.discard(letters)
        if letters.partition is not None:
            letters.partition.remove(letters)
        if letters.key is not None:
            del self._unstored[letters.key]
            if failure is None and not letters.waiters:
                self._stored_late[letters.key] = None
        if failure is not None:
            self._report(letters.to, failure)
            if letters.is_partly_stored and not isinstance(failure, LettersRefused):
                self._doubles.warn(failure)
        waiters, letters.waiters = letters.waiters, []
        for waiter in waiters:
            if waiter.timer is not None:
                waiter.timer.cancel()
            _notify(waiter, failure)

    def _report(self, target: DeadLetterTopic, why: str) -> None:
        """Log that letters could not be stored, once a minute."""
        self._failed += 1
        now = self._clock()
        if now - self._logged_at >= _LOG_EVERY_S:
            is_final = isinstance(why, LettersRefused)
            log.error(
                "dead letters cannot be stored",
                topic=target.source,
                dead_letter_topic=target.name,
                reason=why,
                answer=describe(INVALID_RECORD if is_final else REQUEST_TIMED_OUT),
                times=self._failed,
            )
            self._logged_at, self._failed = now, 0


def _notify(waiter: Waiter, failure: str | None) -> None:
    try:
        waiter.done(failure)
    except Exception as error:
        # The others of the same request are still notified.
        unexpected_failure(error)

"""A budget for the memory that is held for all clients (`queued.max.request.bytes`, KIP-72).

The budget counts incomplete requests, requests that wait for a verdict or for the broker, responses
of brokers that are collected because they are read or changed, memory that handlers hold, names of
topics that connections remember, and responses that the client has not read. Bytes count when they
have been received, not when a length was announced.

When the total reaches the budget, connections that hold more than a little are paused: neither
their client is read, nor the broker if its bytes would be held. TCP makes them wait; nothing
is dropped. To resolve this, one of them is still read, until its request is complete and
has its response: that frees the memory for the next connection.

Connections that hold little are still read. All of these together have a share beyond the budget.
When they have used it up, each of them may hold its part of the share: those that hold more are
paused like the others.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from penstock.gateway.process_memory import return_memory
from penstock.machine import memory_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

log = structlog.get_logger()

LOW_USE_BYTES: Final = 64 * 1024
"""A connection that holds no more than this holds little."""
LOW_USE_SHARE: Final = 4
"""All that hold little may hold this part of the budget; then each may hold less."""
READ_BYTES: Final = 256 * 1024
"""The most bytes of a read."""
_COUNTS_BYTES: Final = 16 * 1024
"""A client that holds less is not stuck in the sense of `STUCK_S`."""
STUCK_S: Final = 30.0
"""If no paused client could be resumed for this time, one connection is closed: that which has
freed no memory for the longest time. So is the client that is read beyond the budget, if its
request is not complete by then."""
_RETURNED_BYTES: Final = 32 * 2**20
"""When this much memory has become free, it is returned to the system."""
_DEFAULT_MAX_BYTES: Final = 2**30


class Holder(Protocol):
    """A connection, as the budget sees it."""

    held_bytes: int

    @property
    def missing_bytes(self) -> int:
        """The bytes of its request or response that are held, but have not been received yet."""

    @property
    def remembered_bytes(self) -> int:
        """The part of the held memory that stays when all of its requests have their responses."""

    def pause(self, reason: str) -> None:
        """Stop reading it."""

    def resume(self, reason: str) -> None:
        """Read it again."""

    def abort(self) -> None:
        """Close it at once."""


class Budget:
    """The memory that is held for all clients; pauses clients when it reaches a limit.

    Attributes:
        max_bytes: The limit.
        used_bytes: The memory that is held now.
    """

    def __init__(self, max_bytes: int, clock: Callable[[], float]) -> None:
        """Make an unused budget.

        Args:
            max_bytes: The limit.
            clock: Returns the monotonic time in seconds.
        """
        self.max_bytes = max_bytes
        self.used_bytes = 0
        self._used_once = 0
        self._little_bytes = self._little_count = 0
        self._clock = clock
        self._moved = clock()
        self._paused: OrderedDict[Holder, None] = OrderedDict()
        self._paused_with_little: OrderedDict[Holder, None] = OrderedDict()
        self._freed: dict[Holder, float] = {}
        self._ahead: Holder | None = None
        self._ahead_since = 0.0

    def set_held_bytes(self, holder: Holder, held_bytes: int) -> None:
        """Set the bytes that a connection holds."""
        change = held_bytes - holder.held_bytes
        if not change:
            self._read_on(holder)
            return
        self._count_little(holder.held_bytes, -1)
        self._count_little(held_bytes, 1)
        holder.held_bytes = held_bytes
        self.used_bytes += change
        self._used_once = max(self._used_once, self.used_bytes)
        if not held_bytes:
            self._freed.pop(holder, None)
        elif change < 0 or holder not in self._freed:
            self._freed[holder] = self._clock()
        if change < 0:
            low_use = self.low_use_bytes
            if held_bytes <= low_use and holder in self._paused:
                self._resume(holder)
            self._resume_while_there_is_room()
            self._resume_with_little()
            if holder is self._ahead and held_bytes - holder.remembered_bytes <= low_use:
                self._let_the_next_go_ahead()
        elif self.used_bytes > self.max_bytes and held_bytes > self.low_use_bytes:
            self._restrain(holder)
        self._read_on(holder)

    @property
    def is_exceeded(self) -> bool:
        """Whether more is held than the limit."""
        return self.used_bytes > self.max_bytes

    @property
    def low_use_bytes(self) -> int:
        """How much a connection may hold that is read in any case."""
        share = self.max_bytes // LOW_USE_SHARE
        if self._little_bytes <= share:
            return LOW_USE_BYTES
        return min(LOW_USE_BYTES, share // self._little_count)

    def _count_little(self, held_bytes: int, sign: int) -> None:
        if 0 < held_bytes <= LOW_USE_BYTES:
            self._little_bytes += sign * held_bytes
            self._little_count += sign

    def remove(self, holder: Holder) -> None:
        """Remove a connection that is closed."""
        self._paused.pop(holder, None)
        self._paused_with_little.pop(holder, None)
        self.set_held_bytes(holder, 0)

    def _restrain(self, holder: Holder) -> None:
        """Pause a connection that holds much, unless it is read to its end."""
        if holder in self._paused:
            return
        if self._ahead is None and holder.missing_bytes:
            self._let_go_ahead(holder)
        if holder is self._ahead and holder.missing_bytes:
            return
        if not self._paused:
            log.warning(
                "clients are not read for now: they hold too much",
                queued_max_request_bytes=self.max_bytes,
            )
        if holder is self._ahead or not self._paused:
            self._moved = self._clock()
        self._paused[holder] = None
        if holder.held_bytes <= LOW_USE_BYTES:
            self._paused_with_little[holder] = None
        holder.pause("memory")

    def _read_on(self, holder: Holder) -> None:
        """Read a paused connection again if it is to be read to its end, or no other connection is.

        The connection that is ahead may need several responses until it holds nothing any more.
        """
        if holder in self._paused and self._ahead in (None, holder) and holder.missing_bytes:
            if self._ahead is None:
                self._let_go_ahead(holder)
            self._resume(holder)

    def _let_the_next_go_ahead(self) -> None:
        self._ahead = None
        following = next((holder for holder in self._paused if holder.missing_bytes), None)
        if following is not None:
            self._let_go_ahead(following)
            self._resume(following)

    def _let_go_ahead(self, holder: Holder) -> None:
        """Read a request to its end beyond the budget: incomplete requests free no memory."""
        self._ahead = holder
        self._ahead_since = self._clock()

    def _resume_while_there_is_room(self) -> None:
        """Resume connections while there is room, in the order in which they were paused."""
        room = self.max_bytes - self.used_bytes
        while self._paused and room >= READ_BYTES:
            following = next(iter(self._paused))
            is_little = following in self._paused_with_little
            room -= max(0, LOW_USE_BYTES - following.held_bytes) if is_little else READ_BYTES
            self._resume(following)
        if not self._paused and not self.is_exceeded:
            self._ahead = None

    def _resume_with_little(self) -> None:
        """Resume a connection that holds little, if there is room again in the share of these."""
        if self._paused_with_little and self.low_use_bytes == LOW_USE_BYTES:
            self._resume(next(iter(self._paused_with_little)))

    def _resume(self, holder: Holder) -> None:
        del self._paused[holder]
        self._paused_with_little.pop(holder, None)
        self._moved = self._clock()
        holder.resume("memory")

    def tick(self) -> None:
        """Close a connection that blocks all others; to be called every few seconds.

        A client that never completes its request must not block the others.
        """
        if stuck := self._find_stuck():
            log.warning(
                "closing a connection: others wait for what it holds", bytes=stuck.held_bytes
            )
            stuck.abort()
        if self._used_once - self.used_bytes > _RETURNED_BYTES:
            self._used_once = self.used_bytes
            return_memory()

    def _find_stuck(self) -> Holder | None:
        """Return the connection that blocks the others; first those that are not paused."""
        since = self._clock() - STUCK_S
        if not self._paused:
            return None
        if self._ahead is not None and self._ahead.missing_bytes and self._ahead_since < since:
            return self._ahead
        if self._moved >= since:
            return None
        for_long = [
            holder
            for holder, freed in self._freed.items()
            if freed < since and holder.held_bytes > _COUNTS_BYTES
        ]
        return min(
            for_long or self._paused,
            key=lambda holder: (holder in self._paused, self._freed.get(holder, 0.0)),
        )


def default_budget() -> int:
    """Return a quarter of the memory of the machine, or of the container; 1 GiB at most."""
    return min(memory_bytes() // 4, _DEFAULT_MAX_BYTES)

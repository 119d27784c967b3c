"""One budget for the memory that all clients may take (`queued.max.request.bytes`, KIP-72).

What is held for a client is counted: requests that have begun to come, those that wait for a
verdict or for the broker, and answers that the client has not read. Where all of it together
reaches the budget, clients that hold more than a little are not read any more, and TCP makes
them wait; nothing is dropped. Those that hold little go on, and so does one of those that hold
much, until its request is whole and answered: it is what makes room for the next.
"""

from __future__ import annotations

import ctypes
import os
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

log = structlog.get_logger()

LOW_USE_BYTES: Final = 64 * 1024
"""Who holds no more than this is always read."""
READ_BYTES: Final = 256 * 1024
"""What may come at most when a client is read once."""
_COUNTS_BYTES: Final = 16 * 1024
"""Who holds less is not the one that others wait for."""
STUCK_S: Final = 30.0
"""Where nobody could be read again for so long, one client loses its connection: the one of
which nothing became free for longest. And so does one that all wait for, if its request is not
whole by then."""
_RETURNED_BYTES: Final = 32 * 2**20
"""When so much has become free, the system gets it back."""
_DEFAULT_MAX_BYTES: Final = 2**30
_CGROUP_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


class Holder(Protocol):
    """A connection, as the budget sees it."""

    held_bytes: int

    @property
    def missing_bytes(self) -> int:
        """How much of the request that is being read has not come."""

    def pause(self, reason: str) -> None:
        """Stop reading it."""

    def resume(self, reason: str) -> None:
        """Read it again."""

    def abort(self) -> None:
        """Close it at once."""


class Budget:
    """What is held for all clients, and who is not read because of it.

    Attributes:
        max_bytes: The budget.
        used_bytes: What is held.
    """

    def __init__(self, max_bytes: int, clock: Callable[[], float]) -> None:
        """Begin with nothing.

        Args:
            max_bytes: The budget.
            clock: Gives the time in seconds; it never goes back.
        """
        self.max_bytes = max_bytes
        self.used_bytes = 0
        self._used_once = 0
        self._clock = clock
        self._moved = clock()
        self._paused: OrderedDict[Holder, None] = OrderedDict()
        self._freed: dict[Holder, float] = {}
        self._ahead: Holder | None = None
        self._ahead_since = 0.0

    def holds(self, holder: Holder, held_bytes: int) -> None:
        """Learn how much a connection holds now."""
        change = held_bytes - holder.held_bytes
        if not change:
            return
        holder.held_bytes = held_bytes
        self.used_bytes += change
        self._used_once = max(self._used_once, self.used_bytes)
        if not held_bytes:
            self._freed.pop(holder, None)
        elif change < 0 or holder not in self._freed:
            self._freed[holder] = self._clock()
        if change < 0:
            if held_bytes <= LOW_USE_BYTES and holder in self._paused:
                self._resume(holder)
            self._resume_those_with_room()
            if holder is self._ahead and held_bytes <= LOW_USE_BYTES:
                self._let_the_next_go_ahead()
        elif self.used_bytes > self.max_bytes and held_bytes > LOW_USE_BYTES:
            self._restrain(holder)

    def left(self, holder: Holder) -> None:
        """Forget a connection that is closed."""
        self._paused.pop(holder, None)
        self.holds(holder, 0)

    def _restrain(self, holder: Holder) -> None:
        """Stop reading one that holds much, unless all depends on it."""
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
        holder.pause("memory")

    def _let_the_next_go_ahead(self) -> None:
        self._ahead = None
        following = next((one for one in self._paused if one.missing_bytes), None)
        if following is not None:
            self._let_go_ahead(following)
            self._resume(following)

    def _let_go_ahead(self, holder: Holder) -> None:
        """Have a request read to its end, beyond the budget: halves of requests make no room."""
        self._ahead = holder
        self._ahead_since = self._clock()

    def _resume_those_with_room(self) -> None:
        """Read those again for whom there is room, in the order in which they were paused."""
        room = self.max_bytes - self.used_bytes
        while self._paused and room >= READ_BYTES:
            room -= READ_BYTES
            self._resume(next(iter(self._paused)))
        if not self._paused:
            self._ahead = None

    def _resume(self, holder: Holder) -> None:
        del self._paused[holder]
        self._moved = self._clock()
        holder.resume("memory")

    def tick(self) -> None:
        """See that something moves. To be called now and then.

        Clients that have sent a part of a request, and never send the rest, must not keep all
        others out.
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
        """Tell who keeps the others out: first those who could go on, and do not."""
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


def return_memory() -> None:
    """Return memory that is free back to the system, where the C library does not by itself."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc
    if trim is not None:
        trim(0)


def default_budget() -> int:
    """Return a quarter of the memory of the machine, or of the container; 1 GiB at most."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for limit in _CGROUP_LIMITS:
        try:
            memory = min(memory, int(limit.read_text()))
        except (OSError, ValueError):  # there is none, or it is "max"
            continue
    return min(memory // 4, _DEFAULT_MAX_BYTES)

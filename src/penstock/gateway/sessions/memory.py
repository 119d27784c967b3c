"""A budget for the memory that is held for all clients (`queued.max.request.bytes`, KIP-72).

The budget counts incomplete requests, requests that wait for a verdict or for the broker, responses
of brokers that are collected because they are read or changed, memory that handlers hold, names of
topics that connections remember, and responses that the client has not read. Bytes count when they
have been received, not when a length was announced.

A connection that holds more than a little of a request needs room for its next part before it is
read on: at most `READ_BYTES`, which are reserved for it until they have come. Without room it is
paused: neither its client is read, nor the broker if its bytes would be held. TCP makes them wait;
nothing is dropped. So the memory is not spread over many clients of which none can continue. Room
goes to those that wait, in the order in which they began to wait, and in turn to those whose
requests were complete before and to those of which nothing is known: attackers who connect again
and again stand behind each other, and not before a client that is served.

Requests that are not complete may fill the budget together. To resolve this, one of them is read to
its end beyond the budget, until it has its response. One that takes long gives way to the next
after `TURN_S`, and waits again for the rest of its bytes: a client that sends slowly, or reads its
response so, could keep all others waiting. And while others wait, a connection whose request has
stalled is closed (`request_rate`), as soon as it has: what it held is for the others. A client that
the gateway has paused has not stalled. Nor has one that is read and sends steadily.

Connections that hold little need no room. There is a share of the budget, or beyond it, for the
little of all. When it is used up, little is a connection's part of the share. Without room, a few
bytes of each are read at a time.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from penstock.engine.machine import memory_bytes
from penstock.gateway.process_memory import return_memory

if TYPE_CHECKING:
    from collections.abc import Callable

log = structlog.get_logger()

LOW_USE_BYTES: Final = 64 * 1024
"""A connection that holds no more than this holds little."""
LOW_USE_SHARE: Final = 4
"""The little of all may be this part of the budget; then each may hold less."""
READ_BYTES: Final = 256 * 1024
"""The most bytes of a read."""
FEW_BYTES: Final = 4 * 1024
"""The most bytes of a read without room."""
LOOK_EVERY_S: Final = 0.1
"""How often it is looked for connections that have stalled, while others wait."""
TURN_S: Final = 0.5
"""In this time, a request that is read beyond the budget is to bring `LOW_USE_BYTES`; otherwise it
gives way to the next, as long as those that gave way hold no more of it than `LOW_USE_SHARE`."""
UNREAD_S: Final = 30.0
"""While others wait, a client that has read no response for this time is closed."""
_COUNTS_BYTES: Final = 16 * 1024
"""A client that holds less is not closed because of `UNREAD_S`."""
_RETURNED_BYTES: Final = 32 * 2**20
"""When this much memory has become free, it is returned to the system."""
_LOG_EVERY_S: Final = 1.0
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

    @property
    def has_stalled(self) -> bool:
        """Whether its request is read, and comes much slower than before."""

    @property
    def has_unread(self) -> bool:
        """Whether there are responses that the client has not read."""

    def pause(self, reason: str) -> None:
        """Stop reading it."""

    def resume(self, reason: str) -> None:
        """Read it again."""

    def abort(self) -> None:
        """Close it at once."""


class Waiting:
    """The connections that are paused, in the order in which they are read again."""

    def __init__(self) -> None:
        """Begin without any."""
        self._queues: tuple[OrderedDict[Holder, None], OrderedDict[Holder, None]] = (
            OrderedDict(),
            OrderedDict(),
        )
        self._turn = 0

    def __contains__(self, holder: Holder) -> bool:
        """Return whether a connection waits."""
        return any(holder in queue for queue in self._queues)

    def __bool__(self) -> bool:
        """Return whether any waits."""
        return any(self._queues)

    def add(self, holder: Holder, *, is_known: bool, is_first: bool) -> None:
        """Have a connection wait: with those that are known, or with those that are not."""
        queue = self._queues[is_known]
        queue[holder] = None
        if is_first:
            queue.move_to_end(holder, last=False)

    def remove(self, holder: Holder) -> None:
        """Have a connection wait no longer."""
        for queue in self._queues:
            queue.pop(holder, None)

    def next(self) -> Holder | None:
        """Return the connection whose turn it is; None without any."""
        for queue in (self._queues[self._turn], self._queues[not self._turn]):
            if queue:
                return next(iter(queue))
        return None

    def next_unfinished(self) -> Holder | None:
        """Return the first connection whose request is not complete."""
        queues = (self._queues[self._turn], self._queues[not self._turn])
        return next((holder for queue in queues for holder in queue if holder.missing_bytes), None)

    def end_turn(self) -> None:
        """Let one of the other kind be next."""
        self._turn = 1 - self._turn


class Budget:
    """The memory that is held for all clients; pauses clients when it reaches a limit.

    Attributes:
        used_bytes: The memory that is held now.
        on_short: Called with whether there is no room for a read any more, or is again.
    """

    def __init__(self, max_bytes: int, clock: Callable[[], float]) -> None:
        """Make an unused budget.

        Args:
            clock: Returns the monotonic time in seconds.
        """
        self.max_bytes = max_bytes
        self.used_bytes = 0
        self.on_short: Callable[[bool], None] | None = None
        self._is_short = False
        self._used_once = 0
        self._little_bytes = self._little_count = 0
        self._clock = clock
        self._waiting = Waiting()
        self._waiting_with_little: OrderedDict[Holder, None] = OrderedDict()
        self._reserves: dict[Holder, int] = {}
        self._reserved_bytes = 0
        self._freed: dict[Holder, float] = {}
        self._known: set[Holder] = set()
        self._ahead: Holder | None = None
        self._ahead_since = 0.0
        self._ahead_from = self._ahead_bytes = 0
        self._gave_way: dict[Holder, int] = {}
        self._closed_count = self._closed_bytes = 0
        self._logged_at = 0.0

    def set_held_bytes(self, holder: Holder, held_bytes: int) -> None:
        """Set the bytes that a connection holds."""
        previous_bytes = holder.held_bytes
        if held_bytes != previous_bytes:
            self._count(holder, held_bytes)
        if held_bytes < previous_bytes:
            self._gave_back(holder, previous_bytes)
        elif held_bytes > self.low_use_bytes:
            self._limit(holder)
        self._note_short()

    def _count(self, holder: Holder, held_bytes: int) -> None:
        change = held_bytes - holder.held_bytes
        self._count_little(holder.held_bytes, -1)
        self._count_little(held_bytes, 1)
        holder.held_bytes = held_bytes
        self.used_bytes += change
        self._used_once = max(self._used_once, self.used_bytes)
        if change > 0 and self._reserves.get(holder):
            self._reserve(holder, max(0, self._reserves[holder] - change))
        if not held_bytes:
            self._freed.pop(holder, None)
        elif change < 0 or holder not in self._freed:
            self._freed[holder] = self._clock()

    @property
    def is_exceeded(self) -> bool:
        """Whether more is held than the limit."""
        return self.used_bytes > self.max_bytes

    @property
    def is_short(self) -> bool:
        """Whether there is no room for any read."""
        return self._is_short

    @property
    def waits(self) -> bool:
        """Whether connections wait for memory."""
        return bool(self._waiting)

    @property
    def low_use_bytes(self) -> int:
        """How much a connection may hold that is read in any case."""
        share = self.max_bytes // LOW_USE_SHARE
        if self._little_bytes <= share:
            return LOW_USE_BYTES
        return min(LOW_USE_BYTES, share // self._little_count)

    def readable_bytes(self, holder: Holder) -> int:
        """Return how much of a client may be read at once."""
        if not self._is_short:
            return READ_BYTES
        if reserved := self._reserves.get(holder):
            return reserved
        room = max(self._room, self.low_use_bytes - holder.held_bytes)
        return min(max(room, FEW_BYTES), READ_BYTES)

    @property
    def _room(self) -> int:
        return self.max_bytes - self.used_bytes - self._reserved_bytes

    def _count_little(self, held_bytes: int, sign: int) -> None:
        if held_bytes:
            self._little_bytes += sign * min(held_bytes, LOW_USE_BYTES)
            self._little_count += sign

    def _reserve(self, holder: Holder, reserved: int) -> None:
        self._reserved_bytes += reserved - self._reserves.get(holder, 0)
        self._reserves[holder] = reserved

    def _end_reserve(self, holder: Holder) -> None:
        self._reserved_bytes -= self._reserves.pop(holder, 0)

    def _note_short(self) -> None:
        is_short = bool(self._waiting) or self._room < READ_BYTES
        if is_short is not self._is_short:
            self._is_short = is_short
            if self.on_short is not None:
                self.on_short(is_short)

    def remove(self, holder: Holder) -> None:
        """Remove a connection that is closed."""
        self._forget_waiting(holder)
        self._end_reserve(holder)
        self._gave_way.pop(holder, None)
        self.set_held_bytes(holder, 0)
        self._known.discard(holder)

    def _limit(self, holder: Holder) -> None:
        """Pause a connection that holds much, unless there is room for its next part."""
        missing_bytes = holder.missing_bytes
        if holder in self._waiting:
            # Perhaps it needs another response after that which was complete.
            if missing_bytes and self._ahead in (None, holder):
                self._resume_ahead(holder)
            return
        if missing_bytes and self._reserves.get(holder):
            return
        if not self._admit(holder, missing_bytes):
            self._pause(holder)

    def _admit(self, holder: Holder, missing_bytes: int) -> bool:
        """Reserve room for the next part; return whether the connection may be read."""
        if not missing_bytes:
            self._end_reserve(holder)
            return self._room >= 0
        needed_bytes = min(missing_bytes, READ_BYTES)
        is_next = not self._waiting or holder in self._reserves
        if is_next and self._room >= needed_bytes:
            self._reserve(holder, needed_bytes)
            return True
        if self._ahead is None:
            self._go_ahead(holder)
        if holder is self._ahead:
            self._reserve(holder, needed_bytes)
        return holder is self._ahead

    def _go_ahead(self, holder: Holder) -> None:
        if holder is not self._ahead:
            self._ahead = holder
            self._ahead_since = self._clock()
            self._ahead_from = self._ahead_bytes = holder.held_bytes

    def _pause(self, holder: Holder) -> None:
        if not self._waiting:
            log.warning(
                "clients are not read for now: they hold too much",
                queued_max_request_bytes=self.max_bytes,
            )
        # A request of which a part was read is sooner complete than others.
        self._waiting.add(holder, is_known=holder in self._known, is_first=holder in self._reserves)
        self._end_reserve(holder)
        if holder.held_bytes <= LOW_USE_BYTES:
            self._waiting_with_little[holder] = None
        holder.pause("memory")

    def _gave_back(self, holder: Holder, previous_bytes: int) -> None:
        """Let others continue after a connection has given memory back."""
        low_use = self.low_use_bytes
        if previous_bytes > LOW_USE_BYTES:
            self._known.add(holder)
        if holder.held_bytes <= low_use or not holder.missing_bytes:
            self._end_reserve(holder)
        if holder.held_bytes <= low_use:
            self._gave_way.pop(holder, None)
        if holder.held_bytes <= low_use and holder in self._waiting:
            self._resume(holder)
        self._resume_while_there_is_room()
        self._resume_with_little()
        if holder is self._ahead and holder.held_bytes - holder.remembered_bytes <= low_use:
            self._ahead = None
        elif holder is self._ahead and holder in self._waiting and holder.missing_bytes:
            self._resume_ahead(holder)
        if self._ahead is None:
            self._let_the_next_go_ahead()

    def _let_the_next_go_ahead(self) -> None:
        following = self._waiting.next_unfinished()
        if following is not None:
            self._resume_ahead(following)

    def _resume_ahead(self, holder: Holder) -> None:
        """Read a request to its end beyond the budget: incomplete requests free no memory."""
        self._go_ahead(holder)
        self._reserve(holder, min(holder.missing_bytes, READ_BYTES))
        self._resume(holder)

    def _let_slow_one_give_way(self) -> None:
        """Let another request be read beyond the budget if the current one takes long."""
        slow, now = self._ahead, self._clock()
        if slow is None or now - self._ahead_since < TURN_S:
            return
        brought = slow.held_bytes - self._ahead_bytes
        self._ahead_since, self._ahead_bytes = now, slow.held_bytes
        beyond = sum(
            min(extra_bytes, holder.held_bytes) for holder, extra_bytes in self._gave_way.items()
        )
        if brought >= LOW_USE_BYTES or beyond > self.max_bytes // LOW_USE_SHARE:
            return
        if (following := self._waiting.next_unfinished()) not in (None, slow):
            gone = slow.held_bytes - self._ahead_from
            self._gave_way[slow] = self._gave_way.get(slow, 0) + max(0, gone)
            self._known.discard(slow)
            self._end_reserve(slow)
            self._resume_ahead(following)
            if slow.missing_bytes and slow not in self._waiting:
                self._pause(slow)

    def _resume_while_there_is_room(self) -> None:
        """Resume connections while there is room, in turn."""
        room = self._room
        while (following := self._waiting.next()) is not None:
            missing_bytes = following.missing_bytes
            needed_bytes = min(missing_bytes or READ_BYTES, READ_BYTES)
            if room < needed_bytes:
                break
            room -= needed_bytes
            if missing_bytes:
                self._reserve(following, needed_bytes)
            self._resume(following)
        if not self._waiting and not self.is_exceeded:
            self._ahead = None

    def _resume_with_little(self) -> None:
        """Resume a connection that holds little, if there is room again in the share of these."""
        if self._waiting_with_little and self.low_use_bytes == LOW_USE_BYTES:
            self._resume(next(iter(self._waiting_with_little)))

    def _forget_waiting(self, holder: Holder) -> None:
        self._waiting.remove(holder)
        self._waiting_with_little.pop(holder, None)

    def _resume(self, holder: Holder) -> None:
        self._forget_waiting(holder)
        self._waiting.end_turn()
        holder.resume("memory")

    def look(self) -> None:
        """Close the connections whose requests have stalled, if others wait for their memory.

        To be called every `LOOK_EVERY_S`.
        """
        if self._waiting:
            # Those of which a part was read and the rest is not there: the others are little.
            self._close([holder for holder in self._reserves if holder.has_stalled])
            self._let_slow_one_give_way()
            self._resume_while_there_is_room()
            self._note_short()
        self._log_closed()

    def _close(self, holders: list[Holder]) -> None:
        for holder in holders:
            self._closed_count += 1
            self._closed_bytes += holder.held_bytes
            holder.abort()

    def _log_closed(self) -> None:
        """Log how many were closed, at most every second: there may be thousands."""
        now = self._clock()
        if self._closed_count and now - self._logged_at >= _LOG_EVERY_S:
            log.warning(
                "closing connections: others wait for what they hold",
                connections=self._closed_count,
                bytes=self._closed_bytes,
            )
            self._closed_count = self._closed_bytes = 0
            self._logged_at = now

    def tick(self) -> None:
        """Close clients that do not read, if others wait; return memory to the system.

        To be called every few seconds.
        """
        if self._waiting:
            cutoff = self._clock() - UNREAD_S
            unread = [
                holder
                for holder, freed in self._freed.items()
                if freed < cutoff and holder.held_bytes > _COUNTS_BYTES and holder.has_unread
            ]
            self._close(unread)
        self._log_closed()
        if self._used_once - self.used_bytes > _RETURNED_BYTES:
            self._used_once = self.used_bytes
            return_memory()


def default_budget() -> int:
    """Return a quarter of the memory of the machine, or of the container; 1 GiB at most."""
    return min(memory_bytes() // 4, _DEFAULT_MAX_BYTES)

"""The order of clients: they get equal time of a worker, not equal numbers of batches.

Weighted fair queueing (Demers, Keshav and Shenker, 1989) with equal weights. Each client has an
account, in seconds of virtual time. The next client is the client whose next batch would be done
first by that account. Virtual time is slower than a worker's time by the number of clients. A
client that begins to wait starts at that time or later: absent clients do not save up turns, and
clients do not pay for time that no other client needed. So a client of quick batches waits for
about one batch of the slow clients, however many clients send slow batches.

How long a batch takes is known after it was judged. Until then the average of the client's recent
batches is counted, and the difference is corrected later. For a new client, the average of recent
new clients is counted: otherwise clients that send one slow batch and disconnect would always be
next. Each batch counts at least `LEAST_S`: clients of small batches take turns batch by batch, and
there is no account for clients that need not wait.

If clients keep so many batches waiting that a slow batch would be next only after its deadline, its
client is next when it retries: otherwise it would never be.
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

LEAST_S: Final = 0.001
"""The least cost of a batch."""
_NEW_MAX_S: Final = 0.05
"""The most that the first batch of a new client counts until it is judged. A larger value would
only delay the client, because clients with quick batches are before it anyway."""
_KEPT_MIN: Final = 64
_BEFORE_ALL: Final = -1.0


class Turn:
    """A client's place.

    Attributes:
        start: When its next batch would begin, in virtual time.
        expected_s: The average time of its recent batches; 0 if less than `LEAST_S`.
        is_new: Whether none of its batches has been counted, so that this is an estimate.
        number: The number of its entry in the order; 0 while it has no waiting jobs.
        timed_out: Whether its last job timed out before its turn came.
        jobs: Its waiting jobs by partition, or by client if it replaces several clients.
    """

    __slots__ = ("expected_s", "is_new", "jobs", "number", "start", "timed_out")

    def __init__(self, start: float, expected_s: float) -> None:
        self.start = start
        self.expected_s = expected_s
        self.is_new = True
        self.number = 0
        self.timed_out = False
        self.jobs: OrderedDict[Hashable, OrderedDict[Any, None]] = OrderedDict()


class ClientTurns:
    """The clients of a queue. An operation takes O(log n) in their number, amortized."""

    __slots__ = ("_by_client", "_first", "_forget_at", "_last", "_new_s", "_order", "_time",
                 "_waiting_clients")  # fmt: skip

    def __init__(self) -> None:
        self._by_client: dict[Hashable, Turn] = {}
        self._order: list[tuple[float, int, Turn]] = []
        self._time = 0.0
        self._new_s = 0.0  # how long the first batches of new clients have taken of late
        self._first = self._last = 0
        self._waiting_clients = 0
        self._forget_at = _KEPT_MIN

    def __iter__(self) -> Iterator[tuple[Hashable, Turn]]:
        """Yield the clients that have something waiting."""
        return ((client, turn) for client, turn in self._by_client.items() if turn.number)

    def of(self, client: Hashable) -> Turn:
        """Return a client's place."""
        turn = self._by_client.get(client)
        if turn is None:
            if len(self._by_client) >= self._forget_at:
                self._forget_paid()
            turn = self._by_client[client] = Turn(self._time, self._new_s)
        return turn

    def enter(self, turn: Turn) -> None:
        """Let a client wait."""
        self._waiting_clients += 1
        earliest = self._time - turn.expected_s if turn.timed_out else self._time
        turn.start = max(turn.start, earliest)
        self._insert(turn)

    def enter_first(self, turn: Turn, expected_s: float) -> None:
        """Let a client wait before all others, because it got a job back that has been counted.

        Args:
            turn: Its place; it may be waiting.
            expected_s: The expected time of the job.
        """
        if not turn.number:
            self._waiting_clients += 1
        self._first -= 1
        counted_s = expected_s or LEAST_S
        turn.start -= counted_s
        self._time -= counted_s / self._waiting_clients
        turn.number = self._first
        heappush(self._order, (_BEFORE_ALL, turn.number, turn))

    def next(self) -> Turn:
        """Return the place of the client whose turn it is; there must be one."""
        order = self._order
        while True:
            _, number, turn = order[0]
            if turn.number == number:
                return turn
            heappop(order)

    def begin(self, turn: Turn) -> None:
        """Count a job that a client begins; it waits on if there is more."""
        counts_s = turn.expected_s or LEAST_S
        turn.timed_out = False
        turn.start += counts_s
        self._time += counts_s / (self._waiting_clients or 1)
        if turn.number:
            if turn.jobs:
                self._insert(turn)
            else:
                self.leave(turn)

    def begin_at_once(self, client: Hashable) -> float:
        """Count a job of a client while none waits; return how long it is expected to take."""
        turn = self._by_client.get(client)
        if turn is None:
            if not self._new_s:
                return 0.0
            turn = self.of(client)
        turn.start = max(turn.start, self._time)
        self.begin(turn)
        return turn.expected_s

    def settle(self, client: Hashable, expected_s: float, took_s: float) -> None:
        """Correct for the difference between the expected and the real time of a job."""
        turn = self.of(client)
        if turn.is_new:
            self._new_s = _of_late(self._new_s, min(took_s, _NEW_MAX_S))
            turn.is_new, turn.expected_s = False, 0.0
        turn.expected_s = _of_late(turn.expected_s, took_s)
        more_s = max(took_s, LEAST_S) - (expected_s or LEAST_S)
        self._time += more_s / (self._waiting_clients + 1)
        turn.start += more_s
        if turn.number:
            self._insert(turn)

    def leave(self, turn: Turn) -> None:
        """Let a client wait no more."""
        turn.number = 0
        self._waiting_clients -= 1

    def forget(self, client: Hashable) -> Turn | None:
        """Remove a client, and return its place."""
        turn = self._by_client.pop(client, None)
        if turn is not None and turn.number:
            self.leave(turn)
        return turn

    def _insert(self, turn: Turn) -> None:
        self._last += 1
        turn.number = self._last
        heappush(self._order, _entry(turn))
        if len(self._order) > 2 * self._waiting_clients + _KEPT_MIN:  # most are outdated
            self._order = [_entry(turn) for _, turn in self]
            heapify(self._order)

    def _forget_paid(self) -> None:
        """Forget clients that have nothing waiting, and would start now."""
        self._by_client = {
            client: turn
            for client, turn in self._by_client.items()
            if turn.number or turn.start > self._time or turn.timed_out
        }
        self._forget_at = max(_KEPT_MIN, 2 * len(self._by_client))


def _of_late(before_s: float, took_s: float) -> float:
    """Return the average time of recent batches, with a new batch; 0 if less than `LEAST_S`."""
    expected_s = (before_s + took_s) / 2 if before_s else took_s
    return expected_s if expected_s > LEAST_S else 0.0


def _entry(turn: Turn) -> tuple[float, int, Turn]:
    ends = turn.start + (turn.expected_s or LEAST_S) if turn.number > 0 else _BEFORE_ALL
    return ends, turn.number, turn

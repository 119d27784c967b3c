"""How fast a client sends the request that is being read, without sockets or a clock.

A request is never complete by itself: a client that stops within it holds its memory, and has
others wait. Two rules prevent that. Both count only the time in which the gateway was ready to read
the connection: a client that the gateway has paused is not slow.

- **The least rate** (`socket.request.min.bytes.per.second`), over `WINDOW_S`, holds always.
- **A request has stalled** if it comes much slower than before: over the time in which it brought
  `STALL_BYTES` on average so far, at least `STALL_S`, it brought less than a quarter of that
  average, of which no more than `FAST` counts. This holds only while others wait for the memory. An
  attacker can keep to the least rate, but whoever sends 300 KB at once and then trickles has
  stalled after `STALL_S`. A client that sends steadily never stalls, however slow it is.
"""

from __future__ import annotations

from collections import deque
from typing import Final

WINDOW_S: Final = 10.0
"""The least rate is that over so much time."""
STALL_BYTES: Final = 24 * 1024
STALL_S: Final = 0.75
"""The least time after which a request has stalled: a round trip to a client far away takes less,
and TCP sends only some packets in each; so does a packet that is lost and sent again."""
FAST: Final = 96 * 1024
"""A rate, in bytes a second: a client that was faster may be as slow as one that was not."""
_STALLED_PART: Final = 4


class RequestRate:
    """The rate of the requests of a connection, from looks at it: one a second, or more."""

    __slots__ = ("_before", "_begun", "_end", "_least", "_looks")

    def __init__(self, least: int, now: float) -> None:
        """Make the rate of a new connection.

        Args:
            least: The least rate, in bytes a second; 0 for none.
            now: The time, in seconds.
        """
        self._least = least
        self._end: int | None = None
        self._before = self._begun = (now, 0)
        self._looks: deque[tuple[float, int]] = deque()

    def look(self, now: float, ready_s: float, received: int, end: int | None) -> None:
        """Note how much has been received.

        Args:
            now: The time, in seconds.
            ready_s: For how long the gateway was ready to read the connection.
            received: How many bytes were received on it.
            end: How many they are when the current request is complete; None between requests.
        """
        if end != self._end or not self._looks:
            self._end = end
            self._begun = self._before
            self._looks.clear()
        self._before = (now, received)
        if end is None:
            return
        looks = self._looks
        looks.append((ready_s, received))
        while len(looks) > 1 and looks[1][0] <= ready_s - WINDOW_S:
            looks.popleft()

    @property
    def is_too_slow(self) -> bool:
        """Whether the current request is below the least rate."""
        if not self._least or len(self._looks) < 2:
            return False
        (since_s, first_bytes), (until_s, received) = self._looks[0], self._looks[-1]
        took_s = until_s - since_s
        return took_s >= WINDOW_S and received - first_bytes < self._least * took_s

    @property
    def has_stalled(self) -> bool:
        """Whether the current request comes much slower than before."""
        if len(self._looks) < 2:
            return False
        (began, previous_bytes), (now, received) = self._begun, self._before
        if received <= previous_bytes:
            return False
        average = (received - previous_bytes) / (now - began)
        window_s = min(max(STALL_BYTES / average, STALL_S), WINDOW_S)
        expected = min(average, FAST) * window_s
        since_s = self._looks[-1][0] - window_s
        earlier = next(
            (count for look_s, count in reversed(self._looks) if look_s <= since_s), None
        )
        return earlier is not None and received - earlier < expected / _STALLED_PART

"""How many of a topic's records were bad in the last minute (`penstock.quarantine.max.ratio`).

No client may change the share of a topic that it may not write to, since batches of others are
refused for it. Bad records count when the client's right is known, and good records when the
broker has stored them.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOW_S: Final = 60
BAD_MIN: Final = 10
"""With fewer bad records no share is computed: the first record of a minute may be bad."""
_TOPICS_MAX: Final = 10_000


class _Share:
    """The records of one topic, by the second."""

    __slots__ = ("bad", "count", "seconds")

    def __init__(self) -> None:
        self.seconds: deque[list[int]] = deque()
        self.bad = self.count = 0

    def add(self, second: int, bad: int, count: int) -> None:
        while self.seconds and self.seconds[0][0] <= second - WINDOW_S:
            _, old_bad, old_count = self.seconds.popleft()
            self.bad -= old_bad
            self.count -= old_count
        if not self.seconds or self.seconds[-1][0] != second:
            self.seconds.append([second, 0, 0])
        last = self.seconds[-1]
        last[1] += bad
        last[2] += count
        self.bad += bad
        self.count += count


class BadShares:
    """The shares of all topics, as this gateway has seen them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._topics: OrderedDict[str, _Share] = OrderedDict()

    def add(self, topic: str, bad: int, good: int) -> float:
        """Count the bad records of a batch that comes for the first time; return the share by now.

        Bad records that are refused for their share are counted, too, or every other batch would
        pass. The good records are part of the returned share, and count when they are stored.

        Args:
            bad: How many records of the batch are bad.
            good: How many are not.
        """
        share = self._of(topic)
        share.add(int(self._clock()), bad, bad)
        return share.bad / (share.count + good) if share.bad >= BAD_MIN else 0.0

    def add_stored(self, topic: str, good: int) -> None:
        """Count good records of a topic, which the broker has stored."""
        self._of(topic).add(int(self._clock()), 0, good)

    def _of(self, topic: str) -> _Share:
        share = self._topics.get(topic)
        if share is None:
            share = self._topics[topic] = _Share()
            if len(self._topics) > _TOPICS_MAX:
                self._topics.popitem(last=False)
        self._topics.move_to_end(topic)
        return share

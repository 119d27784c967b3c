"""Topics of which gateways may have other interceptors than before, or than each other."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

DOUBTED_S: Final = 600.0
"""No client retries a batch for longer, unless configured to."""
_CHANGES_MAX: Final = 20
"""The most changes that expire one by one; those before count as long as the newest of them."""


class Doubts:
    """The changes of interceptors in the last minutes.

    Attributes:
        generation: How many changes there have been.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        """Begin without a change.

        Args:
            now: Returns the time in seconds.
        """
        self._now = now
        self._changes: deque[tuple[float, Callable[[str], bool]]] = deque()
        self._topics: dict[str, float] = {}
        self.generation = 0

    def __bool__(self) -> bool:
        return bool(self._changes or self._topics)

    def add(self, affects: Callable[[str], bool]) -> None:
        """Add a change.

        Args:
            affects: Whether records of a topic may have been dropped before it, or may be now.
        """
        self.generation += 1
        if len(self._changes) == _CHANGES_MAX:
            earlier = [change for _, change in self._changes]
            self._changes.clear()
            self._changes.append(
                (self._now() + DOUBTED_S, lambda topic: any(change(topic) for change in earlier))
            )
        self._changes.append((self._now() + DOUBTED_S, affects))

    def add_topic(self, topic: str) -> None:
        """Add a change of one topic's own settings."""
        self.generation += 1
        self._topics[topic] = self._now() + DOUBTED_S

    def affect(self, topic: str) -> bool:
        """Whether a change affects a topic, and batches that came before it may come again."""
        if not self:
            return False
        now = self._now()
        return self._topics.get(topic, now) > now or any(
            until > now and affects(topic) for until, affects in self._changes
        )

    def expire(self) -> None:
        """Forget the changes that are long past."""
        now = self._now()
        while self._changes and self._changes[0][0] <= now:
            self._changes.popleft()
        self._topics = {topic: until for topic, until in self._topics.items() if until > now}

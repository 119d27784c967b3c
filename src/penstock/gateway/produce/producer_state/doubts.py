"""Topics for which gateways may have other interceptors than before, or than each other."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

DOUBTED_S: Final = 600.0
"""No client retries a batch for longer, unless configured to."""
_TOGETHER_S: Final = 30.0
"""Changes within this time expire together, with the last of them."""
_TOPICS_MAX: Final = 10_000


class _Changes:
    """Changes that expire together.

    Attributes:
        since: The time of the first.
        until: When they expire.
        affect: Whether records of a topic may be affected, by each of them.
    """

    __slots__ = ("affect", "since", "until")

    def __init__(self, start: float) -> None:
        self.since = start
        self.until = 0.0
        self.affect: list[Callable[[str], bool]] = []


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
        self._changes: deque[_Changes] = deque()
        self._topics: dict[str, float] = {}
        self._until: dict[str, float] = {}
        """Until when each topic is affected, as far as it was compared with the changes."""
        self.generation = 0

    def __bool__(self) -> bool:
        return bool(self._changes or self._topics)

    @property
    def are_of_interceptors(self) -> bool:
        """Whether interceptors have changed, and earlier batches may be retried."""
        return bool(self._changes) and self._changes[-1].until > self._now()

    @property
    def are_present(self) -> bool:
        """Whether any change is not long past."""
        now = self._now()
        return self.are_of_interceptors or any(expiry > now for expiry in self._topics.values())

    def add(self, affects: Callable[[str], bool]) -> None:
        """Add a change.

        Args:
            affects: Whether records of a topic may have been dropped before it, or may be now.
        """
        self.generation += 1
        self._until.clear()
        now = self._now()
        if not self._changes or now - self._changes[-1].since > _TOGETHER_S:
            self._changes.append(_Changes(now))
        together = self._changes[-1]
        together.affect.append(affects)
        together.until = max(together.until, now + DOUBTED_S)

    def add_topic(self, topic: str) -> None:
        """Add a change of one topic's own settings."""
        self.generation += 1
        self._until.clear()
        self._topics[topic] = self._now() + DOUBTED_S

    def affect(self, topic: str) -> bool:
        """Whether a change affects a topic, and earlier batches may be retried."""
        if not self:
            return False
        expiry = self._until.get(topic)
        if expiry is None:
            if len(self._until) == _TOPICS_MAX:
                self._until.clear()
            expiry = self._until[topic] = self._affected_until(topic)
        return expiry > self._now()

    def _affected_until(self, topic: str) -> float:
        own = self._topics.get(topic, 0.0)
        for changes in reversed(self._changes):
            if any(affects(topic) for affects in changes.affect):
                return max(changes.until, own)
        return own

    def expire(self) -> None:
        """Forget the changes that are long past."""
        now = self._now()
        while self._changes and self._changes[0].until <= now:
            self._changes.popleft()
        self._topics = {topic: expiry for topic, expiry in self._topics.items() if expiry > now}

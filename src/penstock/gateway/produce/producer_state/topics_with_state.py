"""The topics of producers whose sequence numbers may have to be changed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_EVICTED_TOPICS_MAX: Final = 10_000


class TopicsWithState:
    """The topics that have state of producers, in memory or in records elsewhere.

    Attributes:
        on_topic: Called with the name of a topic that has state from now on, and had none before;
            with None if that may be any topic. By then `has` says so.
        on_change: Called when it has changed which records topics lose, with a function that
            returns whether a topic is affected.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        """Begin without a topic.

        Args:
            now: Returns the time in seconds since the epoch.
        """
        self.on_topic: Callable[[str | None], None] = lambda _: None
        self.on_change: Callable[[Callable[[str], bool]], None] = lambda _: None
        self._now = now
        self._topics: Counter[str] = Counter()
        # Until when topics may have producers whose records are not in memory any more.
        self._evicted: dict[str, float] = {}
        self._any_until = 0.0

    def __bool__(self) -> bool:
        return bool(self._topics or self._evicted or self._any_until)

    @property
    def names(self) -> Collection[str]:
        """The topics of producers whose sequence numbers are known, or were."""
        if self._evicted:
            return self._topics.keys() | self._evicted.keys()
        return self._topics.keys()

    def has(self, topic: str) -> bool:
        """Whether there may be a producer of a topic whose sequence numbers are changed."""
        return topic in self._topics or topic in self._evicted or bool(self._any_until)

    def add(self, topic: str) -> None:
        """Count a producer of a topic."""
        self._topics[topic] += 1
        if self._topics[topic] == 1:
            self.on_topic(topic)

    def tell_all(self) -> None:
        """Call `on_topic` with the topics that have state already."""
        for topic in self.names:
            self.on_topic(topic)
        if self._any_until:
            self.on_topic(None)

    def remove(self, topic: str) -> None:
        """Count a producer of a topic no longer."""
        self._topics[topic] -= 1
        if self._topics[topic] <= 0:
            del self._topics[topic]

    def note_evicted(self, topic: str, expiry: float) -> None:
        """Note that a producer of a topic may have a record that is not in memory any more."""
        if expiry <= self._now():
            return
        if topic in self._evicted or len(self._evicted) < _EVICTED_TOPICS_MAX:
            self._evicted[topic] = max(expiry, self._evicted.get(topic, 0.0))
            return
        is_new = not self._any_until
        self._any_until = max(expiry, self._any_until)
        if is_new:
            self.on_topic(None)

    def expire(self) -> None:
        """Forget the topics whose evicted records have expired."""
        now = self._now()
        if self._any_until <= now:
            self._any_until = 0.0
        for topic in [topic for topic, expiry in self._evicted.items() if expiry <= now]:
            del self._evicted[topic]

"""A cache of topic names and ids, as the broker returned them over one connection."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

K = TypeVar("K")
V = TypeVar("V")

_ID_TTL_S: Final = 10.0
"""A topic that is deleted and created again has another id."""
_TOPICS_MAX: Final = 10_000
_TOPIC_BYTES: Final = 500
"""The estimated memory of a topic."""


class TopicNames:
    """The cache of a connection: the cluster's ACLs decide which topics its client may see.

    Attributes:
        held_bytes: The estimated memory of the cache.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        # Read for each request: the caches of cachetools are written in Python.
        self._names: OrderedDict[UUID, str] = OrderedDict()
        self._ids: OrderedDict[str, tuple[UUID, float]] = OrderedDict()
        self._clock = clock
        self.held_bytes = 0

    def name(self, topic_id: UUID) -> str | None:
        """Return the name of a topic id; it never changes."""
        return self._names.get(topic_id)

    def topic_id(self, name: str, *, changed_at: float = 0.0) -> UUID | None:
        """Return the id of a topic name, if it was stored recently, and after `changed_at`."""
        entry = self._ids.get(name)
        if entry is None:
            return None
        topic_id, timestamp = entry
        return (
            topic_id if changed_at < timestamp and self._clock() < timestamp + _ID_TTL_S else None
        )

    def known_until(self, name: str) -> float:
        """Return until when a name is known to be that of its topic; 0 if it is not known."""
        entry = self._ids.get(name)
        return 0.0 if entry is None else entry[1] + _ID_TTL_S

    def drop(self, name: str) -> None:
        """Forget the id of a topic that is not there."""
        self._ids.pop(name, None)

    def forget(self) -> None:
        """Forget all of it."""
        self._names.clear()
        self._ids.clear()
        self.held_bytes = 0

    def put(self, name: str, topic_id: UUID) -> None:
        """Store a name and its id."""
        _put(self._names, topic_id, name)
        _put(self._ids, name, (topic_id, self._clock()))
        self.held_bytes = _TOPIC_BYTES * len(self._ids)


def _put(cache: OrderedDict[K, V], key: K, value: V) -> None:
    """Put an item behind all others; remove the first item if there are too many."""
    cache[key] = value
    cache.move_to_end(key)
    if len(cache) > _TOPICS_MAX:
        cache.popitem(last=False)

"""A cache of `cleanup.policy`, which the gateway reads with its own principal.

A topic whose records may be lost must not be compacted, unless it is meant (see
`engine.plans.framework_topics`). Another gateway, or a client of the cluster, may change it: the
value is read again when it is older than `REFRESH_S`, and not used for longer than `_TTL_S`.
"""

from __future__ import annotations

import asyncio
import time
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import structlog
from cachetools import TTLCache

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    Read = Callable[[Sequence[str]], tuple[Mapping[str, str], str]]

log = structlog.get_logger()

REFRESH_S: Final = 20.0
_TTL_S: Final = 60.0
WAIT_S: Final = 1.0
"""How long a batch waits; a cluster answers sooner."""
RETRY_S: Final = 1.0
_LOG_EVERY_S: Final = 60.0
_AT_ONCE: Final = 100
_TOPICS_MAX: Final = 10_000


class CleanupPolicies:
    """Whether topics are compacted, as far as the cluster has answered."""

    def __init__(
        self,
        read: Read,
        run: Callable[[Coroutine[object, object, Any]], asyncio.Task[Any]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Know nothing yet.

        Args:
            read: Returns the values of topics, and why others are not known. It blocks.
            run: Runs a coroutine until it ends or the gateway stops.
            clock: Returns the monotonic time in seconds.
        """
        self._read = read
        self._run = run
        self._clock = clock
        self._known: TTLCache[str, tuple[bool, float]] = TTLCache(_TOPICS_MAX, _TTL_S, timer=clock)
        self._failed: TTLCache[str, bool] = TTLCache(_TOPICS_MAX, RETRY_S, timer=clock)
        self._wanted: dict[str, None] = {}
        self._requested: frozenset[str] = frozenset()
        self._changed: set[str] = set()
        self._reading: asyncio.Task[Any] | None = None
        self._logged_at = -_LOG_EVERY_S

    def is_compacted(self, topic: str) -> bool | None:
        """Return whether a topic is compacted; None if it is not known now."""
        found = self._known.get(topic)
        if found is None:
            return None
        is_compacted, at = found
        if self._clock() - at > REFRESH_S:
            self._want([topic])
        return is_compacted

    async def look_up(self, topics: Iterable[str]) -> None:
        """Read the values of topics that are not known; give up after `WAIT_S`."""
        self._want(topic for topic in topics if topic not in self._known)
        if self._reading is not None:
            await asyncio.wait([self._reading], timeout=WAIT_S)

    def forget(self, topic: str) -> None:
        """Forget the value of a topic that may have changed."""
        self._known.pop(topic, None)
        self._failed.pop(topic, None)
        if topic in self._requested:
            self._changed.add(topic)

    def _want(self, topics: Iterable[str]) -> None:
        self._wanted |= dict.fromkeys(topic for topic in topics if topic not in self._failed)
        if self._wanted and (self._reading is None or self._reading.done()):
            self._reading = self._run(self._read_wanted())

    async def _read_wanted(self) -> None:
        while self._wanted:
            topics = list(islice(self._wanted, _AT_ONCE))
            for topic in topics:
                del self._wanted[topic]
            self._requested = frozenset(topics)
            self._changed.clear()
            found, why = await asyncio.to_thread(self._read, topics)
            self._requested = frozenset()
            for topic in topics:
                if topic in self._changed:
                    continue  # since the request
                if topic in found:
                    self._known[topic] = "compact" in found[topic], self._clock()
                else:
                    self._failed[topic] = True
            if why:
                self._log(why, topics, found)

    def _log(self, why: str, topics: Sequence[str], found: Mapping[str, str]) -> None:
        now = self._clock()
        if now - self._logged_at >= _LOG_EVERY_S:
            self._logged_at = now
            topic = next((topic for topic in topics if topic not in found), "")
            log.error(
                "it is not known whether a topic is compacted: its bad records are held back",
                topic=topic,
                reason=why,
            )

"""A cache of `cleanup.policy`, which the gateway reads with its own principal.

A topic whose records may be lost must not be compacted, unless it is meant (see
`engine.plans.framework_topics`). Another gateway, or a client of the cluster, may change it: the
value is read again when it is older than `REFRESH_S`, and not used for longer than `_TTL_S`.

Any client may request a change. So a value that was requested before a change is not kept, but the
batches that waited for it use it: they came before the change, too.
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
    Found = asyncio.Future[bool | None]

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
        reader: Read,
        run: Callable[[Coroutine[object, object, Any]], asyncio.Task[Any]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Know nothing yet.

        Args:
            reader: Returns the values of topics, and why others are not known. It blocks.
            run: Runs a coroutine until it ends or the gateway stops.
            clock: Returns the monotonic time in seconds.
        """
        self._read = reader
        self._run = run
        self._clock = clock
        self._known: TTLCache[str, tuple[bool, float]] = TTLCache(_TOPICS_MAX, _TTL_S, timer=clock)
        self._failed: TTLCache[str, bool] = TTLCache(_TOPICS_MAX, RETRY_S, timer=clock)
        self._wanted: dict[str, Found] = {}
        self._requested: Mapping[str, Found] = {}
        self._changed: set[str] = set()
        self._reading: asyncio.Task[Any] | None = None
        self._logged_at = -_LOG_EVERY_S

    def is_compacted(self, topic: str) -> bool | None:
        """Return whether a topic is compacted; None if it is not known now."""
        entry = self._known.get(topic)
        if entry is None:
            return None
        is_compacted, read_time = entry
        if self._clock() - read_time > REFRESH_S:
            self._want([topic])
        return is_compacted

    async def look_up(self, topics: Iterable[str]) -> dict[str, bool]:
        """Return whether topics are compacted, but for those that are not known after `WAIT_S`."""
        values = {topic: self.is_compacted(topic) for topic in topics}
        answers = self._want(
            topic for topic, is_compacted in values.items() if is_compacted is None
        )
        if answers:
            await asyncio.wait(answers.values(), timeout=WAIT_S)
        values |= {topic: answer.result() for topic, answer in answers.items() if answer.done()}
        return {topic: value for topic, value in values.items() if value is not None}

    def forget(self, topic: str) -> None:
        """Forget the value of a topic that may have changed."""
        self._known.pop(topic, None)
        self._failed.pop(topic, None)
        if topic in self._requested:
            self._changed.add(topic)

    def _want(self, topics: Iterable[str]) -> dict[str, Found]:
        """Request values, but those that were not known a moment ago; return their answers."""
        answers: dict[str, Found] = {}
        for topic in topics:
            if topic not in self._failed:
                answer = self._requested.get(topic) if topic not in self._changed else None
                answer = answer or self._wanted.get(topic)
                if answer is None:
                    answer = self._wanted[topic] = asyncio.get_running_loop().create_future()
                answers[topic] = answer
        if self._wanted and (self._reading is None or self._reading.done()):
            self._reading = self._run(self._read_wanted())
        return answers

    async def _read_wanted(self) -> None:
        while self._wanted:
            topics = list(islice(self._wanted, _AT_ONCE))
            self._requested = {topic: self._wanted.pop(topic) for topic in topics}
            self._changed.clear()
            policies, why = await asyncio.to_thread(self._read, topics)
            requested, self._requested = self._requested, {}
            for topic, answer in requested.items():
                is_compacted = "compact" in policies[topic] if topic in policies else None
                answer.set_result(is_compacted)
                if topic in self._changed:
                    continue  # since the request
                if is_compacted is None:
                    self._failed[topic] = True
                else:
                    self._known[topic] = is_compacted, self._clock()
            if why:
                self._log(why, topics, policies)

    def _log(self, why: str, topics: Sequence[str], policies: Mapping[str, str]) -> None:
        now = self._clock()
        if now - self._logged_at >= _LOG_EVERY_S:
            self._logged_at = now
            topic = next((topic for topic in topics if topic not in policies), "")
            log.error(
                "it is not known whether a topic is compacted: its bad records are held back",
                topic=topic,
                reason=why,
            )

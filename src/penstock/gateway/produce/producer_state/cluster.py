"""Stores the state of producers in a compacted topic of the cluster, for several gateways.

A record is written before the batch is sent to the broker. A gateway that receives a batch of an
unknown producer reads the topic to its end first. So a producer may change gateways at any time.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import structlog

from penstock.cluster.compacted_topic import CompactedTopicError
from penstock.cluster.compacted_topic_follower import LogFollower
from penstock.gateway.produce.producer_state.encoding import ProducerKey
from penstock.gateway.produce.producer_state.presence import Presence, announce, withdraw
from penstock.gateway.produce.producer_state.state_topic import state_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.cluster.compacted_topic import LogRecord
    from penstock.configuration import Configuration

    Take = Callable[[ProducerKey, bytes, float, int], None]

log = structlog.get_logger()

READ_TIMEOUT_S: Final = 5.0
"""How long a producer that is new here waits until the topic has been read."""
_LOG_EVERY_S: Final = 60.0
"""Many producers wait for the topic, and each of them tries again."""


class _OnceAMinute:
    """An event of the log that may happen thousands of times.

    Attributes:
        at: When it was logged last, in monotonic seconds.
    """

    def __init__(self, event: str) -> None:
        self._event = event
        self._times = 0
        self.at = -_LOG_EVERY_S

    def log(self, reason: str) -> None:
        """Log it, or count it for the next line."""
        self._times += 1
        now = time.monotonic()
        if now - self.at >= _LOG_EVERY_S:
            log.error(self._event, reason=reason, times=self._times)
            self.at, self._times = now, 0


class ClusterStore:
    """The producer records of all gateways.

    Attributes:
        topic: The topic that keeps them.
        writes: How writes have ended.
    """

    def __init__(
        self, configuration: Configuration, properties: Mapping[str, str], presence: Presence
    ) -> None:
        """Make the store; `start` connects it.

        Args:
            configuration: Names the topic.
            properties: The client properties for the cluster, as for a Java client.
            presence: What is said of this gateway in the topic, and read of others.
        """
        self._presence = presence
        topic = state_topic(configuration, properties)
        self.topic = topic.topic
        self._follower = LogFollower(topic, self._read)
        self.writes = self._follower.writes
        self._is_present = False
        self._unread = _OnceAMinute(
            "batches are held back: the state of their producers is not known"
        )
        self._unwritten = _OnceAMinute("the state of a producer cannot be written")

    async def start(self, timeout_s: float, take: Take) -> None:
        """Read all records, and follow the topic from here on.

        Args:
            timeout_s: The timeout for the first read.
            take: Called with each record, its time in seconds since the epoch, and the position
                after it. Raises ValueError for a record that cannot be decoded.

        Raises:
            ConfigurationError: The topic cannot be used.
            CompactedTopicError: The cluster does not respond.
        """
        self._take = take
        await self._follower.start(timeout_s)

    async def read_to_end(self) -> None:
        """Read the topic up to its present end.

        Raises:
            CompactedTopicError: It cannot be read now; the log says so once a minute.
        """
        try:
            await self._follower.read_to_end(READ_TIMEOUT_S)
        except CompactedTopicError as error:
            self._unread.log(str(error))
            raise

    def keep(self, key: ProducerKey, record: bytes, done: Callable[[str | None], None]) -> None:
        """Write a record; `done` is called with None when it has been read back, or with an error.

        By then all records before it have been read, too.
        """

        def written(end: int, failure: str | None) -> None:
            if failure is not None:
                self._unwritten.log(failure)
                done(failure)
            else:
                self._follower.when_read(end, READ_TIMEOUT_S, done)

        self._follower.write([(key.encode(), record)], written)

    async def announce_change(self, topics: Sequence[str]) -> None:
        """Say that the interceptors of this gateway change, before they do.

        If that cannot be written, no decision of them can be written now, either.

        Args:
            topics: See `presence.Change`.
        """
        self._presence.change(topics)
        said = self._presence.key, self._presence.value
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                await self._follower.append([said], READ_TIMEOUT_S)
        except (CompactedTopicError, TimeoutError) as error:
            log.warning(
                "other gateways do not know yet that interceptors have changed",
                reason=str(error) or f"not written within {READ_TIMEOUT_S:.0f} s",
            )

    def on_change(self, call: Callable[[Callable[[str], bool]], None]) -> None:
        """Have a function called when another gateway says that; see `Presence.on_change`."""
        self._presence.on_change = call

    async def run(self) -> None:
        """Say every minute that this gateway is there."""
        self._is_present = True
        await announce(self._follower, self._presence)

    async def close(self) -> None:
        """Say that this gateway ends, and stop following."""
        if self._is_present:
            withdraw(self._follower, self._presence)
        await self._follower.close()

    def _read(self, record: LogRecord) -> None:
        if Presence.is_about(record.key):
            self._presence.read(record)
            return
        if record.value is None:
            return
        try:
            key = ProducerKey.decode(record.key)
            self._take(key, record.value, record.timestamp_ms / 1000, record.position)
        except (ValueError, TypeError, KeyError) as error:
            log.error(
                "the state of a producer cannot be understood",
                topic=self.topic,
                offset=record.position - 1,
                reason=str(error),
            )

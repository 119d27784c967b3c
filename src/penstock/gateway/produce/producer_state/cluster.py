"""Stores the state of producers in a compacted topic of the cluster, for several gateways.

A record is written before the batch is sent to the broker. A gateway that receives a batch of an
unknown producer reads the topic to its end first. So a producer may change gateways at any time.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Final

import structlog

from penstock.gateway.produce.producer_state.presence import (
    Announcement,
    Presence,
    announce,
    withdraw,
)
from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
from penstock.gateway.produce.producer_state.state_topic import state_topic
from penstock.kafka.cluster.compacted_topic import CompactedTopicError
from penstock.kafka.cluster.compacted_topic_follower import LogFollower

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.configuration import Configuration
    from penstock.gateway.produce.producer_state.last_interceptors import Interceptors
    from penstock.kafka.cluster.compacted_topic import LogRecord

    Take = Callable[[ProducerKey, bytes, float, int], None]

log = structlog.get_logger()

READ_TIMEOUT_S: Final = 5.0
"""How long a producer that is new here waits until the topic has been read."""
_RETRY_AFTER_S: Final = 0.5
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
        ahead: Called in another thread with the topic of each record, before the event loop has it:
            native threads do not wait for that.
    """

    def __init__(
        self, configuration: Configuration, properties: Mapping[str, str], presence: Presence
    ) -> None:
        """Make the store; `start` connects it.

        Args:
            configuration: Names the topic.
            properties: The client properties for the cluster, as for a Java client.
            presence: The announcements of this gateway in the topic, and those of others.
        """
        self._presence = presence
        topic = state_topic(configuration, properties)
        self.topic = topic.topic
        self.ahead: Callable[[str], None] = _ignore_topic
        self._follower = LogFollower(topic, self._read, ahead=self._read_ahead)
        self.writes = self._follower.writes
        self._is_present = False
        # How many changes could not be announced, and how many of these have been announced since.
        self._unannounced = self._announced = 0
        self._is_announcing = False
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
            CompactedTopicError: It cannot be read now; this is logged once a minute.
        """
        try:
            await self._follower.read_to_end(READ_TIMEOUT_S)
        except CompactedTopicError as error:
            self._unread.log(str(error))
            raise

    def keep(self, key: ProducerKey, record: bytes, callback: Callable[[str | None], None]) -> None:
        """Write a record; `callback` is called with None once it is read back, or with an error.

        By then all records before it have been read, too. If a change of interceptors could not be
        announced, it is written before the decision: readers of the decision then know the change.
        """
        unannounced = self._unannounced
        records: list[tuple[bytes, bytes | None]] = [(key.encode(), record)]
        if unannounced > self._announced:
            records.insert(0, (self._presence.key, self._presence.value))

        def written(end: int, failure: str | None) -> None:
            if failure is not None:
                self._unwritten.log(failure)
                callback(failure)
            else:
                self._announced = max(self._announced, unannounced)
                self._follower.when_read(end, READ_TIMEOUT_S, callback)

        self._follower.write(records, written)

    async def begin(self, interceptors: Callable[[], Interceptors], *, compares: bool) -> bool:
        """Begin to say which interceptors this gateway has.

        Args:
            interceptors: Returns them.
            compares: Whether they may be as before: this process begins with them.

        Returns:
            Whether all that may have been used in the last minutes, here and at other gateways,
            are the same. If not, `Presence.on_change` is called for the changes of others.
        """
        presence = self._presence
        presence.interceptors = interceptors
        presence.begin()
        digest = interceptors().digest
        may_be = compares and presence.may_be_as_before(digest)
        is_written = await self._write_presence() is None  # which says what time it is
        return presence.compare(digest if may_be and is_written else None)

    @property
    def before(self) -> Announcement | None:
        """The last announcement of an earlier process of this gateway; None if it is not known."""
        return self._presence.before

    def announce_topic(self, topic: str, *, loses_records: bool) -> None:
        """Announce that a topic's own settings have changed; nothing waits for it.

        It is written before the next decision in any case.

        Args:
            loses_records: Whether it may lose records with them.
        """
        self._presence.own.put_topic(topic, loses_records=loses_records)
        self._unannounced += 1
        if not self._is_announcing:
            self._announce_topics()

    def _announce_topics(self) -> None:
        unannounced = self._unannounced

        def written(_: int, failure: str | None) -> None:
            self._is_announcing = False
            if failure is not None:
                self._unwritten.log(failure)
                return
            self._announced = max(self._announced, unannounced)
            if unannounced < self._unannounced:
                self._announce_topics()

        self._is_announcing = True
        self._follower.write([(self._presence.key, self._presence.value)], written)

    async def announce_change(self, topics: Sequence[str], *, timeout_s: float = 0.0) -> str | None:
        """Announce that the interceptors of this gateway change, before they do.

        If that cannot be written, it is written with the next decision of them.

        Args:
            topics: See `changes.Change`.
            timeout_s: For how long it is tried again, if it cannot be written at once.

        Returns:
            None, or why it could not be written.
        """
        self._presence.own.put(topics)
        failure = await self._write_presence()
        if failure is not None and timeout_s > 0:
            log.warning(
                "waiting until other gateways know that interceptors change",
                reason=failure,
                gives_up_after_s=timeout_s,
            )
            deadline = time.monotonic() + timeout_s
            while failure is not None and time.monotonic() < deadline:
                await asyncio.sleep(_RETRY_AFTER_S)
                failure = await self._write_presence()
        if failure is not None:
            self._unannounced += 1
            log.warning(
                "other gateways do not know yet that interceptors have changed", reason=failure
            )
        return failure

    async def _write_presence(self) -> str | None:
        record = self._presence.key, self._presence.value
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                await self._follower.append([record], READ_TIMEOUT_S)
        except (CompactedTopicError, TimeoutError) as error:
            return str(error) or f"not written within {READ_TIMEOUT_S:.0f} s"
        return None

    def on_change(
        self, call: Callable[[Callable[[str], bool]], None], of_topic: Callable[[str], None]
    ) -> None:
        """Set the functions that are called when another gateway announces that.

        Args:
            call: Called with a function that returns whether a topic is affected.
            of_topic: Called with a topic whose own settings have changed.
        """
        self._presence.on_change, self._presence.on_topic = call, of_topic

    async def run(self) -> None:
        """Announce every minute that this gateway is running."""
        self._is_present = True
        await announce(self._follower, self._presence)

    async def close(self) -> None:
        """Announce that this gateway ends, and stop following."""
        if self._is_present:
            withdraw(self._follower, self._presence)
        await self._follower.close()

    def _read_ahead(self, record: LogRecord) -> None:
        if Presence.is_about(record.key) or record.value is None:
            return
        with contextlib.suppress(Exception):  # `_read` logs it; nothing may stop the thread
            self.ahead(ProducerKey.decode(record.key).topic)

    def _read(self, record: LogRecord) -> None:
        if Presence.is_about(record.key):
            self._presence.read(record)
            return
        if record.value is None:
            return
        try:
            key = ProducerKey.decode(record.key)
            self._take(key, record.value, record.timestamp_ms / 1000, record.position)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            log.error(
                "the state of a producer cannot be understood",
                topic=self.topic,
                offset=record.position - 1,
                reason=str(error),
            )


def _ignore_topic(_: str) -> None:
    """Do nothing: the topics with state are not needed."""

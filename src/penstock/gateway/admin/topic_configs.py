"""The topic level keys of topics, for the requests of this gateway.

What holds is `penstock.topic_configs.index`, kept current by `penstock.cluster.compacted_topic`.
Promises:

- A topic never takes a record unjudged between its creation and its settings: they are in the
  log before the cluster is asked to create it, and a topic that is seen here for the first
  time is judged only after everything that was in the log by then has been read.
- A change is answered when it has been read back here; other gateways follow within the
  time in which they read the log.
- A gateway that dies in the middle of a creation leaves its settings in the log. They hold for
  the topic if it came to be; who finds them puts them under its id, or deletes them.
"""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from collections import Counter
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import structlog
from cachetools import LRUCache, TTLCache

from penstock.cluster.compacted_topic_follower import LogFollower
from penstock.topic_configs.index import (
    RecordKey,
    TopicConfigIndex,
    TopicConfigRecord,
    UnreadableTopicConfigsError,
    creation_key,
    topic_key,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from uuid import UUID

    from penstock.cluster.compacted_topic import CompactedTopic, LogRecord

log = structlog.get_logger()

WRITE_TIMEOUT_S: Final = 15.0
"""How long a change waits until it has been read back; admin clients wait longer."""
READ_TIMEOUT_S: Final = 5.0
"""How long a topic that is new here waits until the log has been read."""
ABANDONED_AFTER_S: Final = 180.0
"""A creation of another gateway that is open for so long is taken to have been left behind."""
LEFT_AFTER_S: Final = 120.0
"""A creation of our own whose outcome was lost is looked after when so long has passed: by then
a controller has dropped what it had not come to."""
MISSED_TIMES: Final = 3
"""A topic is gone if the cluster says so so many times, one sweep after the other: a broker may
be behind."""
SWEEP_EVERY_S: Final = 20.0
_SEEN_MAX: Final = 100_000
_CHANGED_KEPT_S: Final = 60.0
"""A topic's id is not believed for longer than that, whatever has changed."""


class TopicConfigs:
    """The topic level keys set on topics; here, those of a gateway that keeps none.

    Attributes:
        are_stored: Whether there are any, so that a topic's id matters.
        topic: The compacted topic that keeps them.
    """

    are_stored = False
    topic: str | None = None

    @property
    def store(self) -> StoredTopicConfigs:
        """Those that are kept, to change them; where there are none, nobody may ask."""
        raise AssertionError("no topic level keys are kept")

    def of(self, _topic: str, _topic_id: UUID) -> Mapping[str, str]:
        """Return the topic level keys set on a topic.

        Raises:
            UnreadableTopicConfigsError: What is kept about it cannot be understood.
        """
        return {}

    def names(self, _topic: str) -> bool:
        """Whether anything is kept for a topic of this name: then its id decides."""
        return False

    def changed_at(self, _topic: str) -> float:
        """When something about a topic changed last (monotonic seconds): its id may, too."""
        return 0.0

    def unknown(self, _topics: Iterable[UUID]) -> list[UUID]:
        """Return those topics, by id, that are new here: read on before judging them."""
        return []

    def see(self, topics: Iterable[UUID]) -> None:
        """Take note that all that was written before these topics came up has been read."""

    async def read_to_end(self) -> None:
        """Wait until everything has been read that is in the log now.

        Raises:
            CompactedTopicError: It cannot be read now.
        """

    def open_creations(self, _topic: str) -> list[UUID]:
        """Return the creations of a topic whose outcome is not known."""
        return []

    async def close(self) -> None:
        """Stop following."""

    async def prepare(self, _topic: str, _settings: Mapping[str, str]) -> UUID | None:
        """Make ready for the creation of a topic; return its id, if it needs one."""
        return None


class StoredTopicConfigs(TopicConfigs):
    """The topic level keys of all topics, as one gateway knows and changes them."""

    are_stored = True
    topic: str

    @property
    def store(self) -> StoredTopicConfigs:
        """These."""
        return self

    def __init__(
        self, settings_log: CompactedTopic, gateway: str, changed: Callable[[str], None]
    ) -> None:
        """Prepare; nothing is contacted.

        Args:
            settings_log: Where they are kept.
            gateway: Tells this gateway from others, also after a restart.
            changed: Called with the name of a topic whose settings have changed.
        """
        self._follower = LogFollower(settings_log, self._take)
        self.topic = settings_log.topic
        self._gateway = gateway
        self._changed = changed
        self.index = TopicConfigIndex()
        self._seen: LRUCache[UUID, None] = LRUCache(_SEEN_MAX)
        self._changed_at: TTLCache[str, float] = TTLCache(math.inf, _CHANGED_KEPT_S)
        self._missed: Counter[UUID] = Counter()
        self._mine: dict[UUID, TopicConfigRecord] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def start(self, timeout_s: float) -> None:
        """Read all settings, and follow them from here on.

        Raises:
            ConfigurationError: The topic of settings cannot be used.
            CompactedTopicError: The cluster does not answer.
        """
        await self._follower.start(timeout_s)

    async def close(self) -> None:
        """Stop following."""
        await self._follower.close()

    # Reading

    def of(self, topic: str, topic_id: UUID) -> Mapping[str, str]:
        """Return the topic level keys set on a topic.

        Raises:
            UnreadableTopicConfigsError: What is kept about it cannot be understood.
        """
        return self.index.of(topic, topic_id)

    def names(self, topic: str) -> bool:
        """Whether anything is kept for a topic of this name: then its id decides."""
        return self.index.names(topic)

    def changed_at(self, topic: str) -> float:
        """When something about a topic changed last (monotonic seconds): its id may, too."""
        return self._changed_at.get(topic, 0.0)

    def unknown(self, topics: Iterable[UUID]) -> list[UUID]:
        """Return those topics, by id, that are new here: read on before judging them."""
        return [topic for topic in topics if topic not in self._seen]

    def see(self, topics: Iterable[UUID]) -> None:
        """Take note that all that was written before these topics came up has been read."""
        self._seen.update(dict.fromkeys(topics))

    async def read_to_end(self) -> None:
        """Wait until everything has been read that is in the log now.

        Raises:
            CompactedTopicError: It cannot be read now.
        """
        await self._follower.read_to_end(READ_TIMEOUT_S)

    def _take(self, record: LogRecord) -> None:
        try:
            topics = self.index.apply(record.key, record.value, record.timestamp_ms)
        except UnreadableTopicConfigsError as error:
            log.error(
                "a setting cannot be understood",
                topic=self.topic,
                offset=record.position - 1,
                reason=str(error),
            )
            topics = ()
        for topic in topics:
            self._note_change(topic)
            self._changed(topic)

    def _note_change(self, topic: str) -> None:
        self._changed_at[topic] = time.monotonic()

    # Writing

    def changing(self, topic: str) -> asyncio.Lock:
        """Return what one holds while one changes a topic's settings here, from reading on."""
        return self._locks.setdefault(topic, asyncio.Lock())

    def open_creations(self, topic: str) -> list[UUID]:
        """Return the creations of a topic that are open now; for `put`."""
        return list(self.index.creations(lambda entry: entry.topic == topic))

    async def put(
        self,
        topic: str,
        topic_id: UUID,
        settings: Mapping[str, str],
        *,
        changes: Mapping[str, str | None] | None = None,
        over: Iterable[UUID] = (),
    ) -> None:
        """Keep a topic's settings; return when they hold here.

        Args:
            topic: Its name.
            topic_id: Its id.
            settings: All of its topic level keys.
            changes: What was altered of those that hold now, None for a key that was deleted;
                None where everything is set anew.
            over: Creations of the topic that were open before it was known to exist: they
                made it, or came to nothing.

        Raises:
            CompactedTopicError: They could not be kept.
        """
        before = self.index.entry(topic_id)
        base = before.id if before is not None else ""
        entry = TopicConfigRecord(topic, settings, self._gateway, changes, base)
        record_key = topic_key(topic_id).encode()
        ended = {*over, *self.index.superseded(topic_id)}
        tombstones = [(creation_key(one).encode(), None) for one in ended]
        await self._append([(record_key, entry.encode()), *tombstones])
        held = self.index.entry(topic_id)
        while held is not None and held.id == entry.id and held.merged:
            entry = await self._make_whole(topic_id, held)
            held = self.index.entry(topic_id)

    async def _make_whole(self, topic_id: UUID, merged: TopicConfigRecord) -> TopicConfigRecord:
        """Write what two changes came to as one record: compaction keeps only one."""
        entry = TopicConfigRecord(merged.topic, merged.settings, self._gateway, {}, merged.id)
        await self._append([(topic_key(topic_id).encode(), entry.encode())])
        return entry

    async def forget(self, topic_ids: Iterable[UUID], *, over: Iterable[UUID] = ()) -> None:
        """Delete the settings of topics that are gone.

        Args:
            topic_ids: Their ids.
            over: Creations of these topics that were open before they were deleted.

        Raises:
            CompactedTopicError: They could not be deleted.
        """
        record_keys: list[RecordKey] = [creation_key(one) for one in over if one not in self._mine]
        for topic_id in topic_ids:
            if self.index.has_topic(topic_id):
                over = self.index.superseded(topic_id)
                record_keys += [*map(creation_key, over), topic_key(topic_id)]
        if record_keys:
            await self._append([(record_key.encode(), None) for record_key in record_keys])

    async def prepare(self, topic: str, settings: Mapping[str, str]) -> UUID | None:
        """Make ready for the creation of a topic; give the creation's id, if it needs one.

        It does where there are settings, and where another creation of the topic is open: its
        settings are not to be those of a topic that is made now without any.

        Raises:
            CompactedTopicError: It is not ready: do not create the topic.
        """
        await self._settle_abandoned(topic)
        if not settings and not self.open_creations(topic):
            return None
        return await self.begin(topic, settings)

    async def begin(self, topic: str, settings: Mapping[str, str]) -> UUID:
        """Keep the settings of a topic that is about to be created; give the creation's id.

        Raises:
            CompactedTopicError: They could not be kept: do not create the topic.
        """
        creation = uuid.uuid4()
        entry = self._mine[creation] = TopicConfigRecord(topic, settings, self._gateway)
        try:
            await self._append([(creation_key(creation).encode(), entry.encode())])
        except BaseException:
            del self._mine[creation]
            raise
        return creation

    async def finish(self, creation: UUID, topic_id: UUID) -> None:
        """Put the settings of a creation under the id that the topic got.

        Raises:
            CompactedTopicError: Not now; they hold all the same, and it is tried again later.
        """
        # Others may have taken ours for abandoned: we know what it was.
        found = self._mine.get(creation) or self.index.creation(creation)
        if found is not None:
            # Also where there are none: then those of other creations do not hold.
            value = TopicConfigRecord(found.topic, found.settings, self._gateway).encode()
            await self._append([(topic_key(topic_id).encode(), value)])
        for one in {creation, *self.index.superseded(topic_id)}:
            await self.withdraw(one)

    async def withdraw(self, creation: UUID) -> None:
        """Delete the settings of a creation that came to nothing.

        Raises:
            CompactedTopicError: Not now; it is tried again later.
        """
        await self._append([(creation_key(creation).encode(), None)])
        self._mine.pop(creation, None)

    async def _settle_abandoned(self, topic: str) -> None:
        """Delete what earlier creations of a topic that does not exist have left behind."""
        for creation, entry in self._abandoned().items():
            if entry.topic == topic:
                await self.withdraw(creation)

    def _abandoned(self) -> dict[UUID, TopicConfigRecord]:
        """Return the creations that nobody will bring to an end any more."""
        now_ms = time.time() * 1000

        def left_open(entry: TopicConfigRecord) -> bool:
            after_s = LEFT_AFTER_S if entry.gateway == self._gateway else ABANDONED_AFTER_S
            return entry.timestamp_ms < now_ms - after_s * 1000

        return self._not_mine(left_open)

    def _not_mine(
        self, where: Callable[[TopicConfigRecord], bool]
    ) -> dict[UUID, TopicConfigRecord]:
        found = self.index.creations(where)
        return {one: entry for one, entry in found.items() if one not in self._mine}

    def leave(self, creation: UUID) -> None:
        """Leave a creation of which the outcome is not known to `sweep`."""
        self._mine.pop(creation, None)

    async def _append(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        await self._follower.append(records, WRITE_TIMEOUT_S)

    # What others, or we before a restart, have left behind

    async def sweep(
        self, look_up: Callable[[list[str]], dict[str, UUID | None]], *, starting: bool = False
    ) -> None:
        """Settle creations that were left open, and delete settings of topics that are gone.

        Args:
            look_up: Blocks; gives the ids of topics by name, None for a topic that certainly
                does not exist, and leaves out those of which it cannot tell.
            starting: Whether this gateway has just started: then what it left open is settled
                at once, where the topic came to be.
        """
        abandoned = creations = self._abandoned()
        if starting:
            creations = self._not_mine(lambda entry: entry.gateway == self._gateway) | abandoned
        # What cannot be understood stays: nobody knows what should judge its topic.
        creations = {one: entry for one, entry in creations.items() if not entry.unreadable}
        old_ms = (time.time() - ABANDONED_AFTER_S) * 1000
        topics = {
            one: entry
            for one, entry in self.index.topics().items()
            if entry.timestamp_ms < old_ms and entry.topic and not starting
        }
        for one, entry in topics.items():
            if entry.merged:
                await self._make_whole(one, entry)
        names = {entry.topic for entry in (*creations.values(), *topics.values())}
        if not names:
            return
        found = await asyncio.to_thread(look_up, sorted(names))
        for creation, entry in creations.items():
            if entry.topic in found:
                topic_id = found[entry.topic]
                await self._sweep_creation(creation, entry, topic_id, creation in abandoned)
        await self._sweep_topics(topics, found)

    async def _sweep_creation(
        self, creation: UUID, entry: TopicConfigRecord, topic_id: UUID | None, is_abandoned: bool
    ) -> None:
        """Settle a creation, if the cluster cannot still be at it."""
        if topic_id is not None and not self.index.has_topic(topic_id):
            await self.finish(creation, topic_id)
        elif topic_id is not None or is_abandoned:
            await self.withdraw(creation)
        else:
            return
        log.info("a creation was left open", topic=entry.topic, exists=topic_id is not None)

    async def _sweep_topics(
        self, topics: Mapping[UUID, TopicConfigRecord], found: Mapping[str, UUID | None]
    ) -> None:
        """Delete the settings of topics that are gone, or missed often enough."""
        gone = []
        for one, entry in topics.items():
            if found.get(entry.topic, one) == one:
                del self._missed[one]
                continue
            self._missed[one] += 1
            if found[entry.topic] is not None or self._missed[one] >= MISSED_TIMES:
                gone.append(one)
        for one in gone:
            del self._missed[one]
        if gone:
            await self.forget(gone)
            log.info("settings of topics that are gone are deleted", count=len(gone))

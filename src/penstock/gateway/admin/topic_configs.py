"""Reads and writes topic configs for the requests of this gateway.

The index is `penstock.engine.topic_configs.index`; `penstock.kafka.cluster.compacted_topic` keeps
it up to date.
Guarantees:

- No record is stored without policies between the creation of a topic and its configs. They are in
  the log before the topic is created, and the first batch for a topic at a gateway is judged only
  after the log has been read to its end.
- A change gets its response when it has been read back here. Other gateways apply it as soon as
  they have read it.
- If a gateway dies during a creation, its configs remain in the log. They apply to the topic if it
  was created. Another gateway, or this gateway after a restart, stores them under its id, or
  deletes them.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import structlog

from penstock.engine.topic_configs.index import (
    RecordKey,
    TopicConfigIndex,
    TopicConfigRecord,
    UnreadableTopicConfigsError,
    creation_key,
    topic_key,
)
from penstock.kafka.cluster.compacted_topic_follower import LogFollower

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from uuid import UUID

    from penstock.engine.topic_configs.index import Before
    from penstock.kafka.cluster.compacted_topic import CompactedTopic, LogRecord
    from penstock.kafka.cluster.state_writes import StateWrites

log = structlog.get_logger()

WRITE_TIMEOUT_S: Final = 15.0
"""How long a change waits until it has been read back; admin clients wait longer."""
READ_TIMEOUT_S: Final = 5.0
"""How long the first batch for a topic waits until the log has been read."""
ABANDONED_AFTER_S: Final = 180.0
"""A creation of another gateway that has been open for so long is abandoned."""
LEFT_AFTER_S: Final = 120.0
"""A creation of this gateway with an unknown outcome is settled after this time: by then a
controller has processed or dropped the request."""
MISSED_TIMES: Final = 3
"""A topic is deleted if it is missing in so many successive sweeps, since a broker may lag."""
SWEEP_EVERY_S: Final = 20.0
_SEEN_MAX: Final = 100_000
_CHANGED_KEPT_S: Final = 60.0
"""A topic's id is cached for this time at most, whatever has changed."""


class TopicConfigs:
    """The topic level keys set on topics; here, those of a gateway that keeps none.

    Attributes:
        are_stored: Whether there are any, so that a topic's id matters.
        topic: The compacted topic that keeps them.
        index: The keys by topic; None if there are none.
    """

    are_stored = False
    topic: str | None = None
    index: TopicConfigIndex | None = None

    @property
    def position(self) -> int:
        """Up to where the topic has been read; 0 without a topic."""
        return 0

    @property
    def writes(self) -> StateWrites | None:
        """How writes have ended; None if there is nowhere to write to."""
        return None

    @property
    def store(self) -> StoredTopicConfigs:
        """The stored topic configs, to change them; only if `are_stored`."""
        raise AssertionError("no topic level keys are kept")

    def of(self, _topic: str, _topic_id: UUID) -> Mapping[str, str]:
        """Return the configs of a topic.

        Raises:
            UnreadableTopicConfigsError: They are not known.
        """
        return {}

    def names(self, _topic: str) -> bool:
        """Whether there may be configs for a topic of this name; then its id is needed."""
        return False

    def changed_at(self, _topic: str) -> float:
        """Return when a topic's configs or its id last changed, in monotonic seconds."""
        return 0.0

    def unknown(self, _topics: Iterable[UUID]) -> list[UUID]:
        """Return the topic ids that are new here; call `read_to_end` before judging them."""
        return []

    def see(self, topics: Iterable[UUID]) -> None:
        """Record that the log has been read to its end since these topics were first used."""

    async def read_to_end(self) -> None:
        """Read the log up to its present end.

        Raises:
            CompactedTopicError: It cannot be read now.
        """

    def read_again(self) -> None:
        """Read unreadable records once more: topics take other keys than before."""

    def open_creations(self, _topic: str) -> list[UUID]:
        """Return the creations of a topic with an unknown outcome."""
        return []

    async def close(self) -> None:
        """Stop following."""

    async def prepare(self, _topic: str, _settings: Mapping[str, str]) -> UUID | None:
        """Prepare the creation of a topic; return the creation id, if it needs one."""
        return None


class StoredTopicConfigs(TopicConfigs):
    """The topic configs of all topics."""

    are_stored = True
    topic: str
    index: TopicConfigIndex

    @property
    def store(self) -> StoredTopicConfigs:
        """These."""
        return self

    @property
    def position(self) -> int:
        """Up to where the topic has been read."""
        return self._follower.position

    @property
    def writes(self) -> StateWrites:
        """How writes have ended."""
        return self._follower.writes

    def __init__(
        self, settings_log: CompactedTopic, gateway: str, on_change: Callable[[str, Before], None]
    ) -> None:
        """Make the topic configs; `start` connects.

        Args:
            gateway: The name of this gateway, the same after a restart.
            on_change: Called with the name of a topic whose configs have changed, and all that
                might apply to it before; None if they were not known. The name is empty where a
                record that cannot be understood has none.
        """
        probe_key = topic_key(uuid.UUID(int=0)).encode()
        self._follower = LogFollower(settings_log, self._take, probe_key=probe_key)
        self.topic = settings_log.topic
        self._gateway = gateway
        self._changed = on_change
        self.index = TopicConfigIndex()
        # Read for each request: the caches of cachetools are written in Python.
        # A plain dictionary skips all that was removed before its first item.
        self._seen: OrderedDict[UUID, None] = OrderedDict()
        self._changed_at: OrderedDict[str, float] = OrderedDict()
        self._missed: Counter[UUID] = Counter()
        self._mine: dict[UUID, TopicConfigRecord] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def start(self, timeout_s: float) -> None:
        """Read all topic configs, and follow changes from then on.

        Raises:
            ConfigurationError: The compacted topic cannot be used.
            CompactedTopicError: The cluster does not respond.
        """
        await self._follower.start(timeout_s)

    async def close(self) -> None:
        """Stop following."""
        await self._follower.close()

    # Reading

    def of(self, topic: str, topic_id: UUID) -> Mapping[str, str]:
        """Return the configs of a topic.

        Raises:
            UnreadableTopicConfigsError: They are not known.
        """
        return self.index.of(topic, topic_id)

    def names(self, topic: str) -> bool:
        """Whether there may be configs for a topic of this name; then its id is needed."""
        return self.index.names(topic)

    def changed_at(self, topic: str) -> float:
        """Return when a topic's configs or its id last changed, in monotonic seconds."""
        return self._changed_at.get(topic, 0.0)

    def unknown(self, topics: Iterable[UUID]) -> list[UUID]:
        """Return the topic ids that are new here; call `read_to_end` before judging them."""
        return [topic for topic in topics if topic not in self._seen]

    def see(self, topics: Iterable[UUID]) -> None:
        """Record that the log has been read to its end since these topics were first used."""
        for topic in topics:
            self._seen[topic] = None
            self._seen.move_to_end(topic)
        while len(self._seen) > _SEEN_MAX:
            self._seen.popitem(last=False)

    async def read_to_end(self) -> None:
        """Read the log up to its present end.

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
            topics = dict.fromkeys(self.index.names_of(record.key))
        self._report(topics)

    def _report(self, changes: Mapping[str, Before]) -> None:
        now = time.monotonic()
        for topic, previous_configs in changes.items():
            self._changed_at[topic] = now
            self._changed_at.move_to_end(topic)
            self._changed(topic, previous_configs)
        while self._changed_at:
            if next(iter(self._changed_at.values())) > now - _CHANGED_KEPT_S:
                break
            self._changed_at.popitem(last=False)

    def read_again(self) -> None:
        """Read unreadable records once more, as another gateway may have kept new keys."""
        self._report(self.index.read_again())

    # Writing

    def changing(self, topic: str) -> asyncio.Lock:
        """Return the lock to hold while changing a topic's configs, from `read_to_end` on."""
        return self._locks.setdefault(topic, asyncio.Lock())

    def open_creations(self, topic: str) -> list[UUID]:
        """Return the open creations of a topic, for `put`."""
        return list(self.index.creations(lambda _: True, topic=topic))

    async def put(
        self,
        topic: str,
        topic_id: UUID,
        settings: Mapping[str, str],
        *,
        changes: Mapping[str, str | None] | None = None,
        over: Iterable[UUID] = (),
    ) -> None:
        """Store the configs of a topic; return when they are effective here.

        Args:
            topic: The name of the topic.
            settings: All topic level keys.
            changes: The altered keys, with None for deleted keys; None if all keys are replaced.
            over: Creations of the topic that were open before it was known to exist: one of them
                created it, or they failed.

        Raises:
            CompactedTopicError: They could not be stored.
        """
        previous_entry = self.index.entry(topic_id)
        base = previous_entry.id if previous_entry is not None else ""
        entry = TopicConfigRecord(topic, settings, self._gateway, changes, base)
        record_key = topic_key(topic_id).encode()
        ended = {*over, *self.index.superseded(topic_id)}
        tombstones = [(creation_key(creation).encode(), None) for creation in ended]
        await self._append([(record_key, entry.encode()), *tombstones])
        current_entry = self.index.entry(topic_id)
        while current_entry is not None and current_entry.id == entry.id and current_entry.merged:
            entry = await self._make_whole(topic_id, current_entry)
            current_entry = self.index.entry(topic_id)

    async def _make_whole(self, topic_id: UUID, merged: TopicConfigRecord) -> TopicConfigRecord:
        """Write the result of a merge as one record, as compaction keeps only the last record."""
        entry = TopicConfigRecord(merged.topic, merged.settings, self._gateway, {}, merged.id)
        await self._append([(topic_key(topic_id).encode(), entry.encode())])
        return entry

    async def forget(self, topic_ids: Iterable[UUID], *, over: Iterable[UUID] = ()) -> None:
        """Delete the configs of deleted topics.

        Args:
            over: Creations of these topics that were open before they were deleted.

        Raises:
            CompactedTopicError: They could not be deleted.
        """
        record_keys: list[RecordKey] = [
            creation_key(creation) for creation in over if creation not in self._mine
        ]
        for topic_id in topic_ids:
            if self.index.has_topic(topic_id):
                over = self.index.superseded(topic_id)
                record_keys += [*map(creation_key, over), topic_key(topic_id)]
        if record_keys:
            await self._append([(record_key.encode(), None) for record_key in record_keys])

    async def prepare(self, topic: str, settings: Mapping[str, str]) -> UUID | None:
        """Prepare the creation of a topic; return the creation id, if it needs one.

        It needs one if it has configs, or if another creation of the topic is open, whose configs
        must not apply to a topic that is created now without any.

        Raises:
            CompactedTopicError: The topic must not be created.
        """
        await self._settle_abandoned(topic)
        if not settings and not self.open_creations(topic):
            return None
        return await self.begin(topic, settings)

    async def begin(self, topic: str, settings: Mapping[str, str]) -> UUID:
        """Store the configs of a topic that will be created; return the creation id.

        Raises:
            CompactedTopicError: They could not be stored: the topic must not be created.
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
        """Store the configs of a creation under the topic id.

        Raises:
            CompactedTopicError: It failed, and is retried later; the configs are effective anyway.
        """
        # Other gateways may have deleted it as abandoned.
        record = self._mine.get(creation) or self.index.creation(creation)
        if record is not None:
            # Even without configs: then those of other creations do not apply.
            value = TopicConfigRecord(record.topic, record.settings, self._gateway).encode()
            await self._append([(topic_key(topic_id).encode(), value)])
        for open_creation in {creation, *self.index.superseded(topic_id)}:
            await self.withdraw(open_creation)

    async def withdraw(self, creation: UUID) -> None:
        """Delete the configs of a failed creation.

        Raises:
            CompactedTopicError: It failed, and is retried later.
        """
        await self._append([(creation_key(creation).encode(), None)])
        self._mine.pop(creation, None)

    async def _settle_abandoned(self, topic: str) -> None:
        """Withdraw abandoned creations of a topic that does not exist."""
        for creation in self._abandoned(topic=topic):
            await self.withdraw(creation)

    def _abandoned(self, *, topic: str | None = None) -> dict[UUID, TopicConfigRecord]:
        """Return the creations, perhaps of one topic, that no gateway will settle any more."""
        now_ms = time.time() * 1000

        def left_open(entry: TopicConfigRecord) -> bool:
            after_s = LEFT_AFTER_S if entry.gateway == self._gateway else ABANDONED_AFTER_S
            return entry.timestamp_ms < now_ms - after_s * 1000

        return self._creations_of_others(left_open, topic=topic)

    def _creations_of_others(
        self, where: Callable[[TopicConfigRecord], bool], *, topic: str | None = None
    ) -> dict[UUID, TopicConfigRecord]:
        creations = self.index.creations(where, topic=topic)
        return {
            creation: entry for creation, entry in creations.items() if creation not in self._mine
        }

    def leave(self, creation: UUID) -> None:
        """Leave a creation with an unknown outcome to `sweep`."""
        self._mine.pop(creation, None)

    async def _append(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        await self._follower.append(records, WRITE_TIMEOUT_S)

    # Abandoned records of other gateways, or of this gateway before a restart

    async def sweep(
        self, look_up: Callable[[list[str]], dict[str, UUID | None]], *, starting: bool = False
    ) -> None:
        """Settle abandoned creations, and delete the configs of deleted topics.

        Args:
            look_up: Returns the ids of topics by name, with None for a topic that does not exist,
                and without those that are not known. It blocks.
            starting: Whether this gateway has just started: then its own open creations are
                settled at once if the topic was created.
        """
        abandoned = creations = self._abandoned()
        if starting:
            creations = (
                self._creations_of_others(lambda entry: entry.gateway == self._gateway) | abandoned
            )
        # Unreadable records stay: the policies of their topics are not known.
        creations = {
            creation: entry for creation, entry in creations.items() if not entry.unreadable
        }
        old_ms = (time.time() - ABANDONED_AFTER_S) * 1000
        topics = {
            topic_id: entry
            for topic_id, entry in self.index.topics().items()
            if entry.timestamp_ms < old_ms and entry.topic and not starting
        }
        for merged_id, entry in topics.items():
            if entry.merged:
                await self._make_whole(merged_id, entry)
        names = {entry.topic for entry in (*creations.values(), *topics.values())}
        if not names:
            return
        ids_by_name = await asyncio.to_thread(look_up, sorted(names))
        for creation, entry in creations.items():
            if entry.topic in ids_by_name:
                topic_id = ids_by_name[entry.topic]
                await self._sweep_creation(creation, entry, topic_id, creation in abandoned)
        await self._sweep_topics(topics, ids_by_name)

    async def _sweep_creation(
        self, creation: UUID, entry: TopicConfigRecord, topic_id: UUID | None, is_abandoned: bool
    ) -> None:
        """Settle a creation, unless the cluster may still be processing it."""
        if topic_id is not None and not self.index.has_topic(topic_id):
            await self.finish(creation, topic_id)
        elif topic_id is not None or is_abandoned:
            await self.withdraw(creation)
        else:
            return
        log.info("a creation was not finished", topic=entry.topic, exists=topic_id is not None)

    async def _sweep_topics(
        self, topics: Mapping[UUID, TopicConfigRecord], ids_by_name: Mapping[str, UUID | None]
    ) -> None:
        """Delete the configs of topics that do not exist, or have been missing often enough."""
        gone = []
        for topic_id, entry in topics.items():
            if ids_by_name.get(entry.topic, topic_id) == topic_id:
                del self._missed[topic_id]
                continue
            self._missed[topic_id] += 1
            if ids_by_name[entry.topic] is not None or self._missed[topic_id] >= MISSED_TIMES:
                gone.append(topic_id)
        for topic_id in gone:
            del self._missed[topic_id]
        if gone:
            await self.forget(gone)
            log.info("settings of deleted topics are deleted", count=len(gone))

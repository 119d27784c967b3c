"""The index of topic configs, built from the records of the compacted topic.

There are two kinds of records. The configs of a topic are stored under its topic id, so a topic
that is created again under the same name has none. Before a topic is created its id is not known:
its configs are stored under the id of the creation, and apply to the topic of that name until they
are stored under the topic id, or the creation is withdrawn.

The index depends only on the records and their order, so it is the same in every gateway.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID, uuid4

from penstock.engine.topic_configs import definitions
from penstock.errors import MalformedError
from penstock.kafka.wire.names import is_topic_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock.kafka.cluster.compacted_topic import LogRecord

    Before = Sequence[Mapping[str, str]] | None
    """All configs that might apply to a topic before a change; None if they were not known."""

_VERSION: Final = 1
_UNKNOWN_NAME: Final = ""
"""The topic name of a value that cannot be decoded."""
_TOPIC, _CREATION = "topic", "creation"


class UnreadableTopicConfigsError(MalformedError):
    """A record of a topic cannot be decoded, so its configs are not known."""


class RecordKey(NamedTuple):
    """The key of a record: the id of a topic, or of a creation."""

    kind: str
    id: UUID

    def encode(self) -> bytes:
        """Return the bytes of the key."""
        return f"{self.kind}/{self.id}".encode()

    @classmethod
    def decode(cls, key: bytes | None) -> RecordKey:
        """Read a record's key.

        Raises:
            ValueError: It is invalid.
        """
        kind, _, id_text = (key or b"").decode().partition("/")
        if kind not in {_TOPIC, _CREATION}:
            raise ValueError("an unknown kind of key")
        record_key = cls(kind, UUID(id_text))
        if record_key.encode() != key:  # compaction goes by the bytes
            raise ValueError("an id in another spelling")
        return record_key


def topic_key(topic_id: UUID) -> RecordKey:
    """Return the place of a topic's settings."""
    return RecordKey(_TOPIC, topic_id)


def creation_key(creation_id: UUID) -> RecordKey:
    """Return the place of the settings of a topic that is being created."""
    return RecordKey(_CREATION, creation_id)


@dataclass(frozen=True, slots=True)
class TopicConfigRecord:
    """The value of a record.

    Attributes:
        topic: The name of the topic.
        settings: Its topic level keys.
        gateway: The gateway that wrote the record.
        changes: The altered keys, with None for deleted keys; None if all keys were replaced. If
            two gateways alter one topic at the same time, the changes of the later record are
            applied to the result of the earlier record.
        base: The id of the record that was altered.
        id: The id of the record.
        timestamp_ms: The timestamp of the record, set by the broker; not part of the value.
        order: The number of the record, in the order of reading.
        merged: Whether the settings are the result of a merge with another record.
        unreadable: Why the value could not be decoded; empty if it was.
    """

    topic: str
    settings: Mapping[str, str]
    gateway: str
    changes: Mapping[str, str | None] | None = None
    base: str = ""
    id: str = field(default_factory=lambda: uuid4().hex, compare=False)
    timestamp_ms: int = 0
    order: int = 0
    merged: bool = False
    unreadable: str = ""

    def encode(self) -> bytes:
        """Return the bytes of the value."""
        fields: dict[str, Any] = {
            "version": _VERSION,
            "topic": self.topic,
            "settings": dict(self.settings),
            "gateway": self.gateway,
            "id": self.id,
        }
        if self.changes is not None:
            fields |= {"changes": dict(self.changes), "base": self.base}
        return json.dumps(fields, sort_keys=True).encode()

    def after(self, old_record: TopicConfigRecord | None) -> TopicConfigRecord:
        """Return the value as it applies after another record of the same topic."""
        if (
            self.changes is None
            or old_record is None
            or old_record.unreadable
            or old_record.id == self.base
        ):
            return self
        both = {**old_record.settings, **self.changes}
        settings = {key: value for key, value in both.items() if value is not None}
        return replace(self, settings=settings, merged=True)

    @classmethod
    def decode(cls, value: bytes, timestamp_ms: int, order: int) -> TopicConfigRecord:
        """Read a record's value.

        Raises:
            ValueError: It is invalid, or of a later version.
        """
        fields = _loads(value)
        try:
            topic, changes = str(fields["topic"]), fields.get("changes")
            if fields["version"] != _VERSION:
                raise ValueError("written by a later version")
            if not is_topic_name(topic):
                raise ValueError("the name of no topic")
            return cls(
                topic,
                _checked(dict(fields["settings"].items())),
                str(fields["gateway"]),
                None if changes is None else _checked(dict(changes.items()), deletions=True),
                str(fields.get("base", "")),
                str(fields.get("id", "")),
                timestamp_ms,
                order,
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("not the value of a setting") from error


class _UnreadableValue(NamedTuple):
    """A value that cannot be decoded, and the record before it."""

    value: bytes
    timestamp_ms: int
    order: int
    previous_record: TopicConfigRecord | None


class TopicConfigIndex:
    """The topic configs after the records up to a position."""

    def __init__(self) -> None:
        """Make an empty index."""
        self._count = 0
        self._entries: dict[RecordKey, TopicConfigRecord] = {}
        self._keys_by_topic: dict[str, dict[RecordKey, None]] = {}
        self._unreadable: dict[RecordKey, _UnreadableValue] = {}

    def apply(self, key: bytes | None, value: bytes | None, timestamp_ms: int) -> dict[str, Before]:
        """Apply the next record.

        Returns:
            The names of the topics that it affects, with their configs before it.

        Raises:
            UnreadableTopicConfigsError: It cannot be decoded. If its key can be, the configs of the
                topic are not known from then on, until a readable record follows.
        """
        try:
            record_key = RecordKey.decode(key)
        except ValueError as error:
            raise UnreadableTopicConfigsError(f"key: {error}") from error
        self._count += 1
        old_record = self._entries.get(record_key)
        self._unreadable.pop(record_key, None)
        unreadable = None
        if value is None:
            new_record = None
        else:
            try:
                new_record = TopicConfigRecord.decode(value, timestamp_ms, self._count).after(
                    old_record
                )
            except ValueError as error:
                unreadable = error
                self._unreadable[record_key] = _UnreadableValue(
                    value, timestamp_ms, self._count, old_record
                )
                name = old_record.topic if old_record is not None else _name_in(value)
                new_record = TopicConfigRecord(
                    name, {}, "", timestamp_ms=timestamp_ms, order=self._count,
                    unreadable=str(error),
                )  # fmt: skip
        affected = self._before(
            *(entry.topic for entry in (old_record, new_record) if entry is not None)
        )
        if old_record is not None:
            self._forget(record_key, old_record.topic)
        if new_record is not None:
            self._entries[record_key] = new_record
            self._keys_by_topic.setdefault(new_record.topic, {})[record_key] = None
        if unreadable is not None:
            raise UnreadableTopicConfigsError(
                f"value for {record_key.kind} {record_key.id}: {unreadable}"
            )
        return affected

    def _before(self, *topics: str) -> dict[str, Before]:
        return {
            topic: None if self._is_unreadable(topic) else self.all_of(topic) for topic in topics
        }

    def _is_unreadable(self, topic: str) -> bool:
        return any(
            self._entries[record_key].unreadable
            for record_key in self._keys_by_topic.get(topic, ())
        )

    def names_of(self, key: bytes | None) -> list[str]:
        """Return the name of the topic with this record; an empty one where it is not known."""
        try:
            entry = self._entries.get(RecordKey.decode(key))
        except ValueError:
            return []
        return [] if entry is None else [entry.topic]

    def read_again(self) -> dict[str, Before]:
        """Read what could not be decoded once more, when topics take other keys than before.

        Returns:
            The names of the topics that it affects, with None for their configs before.
        """
        topics: dict[str, Before] = {}
        for record_key, (value, timestamp_ms, order, old_record) in list(self._unreadable.items()):
            try:
                new_record = TopicConfigRecord.decode(value, timestamp_ms, order).after(old_record)
            except ValueError:
                continue
            del self._unreadable[record_key]
            named = self._entries[record_key].topic
            if named != new_record.topic:
                self._forget(record_key, named)
            self._entries[record_key] = new_record  # in its place: creations are in the log's order
            self._keys_by_topic.setdefault(new_record.topic, {})[record_key] = None
            topics[new_record.topic] = None
        return topics

    def _forget(self, record_key: RecordKey, topic: str) -> None:
        del self._entries[record_key]
        del self._keys_by_topic[topic][record_key]
        if not self._keys_by_topic[topic]:
            del self._keys_by_topic[topic]

    def names(self, topic: str) -> bool:
        """Whether there may be configs for a topic of this name; then its id is needed."""
        return topic in self._keys_by_topic or _UNKNOWN_NAME in self._keys_by_topic

    def has_topic(self, topic_id: UUID) -> bool:
        """Whether there are configs under a topic id."""
        return topic_key(topic_id) in self._entries

    def entry(self, topic_id: UUID) -> TopicConfigRecord | None:
        return self._entries.get(topic_key(topic_id))

    def of(self, topic: str, topic_id: UUID) -> Mapping[str, str]:
        """Return the configs of a topic.

        Raises:
            UnreadableTopicConfigsError: They are not known.
        """
        if not self._entries:
            return {}
        entry = self._entries.get(topic_key(topic_id))
        if entry is None:
            # It may just have been created: the first creation of this name in the log applies.
            entry = next(
                (
                    self._entries[record_key]
                    for record_key in self._keys_by_topic.get(topic, ())
                    if record_key.kind == _CREATION
                ),
                None,
            )
        if entry is None:
            return {}
        if entry.unreadable:
            raise UnreadableTopicConfigsError(
                f"the settings of topic {topic} cannot be understood: {entry.unreadable}"
            )
        return entry.settings

    def all_of(self, topic: str) -> list[Mapping[str, str]]:
        """Return all configs that may apply to a topic of this name."""
        return [
            self._entries[record_key].settings for record_key in self._keys_by_topic.get(topic, ())
        ]

    @property
    def topic_names(self) -> list[str]:
        """The names of topics for which there may be configs."""
        return [topic for topic in self._keys_by_topic if topic != _UNKNOWN_NAME]

    def topics(self) -> dict[UUID, TopicConfigRecord]:
        """Return the records of topics, by topic id."""
        return {
            record_key.id: entry
            for record_key, entry in self._entries.items()
            if record_key.kind == _TOPIC
        }

    def creation(self, creation_id: UUID) -> TopicConfigRecord | None:
        """Return the record of an open creation."""
        return self._entries.get(creation_key(creation_id))

    def superseded(self, topic_id: UUID) -> list[UUID]:
        """Return the open creations that are older than the configs under a topic id.

        Either one of them created the topic or they failed, since the topic existed by then.
        """
        entry = self.entry(topic_id)
        if entry is None:
            return []
        return list(
            self.creations(lambda creation: creation.order < entry.order, topic=entry.topic)
        )

    def creations(
        self, where: Callable[[TopicConfigRecord], bool], *, topic: str | None = None
    ) -> dict[UUID, TopicConfigRecord]:
        """Return the records of open creations, by creation id.

        Args:
            where: Which of them.
            topic: The name of a topic; without it those of all topics are looked through.
        """
        keys = self._entries if topic is None else self._keys_by_topic.get(topic, ())
        entries = {
            record_key.id: self._entries[record_key]
            for record_key in keys
            if record_key.kind == _CREATION
        }
        return {creation: entry for creation, entry in entries.items() if where(entry)}


def index_of(records: Iterable[LogRecord]) -> TopicConfigIndex:
    """Return the index of some records; unreadable records count as in `apply`."""
    index = TopicConfigIndex()
    for record in records:
        if not record.ends:
            with contextlib.suppress(UnreadableTopicConfigsError):
                index.apply(record.key, record.value, record.timestamp_ms)
    return index


def _name_in(value: bytes) -> str:
    """Return the topic name in a value that cannot be decoded otherwise."""
    try:
        name = str(_loads(value)["topic"])
    except (ValueError, KeyError, TypeError):
        return _UNKNOWN_NAME
    return name if is_topic_name(name) else _UNKNOWN_NAME


def _checked(values: dict[str, Any], *, deletions: bool = False) -> dict[str, Any]:
    """Return topic level keys after a check.

    Raises:
        ValueError: A key or a value is invalid.
    """
    known_keys = definitions.config_keys()
    for key, value in values.items():
        if key not in known_keys:
            raise ValueError(
                f"{key[:100]} is a key of a later version, or of a policy not in use here"
            )
        if value is None and deletions:
            continue
        if not isinstance(value, str) or definitions.value_error(key, value):
            raise ValueError(f"no value of {key}")
    return values


def _loads(value: bytes) -> Any:
    try:
        return json.loads(value)
    except RecursionError:
        raise ValueError("nested too deeply") from None

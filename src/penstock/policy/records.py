"""The records that policies see: plain, immutable values.

Bytes are ``bytes``; a missing key, value or header value is ``None``. ``repr()`` shows sizes and
no contents, so a record in a log line reveals nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID


def _size(data: bytes | None) -> str:
    return "None" if data is None else f"<{len(data)} bytes>"


class Header(NamedTuple):
    """A header of a record. Keys can repeat.

    Attributes:
        value: The bytes, or None.
    """

    key: str
    value: bytes | None

    def __repr__(self) -> str:
        return f"Header(key={self.key!r}, value={_size(self.value)})"


HeaderProxy = Header
"""KIP-940's name for `Header`."""


class TopicPartition(NamedTuple):
    """A topic's name and the number of a partition.

    Source: ``org.apache.kafka.common.TopicPartition``.
    """

    topic: str
    partition: int


class TopicIdPartition(NamedTuple):
    """A partition with its topic's id, which changes if a topic is deleted and created again.

    Source: ``org.apache.kafka.common.TopicIdPartition``.
    """

    topic_id: UUID
    topic: str
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The same partition without the id."""
        return TopicPartition(self.topic, self.partition)


class Record(NamedTuple):
    """A record as ``RecordsPolicy`` sees it (KIP-686, ``org.apache.kafka.common.Record``).

    Attributes:
        timestamp: Milliseconds since the epoch, as the producer sent it; -1 if missing.
        key: The bytes, or None. An empty key is ``b""``.
        value: The bytes, or None for a tombstone.
        headers: In the producer's order.
    """

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()

    @property
    def has_key(self) -> bool:
        """Whether the record has a key, which can be empty."""
        return self.key is not None

    @property
    def has_value(self) -> bool:
        """Whether the record has a value, which can be empty."""
        return self.value is not None

    def __repr__(self) -> str:
        return (
            f"Record(timestamp={self.timestamp}, key={_size(self.key)}, "
            f"value={_size(self.value)}, headers={len(self.headers)})"
        )


class RecordProxy(NamedTuple):
    """A record as ``RecordValidationPolicy`` sees it (KIP-940), within the policy's hints.

    Attributes:
        headers: In the producer's order; empty if the hints leave headers out.
        key: At most ``access_key_bytes`` bytes, or None; None if that is 0.
        value: The same with ``access_value_bytes``.
    """

    headers: Sequence[HeaderProxy]
    key: bytes | None
    value: bytes | None

    def __repr__(self) -> str:
        return (
            f"RecordProxy(headers={len(self.headers)}, key={_size(self.key)}, "
            f"value={_size(self.value)})"
        )

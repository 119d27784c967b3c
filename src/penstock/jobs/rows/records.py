"""A record with the columns of Kafka, of a file or a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from penstock.policy import Header

COLUMNS: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int32",
    "offset": "int64",
    "timestamp": "timestamp",
    "timestampType": "int32",
    "headers": "list<struct<key: string, value: binary>>",
}
"""Kafka's columns, and their types in Arrow."""
_UNKNOWN: Final = -1
"""Kafka's number for a partition, an offset or a timestamp that is not known."""


class RecordRow(NamedTuple):
    """A record of a file or a topic. What a file does not say is None.

    Attributes:
        timestamp: In ms since 1970.
        timestamp_type: 0 for CreateTime, 1 for LogAppendTime.
    """

    topic: str | None
    partition: int | None
    offset: int | None
    timestamp: int | None
    timestamp_type: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]

    @property
    def known_partition(self) -> int:
        """The partition, or -1."""
        return _UNKNOWN if self.partition is None else self.partition

    @property
    def known_offset(self) -> int:
        """The offset, or -1."""
        return _UNKNOWN if self.offset is None else self.offset

    @property
    def known_timestamp(self) -> int:
        """The timestamp, or -1."""
        return _UNKNOWN if self.timestamp is None else self.timestamp

    @property
    def size(self) -> int:
        """How many bytes its key, its value and its headers have."""
        size = len(self.key or b"") + len(self.value or b"")
        for key, value in self.headers:
            size += len(key or "") + len(value or b"")
        return size

"""A record of a file, and the columns of Kafka that files have."""

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
NO_TIME: Final = -1


class FileRecord(NamedTuple):
    """A record of a file.

    Attributes:
        topic: Its topic; None where the file does not say.
        partition: Its partition, or -1.
        offset: Its offset, or -1.
        timestamp: In ms; -1 for none.
        key: Its key.
        value: Its value.
        headers: Its headers.
    """

    topic: str | None
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]

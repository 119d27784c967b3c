"""Message indexes: which message of a .proto file a payload holds, by Confluent's wire format.

A count and as many positions, each a zigzag varint: the message in the file, the message nested in
that message, and so on. `[0]`, the first message, is written as one byte 0.
Source: "Wire format" in Confluent's documentation of serializers.
"""

from __future__ import annotations

from typing import Final

MAX_INDEXES: Final = 32
"""protoc does not take messages that are nested deeper."""
_MAX_VARINT: Final = 5


class MessageIndexError(ValueError):
    """Message indexes that cannot be read; the text has the reason."""


def read_indexes(payload: bytes) -> tuple[tuple[int, ...], int]:
    """Return the indexes that a payload begins with, and where the message starts.

    Raises:
        MessageIndexError: They cannot be read.
    """
    count, position = _zigzag(payload, 0)
    if count == 0:
        return (0,), position
    if not 0 < count <= MAX_INDEXES:
        raise MessageIndexError(f"has a wrong number of message indexes, {count}")
    indexes = []
    for _ in range(count):
        index, position = _zigzag(payload, position)
        if index < 0:
            raise MessageIndexError("has a negative message index")
        indexes.append(index)
    return tuple(indexes), position


def _zigzag(data: bytes, start: int) -> tuple[int, int]:
    value = 0
    for length in range(_MAX_VARINT):
        if start + length >= len(data):
            raise MessageIndexError("ends before its message indexes do")
        byte = data[start + length]
        value |= (byte & 0x7F) << (7 * length)
        if byte < 0x80:
            if value >= 2**32:
                break
            return (value >> 1) ^ -(value & 1), start + length + 1
    raise MessageIndexError("has a message index of more than 32 bits")

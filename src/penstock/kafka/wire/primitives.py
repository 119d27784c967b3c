"""Kafka's primitive types, read at a position and written as bytes.

`read_x(data, position)` returns the value and the position after it, and raises IndexError or
struct.error past the end of the data.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from penstock.kafka.wire.errors import WireError

INT16 = Struct(">h")
INT32 = Struct(">i")
INT64 = Struct(">q")
TAGGED_FIELDS_MAX: Final = 1000
"""The most tagged fields of one structure: each takes time, however short it is. Kafka's own
schemas have less than ten (KIP-482)."""


def read_varint(data: bytes | bytearray, position: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits."""
    byte = data[position]
    position += 1
    if byte < 0x80:
        return byte, position
    value, shift = byte & 0x7F, 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                raise IndexError("a varint of more than 32 bits")
            return value, position
        shift += 7
        if shift > 28:
            raise IndexError("a varint of more than 5 bytes")


def varint(value: int) -> bytes:
    """Write an unsigned varint."""
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


def read_length(data: bytes | bytearray, position: int, *, flexible: bool) -> tuple[int, int]:
    """Read the length of a string (-1 for null)."""
    if flexible:
        length, position = read_varint(data, position)
        return length - 1, position
    return INT16.unpack_from(data, position)[0], position + 2


def read_long_length(data: bytes | bytearray, position: int, *, flexible: bool) -> tuple[int, int]:
    """Read the length of an array or of bytes (-1 for null)."""
    if flexible:
        length, position = read_varint(data, position)
        return length - 1, position
    return INT32.unpack_from(data, position)[0], position + 4


def skip_string(data: bytes | bytearray, position: int, *, flexible: bool) -> int:
    """Return the position after a string, or null."""
    length, position = read_length(data, position, flexible=flexible)
    return position + max(0, length)


def skip_tags(data: bytes | bytearray, position: int) -> int:
    """Return the position after a section of tagged fields.

    Raises:
        WireError: There are more than `TAGGED_FIELDS_MAX`.
    """
    count, position = read_varint(data, position)
    if count > TAGGED_FIELDS_MAX:
        raise WireError(f"a structure with more than {TAGGED_FIELDS_MAX} tagged fields")
    for _ in range(count):
        _, position = read_varint(data, position)
        size, position = read_varint(data, position)
        position += size
    return position


def string(text: str | None, *, flexible: bool) -> bytes:
    """Write a string or null."""
    if text is None:
        return b"\x00" if flexible else b"\xff\xff"
    encoded = text.encode()
    if flexible:
        return varint(len(encoded) + 1) + encoded
    return INT16.pack(len(encoded)) + encoded


def array_length(count: int, *, flexible: bool) -> bytes:
    """Write the length of an array."""
    return varint(count + 1) if flexible else INT32.pack(count)

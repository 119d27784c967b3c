"""Checks of requests and responses before the protocol library parses them.

The library does not check lengths: it allocates memory for as many entries as an array claims to
have, and the process dies without that much memory. So every count and length is first checked
against the received bytes. The library also fails at unknown tagged fields (KIP-482). A
broker ignores them, and they are removed here.
"""

from __future__ import annotations

import math
from struct import error
from typing import TYPE_CHECKING, Final

from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.primitives import TAGGED_FIELDS_MAX, read_long_length, read_varint, varint
from penstock.kafka.wire.structures import Structure, WireField, skip_field, structure_of

if TYPE_CHECKING:
    from kio.static.protocol import Entity

    Edit = tuple[int, int, bytes]
    """The bytes from one position to another, and the bytes that replace them."""


_LONG: Final = 0x80
"""If a string's length plus 1 has more than one byte. Null is 0."""


class TooManyEntriesError(WireError):
    """There are more entries than there may be."""

    def __init__(self) -> None:
        super().__init__("a request with too many entries")


class Edits(list["Edit"]):
    """The changes of a frame.

    Attributes:
        remaining_entries: How many entries of arrays there may still be.
    """

    def __init__(self, entry_limit: float = math.inf) -> None:
        super().__init__()
        self.remaining_entries = entry_limit

    def take(self, entries: int) -> None:
        """Count entries of an array.

        Raises:
            TooManyEntriesError: There are more than there may be.
        """
        self.remaining_entries -= max(0, entries)
        if self.remaining_entries < 0:
            raise TooManyEntriesError


def checked(data: bytes, position: int, kind: type[Entity]) -> tuple[bytes, int]:
    """Look through a structure.

    Args:
        position: Where the structure begins in it.
        kind: The library's type.

    Returns:
        The structure, as the library can read it from its first byte on; and the position in
        the frame after it.

    Raises:
        WireError: It does not follow its schema.
    """
    edits = Edits()
    try:
        end = walk(structure_of(kind), data, position, edits)
    except (IndexError, error):
        raise WireError(f"a {kind.__name__} that does not match its schema") from None
    return spliced(data, position, end, edits), end


def walk(structure: Structure, data: bytes, position: int, edits: Edits) -> int:
    """Return the position after a structure; `edits` gets the parts that the library cannot read.

    Raises:
        IndexError, struct.error: It does not follow its schema.
        WireError: It has too many entries or tagged fields.
    """
    flexible = structure.flexible
    for size, field, is_string in structure.runs:
        position += size
        if is_string and flexible and 0 < data[position] < _LONG:
            position += data[position]
        elif field is not None:
            position = walk_field(field, data, position, flexible, edits)
    if flexible:
        position = walk_tags(structure, data, position, edits) if data[position] else position + 1
    if position > len(data):
        raise IndexError
    return position


def walk_field(field: WireField, data: bytes, position: int, flexible: bool, edits: Edits) -> int:
    """Return the position after a field; see `walk`."""
    if field.structure is None:
        if field.array:
            edits.take(read_long_length(data, position, flexible=flexible)[0])
        return _skip(field, data, position, flexible)
    if not field.array:
        if field.nullable:
            position += 1
            if data[position - 1] == 0xFF:
                return position
        return walk(field.structure, data, position, edits)
    count, position = read_long_length(data, position, flexible=flexible)
    if count > len(data) - position or (count < 0 and not field.nullable):
        raise IndexError
    edits.take(count)
    for _ in range(count):
        position = walk(field.structure, data, position, edits)
    return position


def _skip(field: WireField, data: bytes, position: int, flexible: bool) -> int:
    """Return the position after a field that is not a structure; null only where that may be."""
    if not field.nullable and field.is_null_at(data, position, flexible=flexible):
        raise IndexError
    return skip_field(field, data, position, flexible)


def walk_tags(structure: Structure, data: bytes, position: int, edits: Edits) -> int:
    """Return the position after the tagged fields of a structure; see `walk`."""
    start = position
    count, position = read_varint(data, position)
    if count > TAGGED_FIELDS_MAX:
        raise WireError(f"a structure with more than {TAGGED_FIELDS_MAX} tagged fields")
    known_fields: list[bytes] = []
    is_changed = False
    for _ in range(count):
        begins = position
        tag, position = read_varint(data, position)
        size, position = read_varint(data, position)
        end = position + size
        if end > len(data):
            raise IndexError
        field = structure.tagged_fields.get(tag)
        inner = Edits(edits.remaining_entries)
        if field is not None and walk_field(field, data, position, True, inner) != end:
            raise IndexError
        edits.remaining_entries = inner.remaining_entries
        edits.take(1)
        if field is None:
            is_changed = True
        elif inner:
            content = spliced(data, position, end, inner)
            known_fields.append(varint(tag) + varint(len(content)) + content)
            is_changed = True
        else:
            known_fields.append(data[begins:end])
        position = end
    if is_changed:
        edits.append((start, position, b"".join((varint(len(known_fields)), *known_fields))))
    return position


def spliced(data: bytes, start: int, end: int, edits: list[Edit]) -> bytes:
    """Return the bytes from `start` to `end`, changed."""
    if not edits:
        return data[start:end]
    parts: list[bytes] = []
    for edit_start, edit_end, replacement in edits:
        parts += (data[start:edit_start], replacement)
        start = edit_end
    return b"".join((*parts, data[start:end]))

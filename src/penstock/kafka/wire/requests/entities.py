"""Entities of the protocol library, read and written in slices.

The library reads and writes an entity at once, and a client's may have 50,000 entries. Here
a part with few entries is read by the library, and a part with many is read entry by entry: the
rest of it is read by the library with empty arrays in their place, and so it is written.
"""

from __future__ import annotations

import io
import math
from dataclasses import replace
from struct import error
from typing import TYPE_CHECKING, Any, Final

from kio.serial import entity_reader, entity_writer

from penstock.kafka.wire.checked import (
    Edits,
    TooManyEntriesError,
    spliced,
    walk,
    walk_field,
    walk_tags,
)
from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.primitives import array_length, read_length, read_long_length
from penstock.kafka.wire.structures import FIXED_SIZES, structure_of

if TYPE_CHECKING:
    from kio.static.protocol import Entity

    from penstock.kafka.wire.slices import Slices
    from penstock.kafka.wire.structures import Structure, WireField

    Read = tuple[Any, int]
    """An entity, and the position after it."""

SLICE_ENTRIES: Final = 250
"""How many entries are read or written before others have their turn: a millisecond or two."""
_NULL: Final = b"\xff"
"""Of a structure that may be null."""


def read_in_slices(
    data: bytes, position: int, kind: type[Entity], *, most_entries: float = math.inf
) -> Slices[Read]:
    """Read an entity.

    Args:
        position: Where the entity begins in it.
        kind: The library's type.
        most_entries: So many entries all of its arrays may have.

    Yields:
        After each slice.

    Raises:
        WireError: It does not follow its schema, or has more entries.
    """
    try:
        return (yield from _EntityReader(data, most_entries).entity(structure_of(kind), position))
    except (IndexError, error):
        raise WireError(f"a {kind.__name__} that does not match its schema") from None
    except WireError:
        raise
    except Exception as reason:
        raise WireError(f"a {kind.__name__} that cannot be read") from reason


def write_entity(entity: Any) -> bytes:
    """Return the bytes of an entity, at once."""
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def write_in_slices(entity: Entity) -> Slices[bytes]:
    """Write an entity.

    Yields:
        After each slice.
    """
    writer = _EntityWriter()
    yield from writer.entity(structure_of(type(entity)), entity)
    return b"".join(writer.parts)


class _EntryCounter:
    """Counts entries; a slice is over when there have been enough."""

    def __init__(self) -> None:
        self._count = 0

    def are_enough(self, entries: int) -> bool:
        self._count += entries
        if self._count < SLICE_ENTRIES:
            return False
        self._count = 0
        return True


class _EntityReader:
    def __init__(self, data: bytes, most_entries: float) -> None:
        self._data = data
        self._remaining_entries = most_entries
        self._steps = _EntryCounter()

    def entity(self, structure: Structure, position: int) -> Slices[Read]:
        at_once = self._at_once(structure, position)
        return at_once or (yield from self._in_parts(structure, position))

    def _at_once(self, structure: Structure, position: int) -> Read | None:
        """Read an entity that has few entries; return None if it has many."""
        most = min(self._remaining_entries, SLICE_ENTRIES)
        edits = Edits(most)
        try:
            end = walk(structure, self._data, position, edits)
        except TooManyEntriesError:
            if most == self._remaining_entries:
                raise
            return None
        self._remaining_entries -= most - edits.remaining_entries
        self._step_entries = 1 + int(most - edits.remaining_entries)
        reader = entity_reader(structure.kind)
        if edits:
            return reader(spliced(self._data, position, end, edits), 0)[0], end
        return reader(self._data, position)[0], end

    def _in_parts(self, structure: Structure, start: int) -> Slices[Read]:
        """Read the arrays of an entity by themselves, and the rest of it without them."""
        position = start
        apart: dict[str, Any] = {}
        edits = Edits()
        for field in structure.fields:
            begins = position
            if field.structure is None:
                position = yield from self._skip(field, position, structure.flexible)
            elif not field.array and field.nullable and self._data[position] != _NULL[0]:
                apart[field.name], position = yield from self.entity(field.structure, position + 1)
                edits.append((begins, position, _NULL))
            elif not field.array:
                position = self._walk(field, position, structure.flexible, edits)
            else:
                entries, position = yield from self._array(field, position, structure.flexible)
                if entries:
                    apart[field.name] = tuple(entries)
                    none = array_length(0, flexible=structure.flexible)
                    edits.append((begins, position, none))
        if structure.flexible:
            edits.remaining_entries = self._remaining_entries
            position = walk_tags(structure, self._data, position, edits)
            self._remaining_entries = edits.remaining_entries
        if position > len(self._data):
            raise IndexError
        rest, _ = entity_reader(structure.kind)(spliced(self._data, start, position, edits), 0)
        self._step_entries = 1
        return replace(rest, **apart), position

    def _array(
        self, field: WireField, position: int, flexible: bool
    ) -> Slices[tuple[list[Any], int]]:
        structure = field.structure
        assert structure is not None
        count, position = read_long_length(self._data, position, flexible=flexible)
        if count > len(self._data) - position or (count < 0 and not field.nullable):
            raise IndexError
        self._take(count)
        entries = []
        for _ in range(count):
            result = self._at_once(structure, position)
            if result is None:
                result = yield from self._in_parts(structure, position)
            entries.append(result[0])
            position = result[1]
            if self._steps.are_enough(self._step_entries):
                yield
        return entries, position

    def _walk(self, field: WireField, position: int, flexible: bool, edits: Edits) -> int:
        edits.remaining_entries = self._remaining_entries
        position = walk_field(field, self._data, position, flexible, edits)
        self._remaining_entries = edits.remaining_entries
        return position

    def _skip(self, field: WireField, position: int, flexible: bool) -> Slices[int]:
        """Return the position after a field other than a structure; texts of a long array count."""
        if not field.array or field.kafka_type in FIXED_SIZES:
            return self._walk(field, position, flexible, Edits())
        count, position = read_long_length(self._data, position, flexible=flexible)
        if count > len(self._data) - position or (count < 0 and not field.nullable):
            raise IndexError
        self._take(count)
        length_reader = read_length if field.kafka_type == "string" else read_long_length
        for _ in range(count):
            length, position = length_reader(self._data, position, flexible=flexible)
            if length < 0 or position + length > len(self._data):
                raise IndexError
            position += length
            if self._steps.are_enough(1):
                yield
        return position

    def _take(self, entries: int) -> None:
        self._remaining_entries -= max(0, entries)
        if self._remaining_entries < 0:
            raise TooManyEntriesError


class _EntityWriter:
    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._steps = _EntryCounter()

    def entity(self, structure: Structure, entity: Any) -> Slices[None]:
        entries = _count(structure, entity)
        if entries > SLICE_ENTRIES:
            yield from self._in_parts(structure, entity)
        else:
            self.parts.append(write_entity(entity))
            if self._steps.are_enough(1 + entries):
                yield

    def _in_parts(self, structure: Structure, entity: Any) -> Slices[None]:
        """Write the arrays of an entity by themselves, and the rest of it around them."""
        apart = {
            field.name: getattr(entity, field.name)
            for field in structure.fields
            if field.array and getattr(entity, field.name)
        }
        rest = replace(entity, **dict.fromkeys(apart, ()))
        data = write_entity(rest)
        part_start = position = 0
        for field in structure.fields:
            begins = position
            position = walk_field(field, data, position, structure.flexible, Edits())
            if field.name not in apart:
                continue
            entries = apart[field.name]
            self.parts += (
                data[part_start:begins],
                array_length(len(entries), flexible=structure.flexible),
            )
            if field.structure is None:
                around = begins, len(data) - position
                yield from self._plain(rest, field, entries, around, structure.flexible)
            else:
                for entry in entries:
                    yield from self.entity(field.structure, entry)
            part_start = position
        self.parts.append(data[part_start:])

    def _plain(
        self, rest: Any, field: WireField, entries: Any, around: tuple[int, int], flexible: bool
    ) -> Slices[None]:
        """Write entries that are not structures: those of a part of the array at a time."""
        for first in range(0, len(entries), SLICE_ENTRIES):
            some = entries[first : first + SLICE_ENTRIES]
            data = write_entity(replace(rest, **{field.name: some}))
            begins = around[0] + len(array_length(len(some), flexible=flexible))
            self.parts.append(data[begins : len(data) - around[1]])
            yield


def _count(structure: Structure, entity: Any) -> int:
    """Return how many entries an entity has; any number beyond a slice, if it has more."""
    count = 0
    for field in structure.fields:
        if not field.array:
            continue
        entries = getattr(entity, field.name) or ()
        count += len(entries)
        if field.structure is None or not field.structure.has_arrays:
            continue
        for entry in entries:
            if count > SLICE_ENTRIES:
                break
            count += _count(field.structure, entry)
    return count

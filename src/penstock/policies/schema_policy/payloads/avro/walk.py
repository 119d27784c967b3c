"""The slow way to judge a payload: it finds the first thing that is wrong, and where.

Its work is bounded by the payload's bytes: types whose values all take the same number of bytes
are stepped over, every other value takes at least one, and items that take none are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.policies.schema_policy.payloads.avro.numbers import (
    TooLongError,
    read_block,
    read_length,
    read_number,
)
from penstock.policies.schema_policy.payloads.avro.types import MAX_EMPTY_ITEMS, MAX_LEVELS

if TYPE_CHECKING:
    from penstock.policies.schema_policy.payloads.avro.types import AvroType

_MAX_PATH: Final = 200
_BITS: Final = {"int": 32, "long": 64}


class UnfitError(Exception):
    """What is wrong with the value at the path."""


def objection(root: AvroType, payload: bytes) -> str | None:
    """Return what is wrong with a payload, and where; None where it fits.

    Args:
        root: The schema's type.
        payload: One value in Avro's binary encoding.
    """
    walk = _Walk(payload)
    try:
        end = walk.read(root, 0, 0)
    except UnfitError as error:
        return f"Avro: {walk.place} {error}"
    except IndexError:
        return f"Avro: ends before {walk.place} does"
    behind = len(payload) - end
    return f"Avro: has {behind} bytes after its end" if behind else None


class _Walk:
    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._path: list[str | int] = []
        self._empty = 0

    @property
    def place(self) -> str:
        """The field that is read, with the indexes of arrays, and `[*]` for a map's keys."""
        steps = (f"[{one}]" if isinstance(one, int) else one for one in self._path)
        path = "".join(steps).removeprefix(".")
        if len(path) > _MAX_PATH:
            path = f"...{path[-_MAX_PATH:]}"
        return f"the field {path}" if path else "the value"

    def read(self, schema: AvroType, position: int, level: int) -> int:
        """Return the position behind a value.

        Args:
            schema: Its type.
            position: Where it starts.
            level: How many records, arrays and maps are around it.

        Raises:
            IndexError: The payload ends before it does.
            UnfitError: It does not fit; `place` is where.
        """
        if schema.size is not None:
            return self._step(position, schema.size)
        kind = schema.kind
        if kind == "enum":
            return self._index(position, len(schema.names), "symbol of its enum")[1]
        if kind == "union":
            index, position = self._index(position, len(schema.inner), "branch of its union")
            return self.read(schema.inner[index], position, level)
        if not schema.inner:
            return self._primitive(kind, position)
        level += 1
        if level > MAX_LEVELS:
            raise UnfitError(f"is inside more than {MAX_LEVELS} records, arrays and maps")
        if kind == "record":
            return self._record(schema, position, level)
        return self._blocks(schema, position, level)

    def _primitive(self, kind: str, position: int) -> int:
        if kind in _BITS:
            return self._number(position, kind)[1]
        if kind == "boolean":
            if self._payload[position] > 1:
                raise UnfitError("is a boolean of another byte than 0 and 1")
            return position + 1
        if kind == "string":
            return self._string(position, "is")
        length, position = self._length(position)
        return self._step(position, length)

    def _record(self, schema: AvroType, position: int, level: int) -> int:
        for name, inner in schema.fields:
            self._path.append(f".{name}")
            position = self.read(inner, position, level)
            self._path.pop()
        return position

    def _blocks(self, schema: AvroType, position: int, level: int) -> int:
        index = 0
        while True:
            try:
                count, position, end = read_block(self._payload, position)
            except ValueError:
                raise UnfitError("has a block with a wrong count or size") from None
            if not count:
                if end and end != position:
                    raise UnfitError("has a block that does not end where it says")
                return position
            position = self._items(schema, count, index, position, level)
            index += count
            if end and end != position:
                raise UnfitError("has a block that does not end where it says")

    def _items(self, schema: AvroType, count: int, index: int, position: int, level: int) -> int:
        item = schema.inner[0]
        if schema.kind == "array" and item.size is not None:
            if not item.size:
                self._empty += count * item.empty
            if self._empty > MAX_EMPTY_ITEMS:
                raise UnfitError(f"has more than {MAX_EMPTY_ITEMS} items that take no bytes")
            return self._step(position, count * item.size)
        for at in range(index, index + count):
            self._path.append(at if schema.kind == "array" else "[*]")
            if schema.kind == "map":
                position = self._string(position, "has a key that is")
            position = self.read(item, position, level)
            self._path.pop()
        return position

    def _number(self, position: int, kind: str) -> tuple[int, int]:
        try:
            return read_number(self._payload, position, _BITS[kind])
        except TooLongError:
            raise UnfitError(f"has a number that is longer than one of type {kind}") from None

    def _length(self, position: int) -> tuple[int, int]:
        try:
            return read_length(self._payload, position)
        except ValueError:
            raise UnfitError("has a length that is negative or too large") from None

    def _index(self, position: int, count: int, what: str) -> tuple[int, int]:
        index, position = self._number(position, "long")
        if not 0 <= index < count:
            raise UnfitError(f"has an index of no {what}")
        return index, position

    def _string(self, position: int, what: str) -> int:
        length, position = self._length(position)
        end = self._step(position, length)
        try:
            str(self._payload[position:end], "utf-8")
        except UnicodeDecodeError:
            raise UnfitError(f"{what} not UTF-8") from None
        return end

    def _step(self, position: int, size: int) -> int:
        if position + size > len(self._payload):
            raise IndexError
        return position + size

"""Judges payloads in Python: the first fault, and its place.

The fallback for `native/src/avro/`, which has the same results, and its oracle in tests.
The work is bounded by the payload's bytes (see `table.py`), and items that take none are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.policies.schema_policy.payloads.avro.table import (
    ARRAY,
    BOOLEAN,
    BYTES,
    CHAIN,
    ENUM,
    INT,
    LONG,
    MAP,
    MAX_PATH,
    RECORD,
    STEP,
    STRING,
    UNION,
)
from penstock.policies.schema_policy.payloads.avro.types import MAX_EMPTY_ITEMS, MAX_LEVELS
from tests.policies.schema_policy.payloads.avro.numbers import (
    TooLongError,
    read_block,
    read_length,
    read_number,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.policies.schema_policy.payloads.avro.table import TypeNode

_BITS: Final = {INT: 32, LONG: 64}
_NAMES: Final = {32: "int", 64: "long"}
_Step = tuple[int, int] | int | None
"""Of a place: a node and which of its fields, or how many records of a chain; the index of an item;
None for a map's keys and values."""


_LAST: Final = 0x7F
"""No byte of a number is greater but those that others follow."""
_MORE_OR_NEGATIVE: Final = 0x81
"""Bits of a number's first byte: without them it is the only byte, and the number not negative."""


class UnfitError(Exception):
    """The fault of the value at the path."""


_TOO_DEEP: Final = f"is inside more than {MAX_LEVELS} records, arrays and maps"
_UNFIT: Final = (UnfitError, IndexError)


class Walker:
    """Judges payloads by the nodes of a schema."""

    def __init__(self, nodes: Sequence[TypeNode]) -> None:
        self._nodes = nodes

    def objections(
        self, payloads: Sequence[bytes | memoryview], start: int = 0
    ) -> Iterator[tuple[int, str]]:
        """Yield the position of each payload that does not fit, with the reason and the place."""
        for position, payload in enumerate(payloads):
            text = objection(self._nodes, bytes(payload), start)
            if text is not None:
                yield position, text


def objection(nodes: Sequence[TypeNode], payload: bytes, start: int = 0) -> str | None:
    """Return the first fault of a payload, and its place; None if it fits.

    Args:
        nodes: The schema's.
        payload: One value in Avro's binary encoding.
        start: Where in the bytes it starts.
    """
    walk = _PayloadWalk(nodes, payload)
    try:
        end = walk.read(0, start, 0)
    except UnfitError as error:
        return f"Avro: {walk.place} {error}"
    except IndexError:
        return f"Avro: ends before {walk.place} does"
    behind = len(payload) - end
    return f"Avro: has {behind} bytes after its end" if behind else None


class _PayloadWalk:
    """One payload's pass. Each method takes a node and where its value starts, and returns its end.

    An exception leaves its path in `_path`, from the innermost step to the outermost: to track
    it all the time would take as long as the rest.
    """

    def __init__(self, nodes: Sequence[TypeNode], payload: bytes) -> None:
        self._nodes = nodes
        self._payload = payload
        self._path: list[_Step] = []
        self._empty = 0

    @property
    def place(self) -> str:
        """The field that is read, with the indexes of arrays, and `[*]` for a map's keys."""
        shown = ""
        for step in self._path:
            shown = self._text(step) + shown
            if len(shown) > MAX_PATH + 1:
                break
        path = shown.removeprefix(".")
        if len(path) > MAX_PATH:
            path = f"...{path[-MAX_PATH:]}"
        return f"the field {path}" if path else "the value"

    def _text(self, step: _Step) -> str:
        if step is None:
            return "[*]"
        if isinstance(step, int):
            return f"[{step}]"
        at, number = step
        node = self._nodes[at]
        if node.kind == RECORD:
            return f".{node.names[number]}"
        names = []
        for _ in range(number):
            names.append(f".{node.names[0]}")
            node = self._nodes[node.inner[1]]
        return "".join(names)

    def read(self, at: int, position: int, level: int) -> int:
        """Return the position behind a value.

        Args:
            at: The number of its node.
            position: Where it starts.
            level: How many records, arrays and maps are around it.

        Raises:
            IndexError: The payload ends before it does.
            UnfitError: It does not fit; `place` is where.
        """
        node = self._nodes[at]
        kind = node.kind
        if kind == STRING:
            return self._string(position, "is")
        if kind == STEP:
            return self._step(position, node.number)
        if kind < ENUM:
            return self._primitive(kind, position)
        if kind == ENUM:
            return self._index(position, node.number, "symbol of its enum")[1]
        if kind == UNION:
            index, position = self._index(position, len(node.inner), "branch of its union")
            return self.read(node.inner[index], position, level)
        if kind == CHAIN:
            return self._chain(at, position, level)
        if level >= MAX_LEVELS:
            raise UnfitError(_TOO_DEEP)
        if kind == RECORD:
            return self._record(at, position, level + 1)
        return self._blocks(node, position, level + 1)

    def _primitive(self, kind: int, position: int) -> int:
        if kind == BYTES:
            length, position = self._length(position)
            return self._step(position, length)
        if kind != BOOLEAN:
            if self._payload[position] <= _LAST:
                return position + 1
            return self._number(position, _BITS[kind])[1]
        if self._payload[position] > 1:
            raise UnfitError("is a boolean of another byte than 0 and 1")
        return position + 1

    def _record(self, at: int, position: int, level: int) -> int:
        number = 0
        try:
            for inner in self._nodes[at].inner:
                position = self.read(inner, position, level)
                number += 1
        except _UNFIT:
            self._path.append((at, number))
            raise
        return position

    def _chain(self, at: int, position: int, level: int) -> int:
        node = self._nodes[at]
        try:
            if level + node.number > MAX_LEVELS:
                raise UnfitError(_TOO_DEEP)
            return self.read(node.inner[0], position, level + node.number)
        except _UNFIT:
            self._path.append((at, min(node.number, MAX_LEVELS - level)))
            raise

    def _blocks(self, node: TypeNode, position: int, level: int) -> int:
        index = 0
        while True:
            try:
                count, position, end = read_block(self._payload, position)
            except ValueError:
                raise UnfitError("has a block with a wrong count or size") from None
            if not count:
                return position
            position = self._items(node, count, index, position, level)
            index += count
            if end and end != position:
                raise UnfitError("has a block that does not end where it says")

    def _items(self, node: TypeNode, count: int, index: int, position: int, level: int) -> int:
        (at,) = node.inner
        item = self._nodes[at]
        if node.kind == ARRAY and item.kind == STEP:
            self._empty += count * node.number
            if self._empty > MAX_EMPTY_ITEMS:
                raise UnfitError(f"has more than {MAX_EMPTY_ITEMS} items that take no bytes")
            return self._step(position, count * item.number)
        step: _Step = None
        try:
            for number in range(index, index + count):
                if node.kind == MAP:
                    position = self._string(position, "has a key that is")
                else:
                    step = number
                position = self.read(at, position, level)
        except _UNFIT:
            self._path.append(step)
            raise
        return position

    def _number(self, position: int, bits: int) -> tuple[int, int]:
        try:
            return read_number(self._payload, position, bits)
        except TooLongError:
            raise UnfitError(
                f"has a number that is longer than one of type {_NAMES[bits]}"
            ) from None

    def _length(self, position: int) -> tuple[int, int]:
        byte = self._payload[position]
        if not byte & _MORE_OR_NEGATIVE:
            return byte >> 1, position + 1
        try:
            return read_length(self._payload, position)
        except ValueError:
            raise UnfitError("has a length that is negative or too large") from None

    def _index(self, position: int, count: int, what: str) -> tuple[int, int]:
        byte = self._payload[position]
        if byte & _MORE_OR_NEGATIVE:
            index, position = self._number(position, 64)
        else:
            index, position = byte >> 1, position + 1
        if not 0 <= index < count:
            raise UnfitError(f"has an index of no {what}")
        return index, position

    def _string(self, position: int, what: str) -> int:
        length, position = self._length(position)
        end = position + length
        if end > len(self._payload):
            raise IndexError
        try:
            str(self._payload[position:end], "utf-8")
        except UnicodeDecodeError:
            raise UnfitError(f"{what} not UTF-8") from None
        return end

    def _step(self, position: int, size: int) -> int:
        if position + size > len(self._payload):
            raise IndexError
        return position + size

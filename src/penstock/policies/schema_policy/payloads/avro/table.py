"""A schema as a flat table, which `walk.py` and `native/src/avro/` read payloads by.

A node represents a type, and names others by their numbers; 0 is the schema. Types whose
values all take the same number of bytes are one step, with any content. If the only part of
a record that takes bytes is another record, and so on, the way through them is one node, too: then
a payload cannot make anybody visit more than about three nodes for each of its bytes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.policies.schema_policy.payloads.avro.types import MAX_LEVELS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.policies.schema_policy.payloads.avro.types import AvroType

MAX_PATH: Final = 200
"""How many characters of a place are shown: its last characters."""
(STEP, BOOLEAN, INT, LONG, BYTES, STRING, ENUM, UNION, ARRAY, MAP, RECORD, CHAIN) = range(12)
_KINDS: Final = {
    "boolean": BOOLEAN,
    "int": INT,
    "long": LONG,
    "bytes": BYTES,
    "string": STRING,
    "enum": ENUM,
    "union": UNION,
    "array": ARRAY,
    "map": MAP,
    "record": RECORD,
}


class TypeNode(NamedTuple):
    """A type, or several records that are in each other.

    Attributes:
        kind: What it is, one of the numbers above.
        number: Of a step, how many bytes it takes; of an enum, how many symbols it has; of an array
            of items that take no bytes, how many values without bytes an item is; of a chain, how
            many records it leads through.
        inner: The nodes of a union's branches, of an array's items, of a map's values, and of a
            record's fields that may take bytes. Of a chain, where it ends, and the node of the
            next record.
        names: The names of a record's fields, as they are shown; of a chain, the name of the next
            record.
    """

    kind: int
    number: int
    inner: tuple[int, ...]
    names: tuple[str, ...]


class _Chain(NamedTuple):
    records: int
    end: AvroType
    field: tuple[str, AvroType]


def flatten(root: AvroType) -> list[TypeNode]:
    """Return the nodes of a schema, its own type's first."""
    chains = _Chains()
    numbers = {id(root): 0}
    types = [root]
    nodes = []
    for schema in types:  # grows meanwhile
        chain = chains.of(schema)
        names, inner = _below(schema, chain)
        for inner_schema in inner:
            if id(inner_schema) not in numbers:
                numbers[id(inner_schema)] = len(types)
                types.append(inner_schema)
        below = tuple(numbers[id(inner_schema)] for inner_schema in inner)
        nodes.append(TypeNode(*_described(schema, chain), below, tuple(map(_shown, names))))
    return nodes


def _below(schema: AvroType, chain: _Chain | None) -> tuple[Sequence[str], Sequence[AvroType]]:
    """Return the names and the types of the parts of a value."""
    if schema.size is not None:
        return (), ()
    if chain:
        name, following = chain.field
        return (name,), (chain.end, following)
    if schema.kind == "record":
        names, types = zip(*_fields(schema), strict=True)
        return names, types
    return (), schema.inner


def _described(schema: AvroType, chain: _Chain | None) -> tuple[int, int]:
    if schema.size is not None:
        return STEP, min(schema.size, sys.maxsize)
    if chain:
        return CHAIN, chain.records
    number = 0
    if schema.kind == "enum":
        number = len(schema.names)
    elif schema.kind == "array" and schema.inner[0].size == 0:
        number = schema.inner[0].empty
    return _KINDS[schema.kind], number


class _Chains:
    """Finds where records lead that have one field, another record."""

    def __init__(self) -> None:
        self._chains: dict[int, _Chain | None] = {}

    def of(self, schema: AvroType) -> _Chain | None:
        """Return the way through a record; None for any other type."""
        way: list[tuple[AvroType, tuple[str, AvroType]]] = []
        while id(schema) not in self._chains:
            self._chains[id(schema)] = None  # where it leads back to itself, it has no end
            field = _only_record(schema)
            if field is None:
                break
            way.append((schema, field))
            schema = field[1]
        chain = self._chains[id(schema)]
        endless = any(passed is schema for passed, _ in way)
        for passed, field in reversed(way):
            if endless:
                chain = _Chain(MAX_LEVELS + 1, passed, field)
            elif chain is None:
                chain = _Chain(1, field[1], field)
            else:
                chain = _Chain(min(chain.records, MAX_LEVELS) + 1, chain.end, field)
            self._chains[id(passed)] = chain
        return chain


def _only_record(schema: AvroType) -> tuple[str, AvroType] | None:
    if schema.kind != "record" or schema.size is not None:
        return None
    fields = _fields(schema)
    return fields[0] if len(fields) == 1 and fields[0][1].kind == "record" else None


def _fields(schema: AvroType) -> list[tuple[str, AvroType]]:
    """Return a record's fields that may take bytes."""
    return [(name, inner) for name, inner in schema.fields() if inner.size != 0]


def _shown(name: str) -> str:
    """Return as much of a name as a place may show."""
    return "".join(
        character if character.isprintable() else "?" for character in name[-MAX_PATH - 1 :]
    )

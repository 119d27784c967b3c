"""An Avro schema as a graph of types, in which named types may lead back to themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from penstock.policies.schema_policy.errors import InvalidSchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.policies.schema_policy.fields.tree import InlineRule

MAX_LEVELS: Final = 127
"""How deep records, arrays and maps may be in each other, in a schema and in a payload.

As deep as arrays and objects of JSON (`penstock.policies.json_schema.check`). fastavro reads a
value by recursion in C, without a limit: a few thousand levels end the process.
"""
MAX_EMPTY: Final = 1000
"""How many values that take no bytes one value may have outside arrays and maps."""
MAX_EMPTY_ITEMS: Final = 10_000
"""How many values that take no bytes the arrays of one payload may have."""
_KINDS: Final = frozenset(
    {"record", "error", "enum", "fixed", "array", "map", "union", "error_union"}
)


@dataclass(slots=True, eq=False)
class AvroType:
    """One type.

    Attributes:
        kind: `record`, `enum`, `fixed`, `array`, `map`, `union`, or the name of a primitive type.
        name: The full name of a record, an enum or a fixed.
        inner: The types of a record's fields, of an array's items or a map's values, or of a
            union's branches.
        names: The names of fields, or the symbols of an enum.
        size: How many bytes each value takes; None where that differs.
        empty: How many values that take no bytes it has, itself included, outside arrays, maps
            and unions.
        tags: `confluent:tags` of a record's fields, by their names.
        rules: `confluent:rules` of a record's fields, by their names; those of the record
            itself by the empty name.
        logical: The declaration of a type that names a logical type.
    """

    kind: str
    name: str = ""
    inner: list[AvroType] = field(default_factory=list)
    names: tuple[str, ...] = ()
    size: int | None = None
    empty: int = 0
    tags: dict[str, frozenset[str]] = field(default_factory=dict)
    rules: dict[str, tuple[InlineRule, ...]] = field(default_factory=dict)
    logical: dict[str, Any] | None = None

    @property
    def name_in_values(self) -> str:
        """Its name in fastavro's schemas and values, where the words for kinds are not names."""
        return f"the-type-{self.name}" if self.name in _KINDS else self.name

    def fields(self) -> Iterator[tuple[str, AvroType]]:
        """Yield the names and types of a record's fields."""
        return zip(self.names, self.inner, strict=True)


PRIMITIVES: Final = {
    "null": AvroType("null", size=0, empty=1),
    "boolean": AvroType("boolean"),
    "int": AvroType("int"),
    "long": AvroType("long"),
    "float": AvroType("float", size=4),
    "double": AvroType("double", size=8),
    "bytes": AvroType("bytes"),
    "string": AvroType("string"),
}


def measure(records: list[AvroType]) -> None:
    """Set `size` and `empty` of records whose fields' types are all known.

    Raises:
        InvalidSchemaError: A type has too many levels, or too many values that take no bytes.
    """
    measured: set[int] = set()
    under_way: set[int] = set()

    def visit(record: AvroType, level: int) -> None:
        if id(record) in measured or id(record) in under_way:
            return  # a record in itself has no end, and no size
        if level > MAX_LEVELS:
            raise InvalidSchemaError(f"it has more than {MAX_LEVELS} levels of records")
        under_way.add(id(record))
        for inner in record.inner:
            if inner.kind == "record":
                visit(inner, level + 1)
        sizes = [inner.size for inner in record.inner]
        known_sizes = [size for size in sizes if size is not None]
        record.size = sum(known_sizes) if len(known_sizes) == len(sizes) else None
        record.empty = sum(inner.empty for inner in record.inner) + (record.size == 0)
        if record.empty > MAX_EMPTY:
            raise InvalidSchemaError(
                f"{record.name} has more than {MAX_EMPTY} values that take no bytes"
            )
        measured.add(id(record))

    for record in records:
        visit(record, 1)

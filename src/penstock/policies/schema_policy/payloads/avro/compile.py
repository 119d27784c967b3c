"""Avro schemas, ready to judge payloads; fastavro makes values of those that fit."""

from __future__ import annotations

from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, cast

import fastavro

from penstock import _native
from penstock.policies.schema_policy.payloads.avro.parse import parse
from penstock.policies.schema_policy.payloads.avro.table import MAX_PATH, flatten
from penstock.policies.schema_policy.payloads.avro.types import MAX_EMPTY_ITEMS, MAX_LEVELS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.policies.schema_policy.payloads.avro.types import AvroType
    from penstock.policies.schema_policy.payloads.compiled import SchemaSource

_RECORD: Final = "the-record"  # no name that a type can have
_VALUE: Final = "value"


class AvroSchema:
    """Judges payloads by the Avro schema that wrote them.

    A payload fits if its bytes have the schema's types. The meaning of a logical type
    is not judged, as the specification has readers ignore a logical type that they cannot use.

    Where the schema itself is `bytes`, any payload fits, and is the value: Confluent's serializers
    for Java and Python write and read it bare. Others write its length before it.
    """

    def __init__(self, root: AvroType) -> None:
        self._root = root
        self._is_bare = root.kind == "bytes"
        self._judge = _native.AvroNodes(flatten(root), MAX_LEVELS, MAX_EMPTY_ITEMS, MAX_PATH)

    def objections(
        self, payloads: Sequence[bytes | memoryview], start: int = 0
    ) -> Iterable[tuple[int, str]]:
        """Return the position of each payload that does not fit, with the reason and the place."""
        if self._is_bare:
            return ()
        objections: Iterable[tuple[int, str]] = self._judge.objections(payloads, start)
        return objections

    def decode(self, payload: bytes) -> object:
        """Return fastavro's value of a payload that fits.

        Logical types keep their underlying type: a date is a number. If a union has
        several named types, a value of it is a pair: the type's full name, and the
        value; `encode` uses the name.

        Raises:
            ValueError: The payload does not fit.
        """
        if self._is_bare:
            return payload
        if any(self.objections((payload,))):
            raise ValueError("the payload does not fit its schema")
        record = fastavro.schemaless_reader(
            BytesIO(payload),
            self._schema,
            None,
            return_named_type=True,
            return_named_type_override=True,
        )
        return cast("dict[str, object]", record)[_VALUE]

    def encode(self, value: object) -> bytes:
        """Return the payload of a value of the kind that `decode` returns.

        Of a union's branches the first that the value fits is written, double before float.

        Raises:
            ValueError: The value does not fit the schema.
        """
        if self._is_bare and isinstance(value, bytes):
            return value
        out = BytesIO()
        try:
            fastavro.schemaless_writer(out, self._schema, {_VALUE: value}, strict=True)
        except Exception:
            # Of many kinds, with the value in their texts.
            raise ValueError("the value does not fit its schema") from None
        return out.getvalue()

    @cached_property
    def _schema(self) -> Any:
        """The schema as fastavro wants it: a record of one field, which has the same bytes."""
        pending_types: dict[str, AvroType] = {}
        field = {"name": _VALUE, "type": _described(self._root, pending_types)}
        named: dict[str, Any] = {}
        while pending_types:
            name, schema = pending_types.popitem()
            inner_types: dict[str, AvroType] = {}
            named[name] = _definition(schema, inner_types)
            pending_types |= {
                other: definition for other, definition in inner_types.items() if other not in named
            }
        return fastavro.parse_schema({"type": "record", "name": _RECORD, "fields": [field]}, named)


def compile_avro(source: SchemaSource) -> AvroSchema:
    """Compile an Avro schema.

    Raises:
        InvalidSchemaError: It is not an Avro schema, refers to a missing type, or is too large.
    """
    return AvroSchema(parse(source.text, dict(source.references)))


def _described(schema: AvroType, named: dict[str, AvroType]) -> Any:
    """Return a type as JSON; a named one as its name, after it is added to `named`."""
    if schema.name:
        named[schema.name_in_values] = schema
        return schema.name_in_values
    inner = [_described(inner_schema, named) for inner_schema in schema.inner]
    if schema.kind == "union":
        return inner
    if schema.kind == "array":
        return {"type": "array", "items": inner[0]}
    if schema.kind == "map":
        return {"type": "map", "values": inner[0]}
    return schema.kind


def _definition(schema: AvroType, named: dict[str, AvroType]) -> Any:
    """Return a named type as JSON; those in it as their names, after they are added to `named`."""
    described: dict[str, Any] = {"type": schema.kind, "name": schema.name_in_values}
    if schema.kind == "enum":
        return described | {"symbols": list(schema.names)}
    if schema.kind == "fixed":
        return described | {"size": schema.size}
    fields = zip(schema.names, schema.inner, strict=True)
    return described | {
        "fields": [{"name": name, "type": _described(inner, named)} for name, inner in fields]
    }

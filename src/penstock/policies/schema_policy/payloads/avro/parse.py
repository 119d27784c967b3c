"""The text of an Avro schema, and the texts that it refers to, made into types.

Names are looked up after all definitions are known, so that the order of references does not
count and they may lead back to each other. What a payload's bytes do not depend on is passed over:
defaults, aliases, documentation, logical types. Registries hold schemas with defaults that only
some libraries accept.

The rules of names are those of `org.apache.avro.Schema.Parser` without validation of names
(`NameValidator.NO_VALIDATION`), with which Confluent's `AvroSchema` reads registered schemas:
any text that is not empty. Registries hold names with `$` (of Java's nested classes) and `-`. A
name without a dot belongs to the namespace around it, and of none where that has no such name.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any, Final

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.fields.tree import read_inline_rules, read_inline_tags
from penstock.policies.schema_policy.payloads.avro.types import (
    MAX_LEVELS,
    PRIMITIVES,
    AvroType,
    measure,
)

MAX_TYPES: Final = 200_000
"""How many fields, branches and types a schema may have."""
_MAX_SHOWN: Final = 100
_MAX_SIZE: Final = 2**31 - 1


def parse(text: str, references: dict[str, str]) -> AvroType:
    """Return the type of a schema.

    Args:
        references: The texts of all that it refers to, by name.

    Raises:
        InvalidSchemaError: It is not an Avro schema, refers to a missing type, or is too large.
    """
    parser = _Parser()
    for other in dict.fromkeys(references.values()):
        if other != text:
            parser.add(other)
    return parser.finish(text)


class _Parser:
    def __init__(self) -> None:
        self._named_types: dict[str, AvroType] = {}
        self._unresolved_types: list[tuple[AvroType, int, str, str]] = []
        self._unions: list[AvroType] = []
        self._count = 0

    def add(self, text: str) -> AvroType:
        """Read the definitions of a text; the result has the text's own type inside."""
        holder = AvroType("text")
        self._inner(holder, _loaded(text), "", 1)
        return holder

    def finish(self, text: str) -> AvroType:
        holder = self.add(text)
        for owner, position, name, namespace in self._unresolved_types:
            owner.inner[position] = self._found(name, namespace)
        for union in self._unions:
            _check_union(union)
        measure([schema for schema in self._named_types.values() if schema.kind == "record"])
        return holder.inner[0]

    def _found(self, name: str, namespace: str) -> AvroType:
        full = f"{namespace}.{name}" if namespace and "." not in name else name
        named_type = self._named_types.get(full) or self._named_types.get(name)
        if named_type is None:
            raise InvalidSchemaError(f"it refers to {_shown(full)}, which is not defined")
        return named_type

    def _inner(self, owner: AvroType, schema: Any, namespace: str, level: int) -> None:
        """Add the type of a schema to `owner.inner`."""
        self._count += 1
        if self._count > MAX_TYPES:
            raise InvalidSchemaError(f"it has more than {MAX_TYPES} types")
        if level > MAX_LEVELS:
            raise InvalidSchemaError(f"it has more than {MAX_LEVELS} levels of types")
        if isinstance(schema, list):
            union = AvroType("union")
            owner.inner.append(union)
            self._unions.append(union)
            for branch in schema:
                self._inner(union, branch, namespace, level + 1)
        elif isinstance(schema, dict):
            self._object(owner, schema, namespace, level)
        elif isinstance(schema, str):
            self._name(owner, schema, namespace)
        else:
            raise InvalidSchemaError("a type is a name, an object or a list of types")

    def _name(self, owner: AvroType, name: str, namespace: str) -> None:
        primitive = PRIMITIVES.get(name)
        if primitive is None:
            self._unresolved_types.append((owner, len(owner.inner), name, namespace))
            primitive = PRIMITIVES["null"]  # until all names are known
        owner.inner.append(primitive)

    def _object(self, owner: AvroType, schema: dict[str, Any], namespace: str, level: int) -> None:
        kind = schema.get("type")
        if kind in ("record", "error"):
            self._record(owner, schema, namespace, level)
        elif kind == "enum":
            enum = self._define(owner, "enum", schema, namespace)[0]
            enum.names = _texts(schema.get("symbols"), f"the symbols of {_shown(enum.name)}")
        elif kind == "fixed":
            fixed = self._define(owner, "fixed", schema, namespace)[0]
            fixed.size = _size(schema.get("size"), fixed.name)
            fixed.empty = int(fixed.size == 0)
            fixed.logical = schema if "logicalType" in schema else None
        elif kind in ("array", "map"):
            keyword = "items" if kind == "array" else "values"
            if keyword not in schema:
                raise InvalidSchemaError(f"a type {kind} has no {keyword}")
            collection = AvroType(kind)
            owner.inner.append(collection)
            self._inner(collection, schema[keyword], namespace, level + 1)
        elif kind is None:
            raise InvalidSchemaError("an object has no type")
        elif "logicalType" in schema and kind in PRIMITIVES:
            owner.inner.append(replace(PRIMITIVES[kind], logical=schema))
        else:
            self._inner(owner, kind, namespace, level + 1)

    def _record(self, owner: AvroType, schema: dict[str, Any], namespace: str, level: int) -> None:
        record, namespace = self._define(owner, "record", schema, namespace)
        fields = schema.get("fields")
        if not isinstance(fields, list) or not all(isinstance(field, dict) for field in fields):
            raise InvalidSchemaError(f"the fields of {_shown(record.name)} are not a list of them")
        record.names = _texts(
            [field.get("name") for field in fields], f"the names of fields of {_shown(record.name)}"
        )
        _declare(record, "", schema)
        for field in fields:
            if "type" not in field:
                raise InvalidSchemaError(f"a field of {_shown(record.name)} has no type")
            _declare(record, field["name"], field)
            self._inner(record, field["type"], namespace, level + 1)

    def _define(
        self, owner: AvroType, kind: str, schema: dict[str, Any], namespace: str
    ) -> tuple[AvroType, str]:
        """Add a named type, and return it with the namespace for its content."""
        full = full_name(schema, namespace)
        if not full:
            raise InvalidSchemaError(f"a type {kind} has no name")
        if full in self._named_types:
            raise InvalidSchemaError(f"{_shown(full)} is defined twice")
        if full in PRIMITIVES:
            raise InvalidSchemaError(f"{full} is the name of a primitive type")
        named_type = self._named_types[full] = AvroType(kind, full)
        owner.inner.append(named_type)
        return named_type, full.rpartition(".")[0]


def full_name(schema: dict[str, Any], namespace: str) -> str:
    """Return the full name of a named type; empty where it has none.

    Args:
        schema: The JSON object that defines it.
        namespace: That of the enclosing type.
    """
    name, own_namespace = schema.get("name"), schema.get("namespace")
    if not isinstance(name, str) or name.endswith("."):
        return ""
    if "." in name:
        return name.removeprefix(".")
    if isinstance(own_namespace, str):
        namespace = own_namespace
    return f"{namespace}.{name}" if namespace and name else name


def _declare(record: AvroType, name: str, schema: dict[str, Any]) -> None:
    """Keep what Confluent's properties say of a record (`name` is empty) or of a field."""
    tags = read_inline_tags(schema.get("confluent:tags"))
    rules = read_inline_rules(schema.get("confluent:rules"))
    if tags and name:
        record.tags[name] = tags
    if rules:
        record.rules[name] = rules


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        # A JSONDecodeError contains no value: the expected character, and the position.
        raise InvalidSchemaError(f"it is not JSON: {error}") from None


def _texts(names: Any, what: str) -> tuple[str, ...]:
    if not isinstance(names, list) or not all(name and isinstance(name, str) for name in names):
        raise InvalidSchemaError(f"{what} are not a list of names")
    if len(set(names)) < len(names):
        raise InvalidSchemaError(f"{what} are not different")
    return tuple(names)


def _size(size: Any, name: str) -> int:
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= _MAX_SIZE:
        raise InvalidSchemaError(
            f"the size of {_shown(name)} is not a number from 0 to {_MAX_SIZE}"
        )
    return size


def _check_union(union: AvroType) -> None:
    if any(branch.kind == "union" for branch in union.inner):
        raise InvalidSchemaError("a union has a union as a branch")
    counts = Counter(branch.name or branch.kind for branch in union.inner)
    for name, count in counts.most_common(1):
        if count > 1:
            raise InvalidSchemaError(f"a union has {_shown(name)} twice")


def _shown(name: str) -> str:
    shown = "".join(
        character if character.isprintable() else "?" for character in name[:_MAX_SHOWN]
    )
    return shown if len(name) <= _MAX_SHOWN else f"{shown}..."

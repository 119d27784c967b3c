"""The fields of an Avro schema."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.fields.tree import (
    Field,
    Node,
    read_inline_rules,
    read_inline_tags,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.policies.schema_policy.payloads.compiled import SchemaSource
    from penstock.policies.schema_policy.tags import TagPatterns


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_PRIMITIVES: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    "null": ("NULL", lambda value: value is None),
    "boolean": ("BOOLEAN", lambda value: isinstance(value, bool)),
    "int": ("INT", _is_integer),
    "long": ("LONG", _is_integer),
    "float": ("FLOAT", _is_number),
    "double": ("DOUBLE", _is_number),
    "bytes": ("BYTES", lambda value: isinstance(value, bytes)),
    "string": ("STRING", lambda value: isinstance(value, str)),
}


def read_fields(source: SchemaSource, patterns: TagPatterns) -> Node:
    """Return the fields of an Avro schema.

    Args:
        source: The schema, which `compile_schema` has found to be valid, and what it refers to.
        patterns: The tags that stand beside the schema.

    Raises:
        InvalidSchemaError: It is no Avro schema.
    """
    try:
        reader = _Reader(patterns)
        for text in source.references.values():
            reader.collect(json.loads(text), "")
        schema = json.loads(source.text)
        reader.collect(schema, "")
        return reader.node(schema, "")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, InvalidSchemaError):
            raise
        raise InvalidSchemaError("the fields of the Avro schema cannot be read") from None


class _Reader:
    def __init__(self, patterns: TagPatterns) -> None:
        self._patterns = patterns
        self._definitions: dict[str, tuple[Any, str]] = {}
        self._nodes: dict[str, Node] = {}

    def collect(self, schema: Any, namespace: str) -> None:
        """Remember the named types, which may be used before and after where they stand."""
        if isinstance(schema, list):
            for branch in schema:
                self.collect(branch, namespace)
        elif isinstance(schema, dict):
            kind = schema["type"]
            if kind in ("record", "error", "enum", "fixed"):
                name = _full_name(schema["name"], schema.get("namespace", namespace))
                self._definitions.setdefault(name, (schema, _namespace_of(name)))
                for field in schema.get("fields", ()):
                    self.collect(field["type"], _namespace_of(name))
            elif kind == "array":
                self.collect(schema["items"], namespace)
            elif kind == "map":
                self.collect(schema["values"], namespace)
            else:
                self.collect(kind, namespace)

    def node(self, schema: Any, namespace: str) -> Node:
        if isinstance(schema, list):
            branches = [self.node(branch, namespace) for branch in schema]
            return Node(
                "COMBINED",
                alternatives=branches,
                nullable=any(branch.nullable for branch in branches),
                fits=lambda value: any(branch.fits(value) for branch in branches),
            )
        if isinstance(schema, str):
            return self._named(schema, namespace)
        kind = schema["type"]
        if kind == "array":
            items = self.node(schema["items"], namespace)
            return Node("ARRAY", items=items, fits=lambda value: isinstance(value, list))
        if kind == "map":
            values = self.node(schema["values"], namespace)
            return Node("MAP", values=values, fits=lambda value: isinstance(value, dict))
        if kind in ("record", "error", "enum", "fixed"):
            return self._named(_full_name(schema["name"], schema.get("namespace", namespace)), "")
        node = self.node(kind, namespace)
        if "logicalType" in schema and kind in _PRIMITIVES:  # a node of its own
            node.logical = schema
        return node

    def _named(self, name: str, namespace: str) -> Node:
        primitive = _PRIMITIVES.get(name)
        if primitive is not None:
            type_name, fits = primitive
            return Node(type_name, nullable=name == "null", fits=fits)
        full_name = _full_name(name, namespace)
        if full_name not in self._definitions:
            full_name = name
        node = self._nodes.get(full_name)
        if node is None:
            node = self._nodes[full_name] = Node(name=full_name)
            self._define(node, *self._definitions[full_name])
        return node

    def _define(self, node: Node, schema: Any, namespace: str) -> None:
        if schema["type"] == "enum":
            symbols = frozenset(schema["symbols"])
            node.zero = schema["symbols"][0]
            node.type_name = "ENUM"
            node.fits = lambda value: isinstance(value, str) and value in symbols
        elif schema["type"] == "fixed":
            size = schema["size"]
            node.type_name = "FIXED"
            node.fits = lambda value: isinstance(value, bytes) and len(value) == size
            node.zero = bytes(size)
            node.logical = schema if "logicalType" in schema else None
        else:
            node.type_name = "RECORD"
            node.rules = read_inline_rules(schema.get("confluent:rules"))
            names = frozenset(field["name"] for field in schema["fields"])
            node.fits = lambda value: isinstance(value, dict) and value.keys() == names
            for field in schema["fields"]:
                full_name = f"{node.name}.{field['name']}"
                node.fields.append(
                    Field(
                        field["name"],
                        full_name,
                        self.node(field["type"], namespace),
                        read_inline_tags(field.get("confluent:tags"))
                        | self._patterns.of(full_name),
                        read_inline_rules(field.get("confluent:rules")),
                    )
                )


def _full_name(name: str, namespace: str | None) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _namespace_of(full_name: str) -> str:
    return full_name.rpartition(".")[0]

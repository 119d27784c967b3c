"""The fields of an Avro schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.policies.schema_policy.fields.tree import Field, Node
from penstock.policies.schema_policy.payloads.avro.parse import parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.policies.schema_policy.payloads.avro.types import AvroType
    from penstock.policies.schema_policy.payloads.compiled import SchemaSource
    from penstock.policies.schema_policy.tags import TagPatterns


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_FITS: Final[dict[str, Callable[[Any], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "int": _is_integer,
    "long": _is_integer,
    "float": _is_number,
    "double": _is_number,
    "bytes": lambda value: isinstance(value, bytes),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "map": lambda value: isinstance(value, dict),
}


def read_fields(source: SchemaSource, patterns: TagPatterns) -> Node:
    """Return the fields of an Avro schema.

    Args:
        source: The schema, and its references.
        patterns: The tags in the metadata of the schema.

    Raises:
        InvalidSchemaError: It is no Avro schema.
    """
    return fields_of(parse(source.text, dict(source.references)), patterns)


def fields_of(root: AvroType, patterns: TagPatterns) -> Node:
    """Return the fields of a type: a node for each type, in the same shape."""
    nodes = {id(root): Node(name=root.name_in_values)}
    avro_types = [root]
    while avro_types:
        schema = avro_types.pop()
        for inner in schema.inner:
            if id(inner) not in nodes:
                nodes[id(inner)] = Node(name=inner.name_in_values)
                avro_types.append(inner)
        below = [nodes[id(inner)] for inner in schema.inner]
        _fill(nodes[id(schema)], schema, below, patterns)
    return nodes[id(root)]


def _fill(node: Node, schema: AvroType, below: list[Node], patterns: TagPatterns) -> None:
    """Make a node of a type."""
    node.type_name = schema.kind.upper()
    node.logical = schema.logical
    node.fits = _FITS.get(schema.kind) or node.fits
    if schema.kind == "null":
        node.nullable = True
    elif schema.kind == "array":
        (node.items,) = below
    elif schema.kind == "map":
        (node.values,) = below
    elif schema.kind == "union":
        node.type_name = "COMBINED"
        node.alternatives = below
        node.nullable = any(inner.kind == "null" for inner in schema.inner)
        node.fits = lambda value: any(branch.fits(value) for branch in below)
    elif schema.kind == "record":
        _fill_record(node, schema, below, patterns)
    else:
        _fill_leaf(node, schema)


def _fill_record(node: Node, schema: AvroType, below: list[Node], patterns: TagPatterns) -> None:
    names = frozenset(schema.names)
    node.fits = lambda value: isinstance(value, dict) and value.keys() == names
    node.rules = schema.rules.get("", ())
    for name, inner in zip(schema.names, below, strict=True):
        full_name = f"{schema.name}.{name}"
        tags = schema.tags.get(name, frozenset()) | patterns.of(full_name)
        node.fields.append(Field(name, full_name, inner, tags, schema.rules.get(name, ())))


def _fill_leaf(node: Node, schema: AvroType) -> None:
    """Set the values of an enum or a fixed, and the value that means no value."""
    if schema.kind == "enum":
        symbols = frozenset(schema.names)
        node.fits = lambda value: isinstance(value, str) and value in symbols
        node.zero = next(iter(schema.names), None)
    elif schema.kind == "fixed":
        size = schema.size or 0
        node.fits = lambda value: isinstance(value, bytes) and len(value) == size
        node.zero = bytes(size)

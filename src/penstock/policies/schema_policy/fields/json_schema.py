"""The properties that a JSON Schema declares."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.fields.references import References
from penstock.policies.schema_policy.fields.tree import (
    Field,
    Node,
    read_inline_rules,
    read_inline_tags,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.policies.schema_policy.payloads.compiled import SchemaSource
    from penstock.policies.schema_policy.tags import TagPatterns

_NODES_MOST: Final = 20_000
_DEEPEST: Final = 100
_TYPES: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    "object": ("RECORD", lambda value: isinstance(value, dict)),
    "array": ("ARRAY", lambda value: isinstance(value, list)),
    "string": ("STRING", lambda value: isinstance(value, str)),
    "integer": (
        "INT",
        lambda value: (
            (isinstance(value, int) and not isinstance(value, bool))
            or (isinstance(value, float) and value.is_integer())
        ),
    ),
    "number": (
        "DOUBLE",
        lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    ),
    "boolean": ("BOOLEAN", lambda value: isinstance(value, bool)),
    "null": ("NULL", lambda value: value is None),
}


def read_fields(source: SchemaSource, patterns: TagPatterns, *, widely: bool) -> Node:
    """Return the properties that a JSON Schema declares.

    A `$ref` is followed within the document, and into the documents that the registry has as
    references; in a recursive schema, fields below the second turn have the paths of that turn.
    Which branch of `anyOf` and `oneOf` a value is of is decided by types, constants
    and required properties.

    Args:
        source: The schema, which `compile_schema` has found to be valid, and its references.
        patterns: The tags in the metadata of the schema.
        widely: Whether all branches apply to every value, and undeclared properties
            are included: for redaction, where it is better to replace too much. Confluent's
            rules read only declared properties, and branches that the value fits.

    Raises:
        InvalidSchemaError: It is not a JSON Schema, refers to a missing schema, or is too large.
    """
    try:
        documents = {name: json.loads(text) for name, text in source.references.items()}
        root = json.loads(source.text)
        return _NodeReader(root, documents, patterns, widely=widely).root()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, IndexError) as error:
        if isinstance(error, InvalidSchemaError):
            raise
        raise InvalidSchemaError("the properties of the JSON Schema cannot be read") from None


class _NodeReader:
    def __init__(
        self, root: Any, documents: dict[str, Any], patterns: TagPatterns, *, widely: bool
    ) -> None:
        self._root = root
        self._references = References(root, documents)
        self._patterns = patterns
        self._widely = widely
        self._nodes: dict[tuple[int, str], Node] = {}
        self._inside_of: dict[int, list[Node]] = {}

    def root(self) -> Node:
        reader = self._as_field if self._widely else self.node
        return reader(self._root, self._root, "$", 0)

    def node(self, schema: Any, document: Any, path: str, depth: int) -> Node:
        if not isinstance(schema, dict):
            return Node("COMBINED")
        if depth > _DEEPEST:
            raise InvalidSchemaError(f"the schema is deeper than {_DEEPEST} levels")
        outer = self._inside_of.setdefault(id(schema), [])
        if len(outer) > 1:
            return outer[-1]  # a recursive schema has paths without an end
        key = (id(schema), path)
        node = self._nodes.get(key)
        if node is None:
            if len(self._nodes) >= _NODES_MOST:
                raise InvalidSchemaError(f"the schema has more than {_NODES_MOST} properties")
            node = self._nodes[key] = Node()
            outer.append(node)
            self._define(node, schema, document, path, depth)
            outer.pop()
        return node

    def _define(self, node: Node, schema: Any, document: Any, path: str, depth: int) -> None:
        kinds = schema.get("type", ())
        kinds = [kinds] if isinstance(kinds, str) else list(kinds)
        node.nullable = "null" in kinds
        node.type_name = _type_name(schema, kinds)
        node.fits = _always if self._widely else _fits(schema, kinds)
        node.rules = read_inline_rules(schema.get("confluent:rules"))
        node.every = True
        for name, inner in schema.get("properties", {}).items():
            node.fields.append(self._field(name, inner, document, f"{path}.{name}", depth))
        items = schema.get("items")
        if isinstance(items, dict):
            node.items = self.node(items, document, path, depth + 1)
        for keyword in ("allOf", "anyOf", "oneOf"):
            if schema.get(keyword):
                branches = [
                    self.node(branch, document, path, depth + 1) for branch in schema[keyword]
                ]
                node.alternatives.append(
                    Node(
                        "COMBINED", alternatives=branches, every=self._widely or keyword != "oneOf"
                    )
                )
        if isinstance(schema.get("$ref"), str):
            target, home = self._references.target(schema["$ref"], document)
            node.alternatives.append(self.node(target, home, path, depth + 1))
        if not node.is_leaf:
            node.nullable |= any(branch.nullable for branch in node.alternatives)
        if self._widely:
            self._look_widely(node, schema, document, path, depth)

    def _field(self, name: str, schema: Any, document: Any, path: str, depth: int) -> Field:
        return Field(
            name,
            path,
            self.node(schema, document, path, depth + 1),
            self._inline_tags(schema, document) | self._patterns.of(path),
            read_inline_rules(schema.get("confluent:rules")) if isinstance(schema, dict) else (),
        )

    def _inline_tags(self, schema: Any, document: Any) -> frozenset[str]:
        tags: frozenset[str] = frozenset()
        node_ids: set[int] = set()
        nodes = [(schema, document)]
        while nodes:
            node, home = nodes.pop()
            if not isinstance(node, dict) or id(node) in node_ids:
                continue
            node_ids.add(id(node))
            tags |= read_inline_tags(node.get("confluent:tags"))
            if self._widely:  # those of all schemas of the same value count, too
                if isinstance(node.get("$ref"), str):
                    nodes.append(self._references.target(node["$ref"], home))
                nodes.extend(self._references.dynamic_targets(node, home))
                nodes.extend((inner, home) for inner in _of_the_same_value(node))
        return tags

    def _look_widely(self, node: Node, schema: Any, document: Any, path: str, depth: int) -> None:
        undeclared = [
            schema[keyword]
            for keyword in ("additionalProperties", "unevaluatedProperties")
            if isinstance(schema.get(keyword), dict)
        ]
        undeclared.extend(schema.get("patternProperties", {}).values())
        if undeclared:
            # The value of a property without a name is a field in a record with one field.
            node.values = _all_of(
                self._as_field(inner, document, f"{path}.*", depth) for inner in undeclared
            )
        items = [
            inner
            for keyword in ("prefixItems", "items")
            if isinstance(schema.get(keyword), list)
            for inner in schema[keyword]
        ]
        items.extend(
            schema[keyword]
            for keyword in ("items", "additionalItems", "unevaluatedItems", "contains")
            if isinstance(schema.get(keyword), dict)
        )
        if items:
            node.items = _all_of(self._as_field(inner, document, path, depth) for inner in items)
        node.alternatives.extend(
            self.node(inner, document, path, depth + 1)
            for inner in _conditional(schema)
            if isinstance(inner, dict)
        )
        node.alternatives.extend(
            self.node(target, home, path, depth + 1)
            for target, home in self._references.dynamic_targets(schema, document)
        )

    def _as_field(self, schema: Any, document: Any, path: str, depth: int) -> Node:
        """Return a node that has its own tags, for a value that is not a declared property."""
        inner = self.node(schema, document, path, depth + 1)
        tags = self._inline_tags(schema, document)
        if not tags:
            return inner
        return Node("COMBINED", fields=[Field("", path, inner, tags, is_value=True)])


def _conditional(schema: dict[str, Any]) -> Iterator[Any]:
    """Yield the schemas that may judge the same value."""
    yield from (schema.get(keyword) for keyword in ("if", "then", "else", "not"))
    yield from schema.get("dependentSchemas", {}).values()
    yield from schema.get("dependencies", {}).values()  # up to draft 7; some are lists of names


def _of_the_same_value(schema: dict[str, Any]) -> Iterator[Any]:
    """Yield the schemas within a schema that are about the same value."""
    for keyword in ("allOf", "anyOf", "oneOf"):
        yield from schema.get(keyword) or ()
    yield from _conditional(schema)


def _all_of(nodes: Any) -> Node:
    return Node("COMBINED", alternatives=list(nodes), every=True)


def _always(_value: Any) -> bool:
    return True


def _type_name(schema: Any, kinds: list[str]) -> str:
    if "const" in schema or "enum" in schema:
        return "ENUM"
    named = [kind for kind in kinds if kind != "null"]
    if len(named) == 1:
        if named[0] == "object" and not schema.get("properties"):
            return "MAP"
        return _TYPES[named[0]][0]
    if len(named) > 1:
        return "COMBINED"
    return "RECORD" if "properties" in schema else "NULL"


def _fits(schema: Any, kinds: list[str]) -> Callable[[Any], bool]:
    checks = [_TYPES[kind][1] for kind in kinds]
    required = schema.get("required", ())
    constants = {
        name: inner["const"]
        for name, inner in schema.get("properties", {}).items()
        if isinstance(inner, dict) and "const" in inner
    }
    choices = schema.get("enum")

    def fits(value: Any) -> bool:
        if checks and not any(check(value) for check in checks):
            return False
        if choices is not None and value not in choices:
            return False
        if not isinstance(value, dict):
            return True
        return all(name in value for name in required) and all(
            value[name] == constant for name, constant in constants.items() if name in value
        )

    return fits

"""Values of Avro as rules see them: without the names of branches, with logical types.

In Confluent's clients rules get the values of the producer's program: a timestamp, a decimal.
Dates, times and durations are the numbers and bytes that represent them: CEL has none of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.policies.schema_policy.fields.tree import leading_to, reachable
from penstock.policies.schema_policy.rules.logical_types import logical_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.policies.schema_policy.fields.tree import Node

    Convert = Callable[[Any, Any], Any]
    """Takes a node and a value."""


def as_it_is(node: Node | None, value: Any) -> Any:
    """Return a value unchanged, for any declaration."""
    del node
    return value


def of_logical_type(node: Node) -> Callable[[Any], Any] | None:
    """Return the conversion of a type with a logical type; None if it has none."""
    return None if node.logical is None else logical_type(node.logical)


def conversion(
    root: Node,
    *,
    logical_types: bool,
    converter_of: Callable[[Node], Callable[[Any], Any] | None] = of_logical_type,
) -> Convert:
    """Return the conversion of values that fastavro reads to values for rules.

    Args:
        root: The fields of the schema.
        logical_types: Whether logical types are read.
        converter_of: Returns the conversion of values of a type, or None.
    """
    nodes = reachable(root)
    logical = {}
    for node in nodes:
        type_conversion = converter_of(node) if logical_types else None
        if type_conversion is not None:
            logical[id(node)] = type_conversion

    def changes(node: Node) -> bool:
        return id(node) in logical or sum(bool(branch.name) for branch in node.alternatives) > 1

    ways = leading_to(nodes, lambda _field: False, changes)
    return _Conversion(ways, logical).convert if ways else as_it_is


class _Conversion:
    def __init__(self, ways: frozenset[int], logical: Mapping[int, Callable[[Any], Any]]) -> None:
        self._ways = ways
        self._logical = logical

    def convert(self, node: Node, value: Any) -> Any:
        if id(node) not in self._ways:
            return value
        if node.alternatives:
            chosen = value[1] if isinstance(value, tuple) else value
            for branch in node.alternatives_of(value):
                return self.convert(branch, chosen)
            return chosen
        logical = self._logical.get(id(node))
        if logical is not None:
            return logical(value)
        if node.items is not None and isinstance(value, list):
            return [self.convert(node.items, item) for item in value]
        if node.values is not None and isinstance(value, dict):
            return {key: self.convert(node.values, inner) for key, inner in value.items()}
        if node.fields and isinstance(value, dict):
            of_fields = {field.name: field.node for field in node.fields}
            return {key: self.convert(of_fields[key], inner) for key, inner in value.items()}
        return value

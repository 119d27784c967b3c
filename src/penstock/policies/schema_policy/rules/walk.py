"""Walks through a value along the fields of its schema, and checks conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from penstock.policies.schema_policy.fields.tree import PRIMITIVE
from penstock.policies.schema_policy.rules.values import CelValue, EvaluationError, to_cel
from penstock.policies.schema_policy.rules.variables import Variables

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.policies.schema_policy.fields.tree import Field, Node
    from penstock.policies.schema_policy.rules.avro_values import Convert


_GIVEN_MOST: Final = 64 * 1024 * 1024
"""The most characters, bytes and items of the records around fields that CEL gets for one value:
each time it converts them to its own values."""
_WHOLE: Final = "message"


class CompiledCondition(Protocol):
    """Checks a value; returns an objection or None.

    Attributes:
        reads: The variables that it reads.
    """

    reads: frozenset[str]

    def __call__(self, variables: Variables, path: str) -> str | None: ...


class LocatedConditions(NamedTuple):
    """Conditions, and the places where they are checked.

    Attributes:
        of_nodes: About a record, message or object as `this`, by the identity of its node.
        of_fields: About a field's value as `this`, by the identity of the field.
        of_leaves: About each primitive value of a field, by the identity of the field.
        ways: The nodes that lead to a condition.
    """

    of_nodes: Mapping[int, Sequence[CompiledCondition]]
    of_fields: Mapping[int, Sequence[CompiledCondition]]
    of_leaves: Mapping[int, Sequence[CompiledCondition]]
    ways: frozenset[int]


class _Outer(NamedTuple):
    """A record, message or object, and its declaration."""

    node: Node
    value: Any


class Walk:
    """A walk through a value, up to the first objection.

    Map keys are contents, so they are not in a path: `scores[*]`.
    """

    def __init__(self, conditions: LocatedConditions, convert: Convert, *, skip_null: bool) -> None:
        self._conditions = conditions
        self._convert = convert
        self._skip_null = skip_null
        self._weight = 0
        self._outer: tuple[_Outer | None, CelValue | None] = (None, None)
        # In a recursive schema with branches the ways to a value double with each of its levels.
        self._visits: set[tuple[int, int, int]] = set()

    def value_objection(self, node: Node, value: Any, path: str) -> str | None:
        """Return the first objection to a value, if any."""
        self._weight = 0
        try:
            return self.through(node, value, path)
        finally:
            self._outer = (None, None)
            self._visits.clear()

    def through(
        self,
        node: Node,
        value: Any,
        path: str,
        field: Field | None = None,
        outer: _Outer | None = None,
    ) -> str | None:
        """Return the first objection, if any.

        Args:
            node: What the value is declared to be.
            field: The field that it is in.
            outer: The record, message or object that the field is in.
        """
        if node.is_leaf:
            return self._leaf(node, value, path, field, outer)
        conditions = self._conditions
        has_leaf_conditions = field is not None and id(field) in conditions.of_leaves
        if not has_leaf_conditions and id(node) not in conditions.ways:
            return None
        if node.alternatives and isinstance(value, dict | list):
            way = id(node), id(value), id(field)
            if way in self._visits:
                return None
            self._visits.add(way)
        for alternative in node.alternatives_of(value):
            chosen = value[1] if isinstance(value, tuple) else value
            objection = self.through(alternative, chosen, path, field, outer)
            if objection is not None:
                return objection
        objection = self._inside(node, value, path, field, outer)
        if objection is not None:
            return objection
        return self._record(node, value, path) if node.fields else None

    def _inside(
        self, node: Node, value: Any, path: str, field: Field | None, outer: _Outer | None
    ) -> str | None:
        inner: Iterable[tuple[Node, Any, str]] = ()
        if node.items is not None and hasattr(value, "extend"):  # a list, or Protobuf's
            items = node.items
            inner = ((items, item, f"{path}[{index}]") for index, item in enumerate(value))
        elif node.values is not None and hasattr(value, "keys"):
            values = node.values
            inner = ((values, value[key], f"{path}[*]") for key in value)
        for part, part_value, place in inner:
            objection = self.through(part, part_value, place, field, outer)
            if objection is not None:
                return objection
        return None

    def _record(self, node: Node, value: Any, path: str) -> str | None:
        if isinstance(value, dict):
            present = [(field, value[field.name]) for field in node.fields if field.name in value]
        elif hasattr(value, "DESCRIPTOR"):
            present = [
                (field, getattr(value, field.name))
                for field in node.fields
                if not field.descriptor.has_presence or value.HasField(field.name)
            ]
        else:
            return None
        objection = self._check_inline_rules(
            self._conditions.of_nodes.get(id(node)), node, value, path
        )
        if objection is not None:
            return objection
        outer = _Outer(node, value)
        for field, inner in present:
            place = f"{path}.{field.name}" if path else field.name
            if inner is not None:
                conditions = self._conditions.of_fields.get(id(field))
                objection = self._check_inline_rules(conditions, field.node, inner, place)
                if objection is not None:
                    return objection
            objection = self.through(field.node, inner, place, field, outer)
            if objection is not None:
                return objection
        return None

    def _check_inline_rules(
        self, conditions: Sequence[CompiledCondition] | None, node: Node, value: Any, path: str
    ) -> str | None:
        if not conditions:
            return None
        try:
            variables = Variables({"this": self._convert(node, value)})
        except EvaluationError as error:
            return f"the rules within its schema have no result at {path}: {error}"
        for condition in conditions:
            objection = condition(variables, path)
            if objection is not None:
                return objection
        return None

    def _leaf(
        self, node: Node, value: Any, path: str, field: Field | None, outer: _Outer | None
    ) -> str | None:
        if field is None or node.type_name not in PRIMITIVE:
            return None
        if value is None and self._skip_null:
            return None
        conditions = self._conditions.of_leaves.get(id(field))
        if not conditions:
            return None
        if outer is not self._outer[0]:
            self._outer = (outer, None)
        return self._check_conditions(conditions, field, node, value, path)

    def _check_conditions(
        self,
        conditions: Sequence[CompiledCondition],
        field: Field,
        node: Node,
        value: Any,
        path: str,
    ) -> str | None:
        ready = {}
        try:
            converted = self._convert(node, value)
            if any(_WHOLE in condition.reads for condition in conditions):
                ready[_WHOLE] = self._around()
        except EvaluationError as error:
            return f"its rules about fields have no result at {path}: {error}"
        if ready:
            self._weight += ready[_WHOLE].weight
            if self._weight > _GIVEN_MOST:
                return "its rules about fields read a large whole too often"
        variables = Variables(
            {
                "value": converted,
                "fullName": field.full_name,
                "name": field.name,
                "typeName": node.type_name,
                "tags": sorted(field.tags),
            },
            ready,
        )
        for condition in conditions:
            objection = condition(variables, path)
            if objection is not None:
                return objection
        return None

    def _around(self) -> CelValue:
        """Return the record, message or object that the field is in, for CEL."""
        outer, cel_value = self._outer
        if cel_value is None:
            cel_value = to_cel(None if outer is None else self._convert(outer.node, outer.value))
            self._outer = (outer, cel_value)
        return cel_value

"""Values with the fields of some tags replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.policies.schema_policy.fields.tree import leading_to, reachable

if TYPE_CHECKING:
    from penstock.policies.schema_policy.fields.tree import Node

_ZEROS: Final[dict[type, Any]] = {
    bool: False,
    int: 0,
    float: 0.0,
    bytes: b"",
    list: [],
    dict: {},
}


class _OfTags:
    """The schema of both redactions.

    Args:
        root: The fields of the schema.
        tags: Fields with any of these are replaced.
        replacement: The replacement of strings.
    """

    def __init__(self, root: Node, tags: frozenset[str], replacement: str) -> None:
        self._root = root
        self._tags = tags
        self._replacement = replacement
        self._ways = leading_to(reachable(root), lambda field: not tags.isdisjoint(field.tags))

    @property
    def is_empty(self) -> bool:
        """Whether no field has any of the tags."""
        return not self.leads_on(self._root)

    def leads_on(self, node: Node) -> bool:
        """Return whether a field with any of the tags is below a node."""
        return id(node) in self._ways


class Redaction(_OfTags):
    """Replaces the values of fields with given tags, in values of Avro.

    A string becomes the replacement; anything else null where the schema lets it be null, and
    otherwise the zero of its type: 0, false, no bytes, no items, the first symbol of an enum.
    Of a record that cannot be null, each field is replaced so. null stays null.
    """

    def apply(self, value: Any) -> tuple[Any, bool]:
        """Return a value, changed in place where that is possible, and whether it changed."""
        return self._redact(self._root, value, set())

    def _redact(self, node: Node, value: Any, passed: set[tuple[int, int]]) -> tuple[Any, bool]:
        if id(node) not in self._ways:
            return value, False
        if node.alternatives and isinstance(value, dict | list):
            # In a recursive schema with branches the ways to a value double with each level.
            way = id(node), id(value)
            if way in passed:
                return value, False
            passed.add(way)
        is_changed = False
        for branch in node.alternatives_of(value):
            if isinstance(value, tuple):
                inner, is_inner_changed = self._redact(branch, value[1], passed)
                value = (value[0], inner)
            else:
                value, is_inner_changed = self._redact(branch, value, passed)
            is_changed |= is_inner_changed
        places: Any = ()
        if isinstance(value, list) and node.items is not None:
            places = ((index, node.items) for index in range(len(value)))
        elif isinstance(value, dict) and node.values is not None:
            places = ((key, node.values) for key in list(value))
        for place, inner_node in places:
            value[place], is_inner_changed = self._redact(inner_node, value[place], passed)
            is_changed |= is_inner_changed
        if node.fields:
            value, is_inner_changed = self._fields(node, value, passed)
            is_changed |= is_inner_changed
        return value, is_changed

    def _fields(self, node: Node, value: Any, passed: set[tuple[int, int]]) -> tuple[Any, bool]:
        is_changed = False
        for field in node.fields:
            if isinstance(value, dict) and field.name in value:
                inner = value[field.name]
                if not self._tags.isdisjoint(field.tags):
                    value[field.name] = self.replace(field.node, inner)
                    is_changed = True
                else:
                    value[field.name], is_inner_changed = self._redact(field.node, inner, passed)
                    is_changed |= is_inner_changed
        return value, is_changed

    def replace(self, node: Node, value: Any) -> Any:
        """Return the replacement of a value of a field with the tags.

        Args:
            node: What the field is declared to be.
        """
        if value is None:
            return None
        if isinstance(value, tuple):
            branches = list(node.alternatives_of(value))
            if node.nullable or not branches:
                return None
            return (value[0], self.replace(branches[0], value[1]))
        exact = self._exact(node, value)
        if isinstance(value, str) and exact.type_name not in {"ENUM", "FIXED"}:
            return self._replacement
        if node.nullable:
            return None
        if exact.zero is not None:
            return exact.zero
        if isinstance(value, str):
            return self._replacement
        if isinstance(value, dict) and exact.name:
            for field in exact.fields:
                value[field.name] = self.replace(field.node, value[field.name])
            return value
        zero = _ZEROS[type(value)]
        return type(zero)() if isinstance(zero, (list, dict)) else zero

    @staticmethod
    def _exact(node: Node, value: Any) -> Node:
        """Return the branch of an Avro union that a value is of."""
        if node.type_name == "COMBINED" and not node.every:
            return next(node.alternatives_of(value), node)
        return node


class MessageRedaction(_OfTags):
    """Replaces the values of fields with given tags, in Protobuf messages.

    A string becomes the replacement; any other field is cleared, so it is absent or zero. A
    required field that is no string gets its zero, and of a required message, each field is
    replaced so.
    """

    def apply(self, message: Any) -> bool:
        """Change a message; return whether it changed."""
        return self._redact(self._root, message, everything=False)

    def _redact(self, node: Node, message: Any, *, everything: bool) -> bool:
        if not everything and id(node) not in self._ways:
            return False
        is_changed = False
        present = {descriptor.name for descriptor, _value in message.ListFields()}
        for field in node.fields:
            if field.name not in present:
                continue
            if everything or not self._tags.isdisjoint(field.tags):
                self._replace(field.node, message, field.name, field.descriptor)
                is_changed = True
            else:
                is_changed |= self._inside(field.node, getattr(message, field.name))
        return is_changed

    def _inside(self, node: Node, value: Any) -> bool:
        if node.items is not None:
            items = node.items
            changes = [self._inside(items, item) for item in value]
            return any(changes)
        if node.values is not None:
            values = node.values
            changes = [self._inside(values, value[key]) for key in value]
            return any(changes)
        return bool(node.fields) and self._redact(node, value, everything=False)

    def _replace(self, node: Node, message: Any, name: str, descriptor: Any) -> None:
        required = bool(getattr(descriptor, "is_required", False))
        if node.type_name == "STRING":
            setattr(message, name, self._replacement)
        elif required and node.fields:
            self._redact(node, getattr(message, name), everything=True)
        elif required:
            setattr(message, name, descriptor.default_value)
        else:
            message.ClearField(name)

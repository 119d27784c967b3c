"""Which fields of a variable an expression reads, so that CEL is given no others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.policies.schema_policy.rules.checked import (
    Call,
    Constant,
    Loop,
    Name,
    Part,
    all_in,
    parts_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.policies.schema_policy.rules.checked import Tree

_OPERATORS: Final = frozenset({"_+_", "_-_", "_*_", "_/_", "_%_", "-_"})
Fields = dict[str, "Fields | None"]
"""Fields by name, with those that are read of each; None where all of it is read."""


def path_of(tree: Tree, variable: str) -> tuple[str, ...] | None:
    """Return the path from a variable to a part of it; None for any other tree."""
    steps: list[str] = []
    while True:
        if isinstance(tree, Name):
            return tuple(reversed(steps)) if tree.name == variable else None
        if isinstance(tree, Part):
            steps.append(tree.name)
            tree = tree.whole
        elif _is_item(tree):
            steps.append(tree.arguments[1].value)  # type: ignore[union-attr, arg-type]
            tree = tree.arguments[0]  # type: ignore[union-attr]
        else:
            return None


def fields_read(trees: Iterable[Tree], variable: str) -> Fields | None:
    """Return the fields of a variable that some expressions read; None for all of it."""
    fields: Fields = {}
    for tree in trees:
        for path in _paths(tree, variable):
            if not path:
                return None
            node = fields
            for step in path[:-1]:
                inner = node.setdefault(step, {})
                if inner is None:
                    break
                node = inner
            else:
                node[path[-1]] = None
    return fields


def divides_fields(tree: Tree) -> bool:
    """Return whether an expression divides a field by a field, neither being made a double."""
    return any(
        isinstance(part, Call)
        and part.function == "_/_"
        and all(map(_may_be_whole, part.arguments))
        for part in all_in(tree)
    )


def _may_be_whole(tree: Tree) -> bool:
    """Return whether an operand is a field, or made of fields and whole numbers."""
    if isinstance(tree, Call) and tree.function in _OPERATORS:
        return not any(map(_is_double, tree.arguments)) and any(map(_may_be_whole, tree.arguments))
    return isinstance(tree, (Name, Part)) or (isinstance(tree, Call) and tree.function == "_[_]")


def _is_double(tree: Tree) -> bool:
    if isinstance(tree, Constant):
        return isinstance(tree.value, float)
    if isinstance(tree, Call) and tree.function in _OPERATORS:
        return any(map(_is_double, tree.arguments))
    return isinstance(tree, Call) and tree.function == "double"


def only(value: Any, fields: Fields | None) -> Any:
    """Return a document with no other fields than these, so far as it is made of objects."""
    if fields is None:
        return value
    if isinstance(value, dict):
        return {name: only(value[name], inner) for name, inner in fields.items() if name in value}
    # To read a field of another type is an error for any content.
    return [] if isinstance(value, list) else value


def _is_item(tree: Tree) -> bool:
    """Return whether a tree is `x["name"]`."""
    return (
        isinstance(tree, Call)
        and tree.function == "_[_]"
        and isinstance(tree.arguments[1], Constant)
        and isinstance(tree.arguments[1].value, str)
    )


def _paths(tree: Tree, variable: str) -> list[tuple[str, ...]]:
    paths: list[tuple[str, ...]] = []
    trees = [tree]
    while trees:
        node = trees.pop()
        path = path_of(node, variable)
        if path is not None:
            paths.append(path)
            continue
        if isinstance(node, Loop) and variable in (*node.names, node.result_name):
            return [()]  # the name has another meaning there
        trees.extend(parts_of(node))
    return paths

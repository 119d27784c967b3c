"""Whether conditions can have a result for the columns of a frame.

A condition over a column that is not there, or of another type, refuses every row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.policies.rules.paths import path_of
from penstock.policies.schema_policy.rules.checked import (
    Call,
    Collection,
    Constant,
    Loop,
    Name,
    Part,
    all_in,
    parts_of,
)
from penstock.spark.rows.columns.fields import (
    BOOLEAN,
    NUMBER,
    TEXT,
    kind_of,
    missing,
    sql_of,
    type_at,
    written,
)
from penstock.spark.rows.columns.outcomes import DIFFERS, EQUALS, IN, VALUE, Outcomes, outcomes_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.policies.schema_policy.rules.checked import Tree
    from penstock.spark.rows.columns.fields import Columns

_INSTANT: Final = "a time"
_WITHOUT_ZONE: Final = frozenset({"DateType", "TimestampNTZType"})
_OF_CONSTANTS: Final[Mapping[type, str]] = {
    bool: BOOLEAN, str: TEXT, int: NUMBER, float: NUMBER,
}  # fmt: skip
_NO_NUMBERS: Final = frozenset({"NaN", "Infinity", "-Infinity"})
"""Texts that a number can be in JSON."""
_COMPARISONS: Final = frozenset({EQUALS, DIFFERS, "_<_", "_<=_", "_>_", "_>=_"})
_OF_TEXTS: Final = frozenset({"startsWith", "endsWith", "contains", "matches", "size"})


def fault_in(tree: Tree, columns: Columns, *, is_for_rows: bool) -> str | None:
    """Return why a condition cannot have a result; None if nothing says so.

    A condition that was written for these rows has to read nothing else. One that also judges
    records of a topic may, as long as it can be true: `topic != 'orders' || value.id > 0`.

    Args:
        is_for_rows: Whether it was written for these rows.

    Returns:
        A text that follows the name of the rule.
    """
    text = _unread(tree, columns) or _misfit(tree, columns)
    if text is None or is_for_rows:
        return text
    outcomes = outcomes_of(tree, _Rows(columns, looks_at_types=_looks_at_types(tree)))
    return None if Outcomes.TRUE in outcomes else text


class _Rows:
    """Facts about rows; implements `outcomes.ValueParts`."""

    def __init__(self, columns: Columns, *, looks_at_types: bool) -> None:
        self._columns = columns
        self._looks_at_types = looks_at_types

    def is_missing(self, path: tuple[str, ...]) -> bool:
        return missing(path, self._columns) is not None

    def is_misfit(self, call: Call) -> bool:
        return not self._looks_at_types and _misfit_of(call, self._columns) is not None


def _unread(tree: Tree, columns: Columns) -> str | None:
    """Return which part of the value is read and not there."""
    tested = {path for path in _paths(tree, tested=True) if path}
    for path in _paths(tree, tested=False):
        if any(path[: len(each)] == each for each in tested):
            continue
        if text := missing(path, columns):
            is_absent = text.startswith("there is no ")
            hint = f"; if it may be missing: !has({written(path)}) || ..." if is_absent else ""
            return f" reads {written(path)}, but {text}{hint}"
    return None


def _paths(tree: Tree, *, tested: bool) -> Iterator[tuple[str, ...]]:
    """Yield the paths of parts of the value that are read, or that `has()` tests."""
    trees = [tree]
    while trees:
        node = trees.pop()
        path = path_of(node, VALUE)
        if path is not None:
            if tested == (isinstance(node, Part) and node.is_tested):
                yield path
            continue
        if isinstance(node, Loop) and VALUE in (*node.names, node.result_name):
            continue  # the name has another meaning there
        trees.extend(reversed(parts_of(node)))  # in the order in which they are written


def _misfit(tree: Tree, columns: Columns) -> str | None:
    """Return what is done with a column that its type never allows."""
    if _looks_at_types(tree):
        return None
    calls = (part for part in all_in(tree) if isinstance(part, Call))
    text = next(filter(None, (_misfit_of(call, columns) for call in calls)), None)
    return None if text is None else f": {text}"


def _looks_at_types(tree: Tree) -> bool:
    return any(isinstance(each, Call) and each.function in {"type", "dyn"} for each in all_in(tree))


def _misfit_of(call: Call, columns: Columns) -> str | None:
    if not call.arguments:
        return None
    first, *more = call.arguments
    kind = _type_of(first, columns)
    name = sql_of(kind)
    column = written(path_of(first, VALUE) or ())
    if call.function in _COMPARISONS and more:
        return _compared(first, more[0], columns) or _compared(more[0], first, columns)
    if call.function == IN and isinstance(more[0], Collection):
        texts = [_compared(first, item, columns) for item in more[0].parts]
        return texts[0] if texts and all(texts) else None
    if call.function in _OF_TEXTS and kind_of(kind) in {NUMBER, BOOLEAN}:
        return f"{column} is {name}, which {call.function}() does not read"
    if call.function == "timestamp" and type(kind).__name__ in _WITHOUT_ZONE:
        return (
            f"{column} is {name}, without a zone, which timestamp() does not read; compare "
            f"the text: {column} >= '2026-01-31'"
        )
    return None


def _compared(side: Tree, other: Tree, columns: Columns) -> str | None:
    kind = _type_of(side, columns)
    own_kind, other_kind = kind_of(kind), _kind_of_other(other)
    if own_kind is None or other_kind is None or own_kind == other_kind:
        return None
    if isinstance(other, Constant) and other.value in _NO_NUMBERS and own_kind == NUMBER:
        return None
    column = written(path_of(side, VALUE) or ())
    text = f"{column} is {sql_of(kind)}, and is compared with {other_kind}"
    if other_kind == _INSTANT and type(kind).__name__ in _WITHOUT_ZONE:
        return f"{text}; compare the text: {column} >= '2026-01-31'"
    if other_kind == _INSTANT and own_kind == TEXT:
        return f"{text}; write timestamp({column})"
    return f"{text}; it is {own_kind}"


def _kind_of_other(tree: Tree) -> str | None:
    if isinstance(tree, Constant):
        return _OF_CONSTANTS.get(type(tree.value))
    if tree == Name("now") or (isinstance(tree, Call) and tree.function == "timestamp"):
        return _INSTANT
    return None


def _type_of(tree: Tree, columns: Columns) -> Any:
    """Return the type of a column, or of a field of one; None of any other tree."""
    path = path_of(tree, VALUE)
    if not path or (isinstance(tree, Part) and tree.is_tested):
        return None
    return type_at(path, columns)

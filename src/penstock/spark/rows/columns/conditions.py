"""Whether conditions can have a result for the columns of a frame.

A condition over a column that is not there, or of another type, refuses every row. The columns of a
frame are known before there is a row, so that such a condition is an error.
"""

from __future__ import annotations

from difflib import get_close_matches
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

if TYPE_CHECKING:
    from collections.abc import Collection as Names
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.policies.schema_policy.rules.checked import Tree

_VALUE: Final = "value"
_CLOSE: Final = 0.6
_TEXT, _NUMBER, _BOOLEAN, _INSTANT = "a text", "a number", "true or false", "a time"
_TIMES: Final = frozenset({"DateType", "TimestampType", "TimestampNTZType"})
_WITHOUT_ZONE: Final = frozenset({"DateType", "TimestampNTZType"})
_KINDS: Final = {
    "BooleanType": _BOOLEAN,
    **dict.fromkeys(("ByteType", "ShortType", "IntegerType", "LongType"), _NUMBER),
    **dict.fromkeys(("FloatType", "DoubleType", "DecimalType"), _NUMBER),
    **dict.fromkeys(("StringType", "CharType", "VarcharType", "BinaryType", *_TIMES), _TEXT),
}
"""What a column of a type is in a value. Of other types, nothing is said."""
_OF_CONSTANTS: Final[Mapping[type, str]] = {
    bool: _BOOLEAN, str: _TEXT, int: _NUMBER, float: _NUMBER,
}  # fmt: skip
_NO_NUMBERS: Final = frozenset({"NaN", "Infinity", "-Infinity"})
"""Texts that a number can be in JSON."""
_COMPARISONS: Final = frozenset({"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"})
_IN: Final = frozenset({"@in", "_in_"})
_OF_TEXTS: Final = frozenset({"startsWith", "endsWith", "contains", "matches", "size"})


def fault_of(
    conditions: Mapping[str, Tree], fields: Sequence[Any], others: Names[str]
) -> str | None:
    """Return why a condition cannot have a result for any row; None if nothing says so.

    Args:
        conditions: The conditions by the names of their rules.
        fields: The fields of the frame's schema in Spark.
        others: The names of columns that are not part of the value.
    """
    columns = {field.name: field.dataType for field in fields if field.name not in others}
    for name, tree in conditions.items():
        tested = {path for path in _paths(tree, tested=True) if path}
        for path in _paths(tree, tested=False):
            if any(path[: len(each)] == each for each in tested):
                continue
            if text := _missing(path, columns, others):
                return f"rules.{name} reads {_written(path)}, but {text}"
        if text := _misfit(tree, columns):
            return f"rules.{name}: {text}"
    return None


def _paths(tree: Tree, *, tested: bool) -> Iterator[tuple[str, ...]]:
    """Yield the paths of parts of the value that are read, or that `has()` tests."""
    trees = [tree]
    while trees:
        node = trees.pop()
        path = path_of(node, _VALUE)
        if path is not None:
            if tested == (isinstance(node, Part) and node.is_tested):
                yield path
            continue
        if isinstance(node, Loop) and _VALUE in (*node.names, node.result_name):
            continue  # the name has another meaning there
        trees.extend(parts_of(node))


def _missing(path: tuple[str, ...], columns: Mapping[str, Any], others: Names[str]) -> str | None:
    kind: Any = None
    for depth, step in enumerate(path):
        if depth == 0:
            names, what = columns, "column"
        elif type(kind).__name__ == "StructType":
            names, what = {field.name: field.dataType for field in kind.fields}, "field"
        elif type(kind).__name__ in {*_KINDS, "ArrayType"}:
            return f"{_written(path[:depth])} is {_sql(kind)}, which has no fields"
        else:
            return None
        if step not in names:
            if depth == 0 and step in others:
                return f"the column {step} is another part of the record, and not in the value"
            dotted = (".".join(path[depth:end]) for end in range(len(path), depth + 1, -1))
            if whole := next((each for each in dotted if each in names), None):
                return f"the {what} {whole} is {_written((*path[:depth], whole))}"
            where = f" in {_written(path[:depth])}" if depth else ""
            return f"there is no {what} {step}{where}{_hint(step, names)}; {_optional(path)}"
        kind = names[step]
    return None


def _hint(name: str, names: Mapping[str, Any]) -> str:
    lowered = {each.lower(): each for each in names}
    close = get_close_matches(name.lower(), lowered, 1, _CLOSE)
    if close:
        return f", did you mean {lowered[close[0]]}?"
    return f"; there are {', '.join(names)}" if names else ""


def _optional(path: tuple[str, ...]) -> str:
    return f"if it may be missing: !has({_written(path)}) || ..."


def _written(path: tuple[str, ...]) -> str:
    return _VALUE + "".join(f".{step}" if _is_plain(step) else f"[{step!r}]" for step in path)


def _is_plain(name: str) -> bool:
    return name.isidentifier() and name.isascii()


def _misfit(tree: Tree, columns: Mapping[str, Any]) -> str | None:
    """Return what is done with a column that its type never allows."""
    calls = [part for part in all_in(tree) if isinstance(part, Call)]
    if any(call.function in {"type", "dyn"} for call in calls):
        return None  # the condition looks at types itself
    for call in calls:
        first, *more = call.arguments or (tree,)
        kind = _type_of(first, columns)
        name = _sql(kind)
        column = _written(path_of(first, _VALUE) or ())
        if call.function in _COMPARISONS and more:
            text = _compared(first, more[0], columns) or _compared(more[0], first, columns)
            if text is not None:
                return text
        elif call.function in _IN and isinstance(more[0], Collection):
            texts = [_compared(first, item, columns) for item in more[0].parts]
            if texts and all(texts):
                return texts[0]
        elif call.function in _OF_TEXTS and _KINDS.get(_name(kind)) in {_NUMBER, _BOOLEAN}:
            return f"{column} is {name}, which {call.function}() does not read"
        elif call.function == "timestamp" and _name(kind) in _WITHOUT_ZONE:
            return (
                f"{column} is {name}, without a zone, which timestamp() does not read; compare "
                f"the text: {column} >= '2026-01-31'"
            )
    return None


def _compared(side: Tree, other: Tree, columns: Mapping[str, Any]) -> str | None:
    kind = _type_of(side, columns)
    own_kind, other_kind = _KINDS.get(_name(kind)), _kind_of(other)
    if own_kind is None or other_kind is None or own_kind == other_kind:
        return None
    if isinstance(other, Constant) and other.value in _NO_NUMBERS and own_kind == _NUMBER:
        return None
    column = _written(path_of(side, _VALUE) or ())
    text = f"{column} is {_sql(kind)}, and is compared with {other_kind}"
    if other_kind == _INSTANT and _name(kind) in _WITHOUT_ZONE:
        return f"{text}; compare the text: {column} >= '2026-01-31'"
    if other_kind == _INSTANT and own_kind == _TEXT:
        return f"{text}; write timestamp({column})"
    return f"{text}; it is {own_kind}"


def _kind_of(tree: Tree) -> str | None:
    if isinstance(tree, Constant):
        return _OF_CONSTANTS.get(type(tree.value))
    if tree == Name("now") or (isinstance(tree, Call) and tree.function == "timestamp"):
        return _INSTANT
    return None


def _type_of(tree: Tree, columns: Mapping[str, Any]) -> Any:
    """Return the type of a column, or of a field of one; None of any other tree."""
    path = path_of(tree, _VALUE)
    if not path or (isinstance(tree, Part) and tree.is_tested):
        return None
    kind = columns.get(path[0])
    for step in path[1:]:
        fields = {field.name: field.dataType for field in getattr(kind, "fields", ())}
        kind = fields.get(step)
    return kind


def _name(kind: Any) -> str:
    return type(kind).__name__


def _sql(kind: Any) -> str:
    return "" if kind is None else str(kind.simpleString()).upper().partition("<")[0]

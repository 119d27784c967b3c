"""The fields that the values of a frame's rows have: its columns, and the fields of structs."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

TEXT, NUMBER, BOOLEAN = "a text", "a number", "true or false"
_CLOSE: Final = 0.6
_NAMES_MOST: Final = 20
_KINDS: Final = {
    "BooleanType": BOOLEAN,
    **dict.fromkeys(("ByteType", "ShortType", "IntegerType", "LongType"), NUMBER),
    **dict.fromkeys(("FloatType", "DoubleType", "DecimalType"), NUMBER),
    **dict.fromkeys(("StringType", "CharType", "VarcharType", "BinaryType"), TEXT),
    **dict.fromkeys(("DateType", "TimestampType", "TimestampNTZType"), TEXT),
}
"""What a column of a type is in a value. Of other types, nothing is said."""


class Columns(NamedTuple):
    """The columns of a frame.

    Attributes:
        types: The types in Spark of those that are part of the value, by name.
        others: The names of those that are other parts of the record.
    """

    types: Mapping[str, Any]
    others: Collection[str]

    @classmethod
    def of(cls, fields: Sequence[Any], others: Collection[str]) -> Columns:
        """Return the columns of a schema.

        Args:
            fields: Its fields in Spark.
            others: The names of columns that are not part of the value.
        """
        types = {field.name: field.dataType for field in fields if field.name not in others}
        return cls(types, others)


def missing(path: tuple[str, ...], columns: Columns) -> str | None:
    """Return why no row has a part of the value; None if some may have it.

    Args:
        path: The names of the fields, from the value onward.
    """
    kind: Any = None
    for depth, step in enumerate(path):
        if depth == 0:
            names, what = columns.types, "column"
        elif type(kind).__name__ == "StructType":
            names, what = _fields(kind), "field"
        elif type(kind).__name__ in {*_KINDS, "ArrayType"}:
            return f"{written(path[:depth])} is {sql_of(kind)}, which has no fields"
        else:
            return None
        if step not in names:
            if depth == 0 and step in columns.others:
                return f"the column {step} is another part of the record, and not in the value"
            dotted = (".".join(path[depth:end]) for end in range(len(path), depth + 1, -1))
            if whole := next((each for each in dotted if each in names), None):
                return f"the {what} {whole} is {written((*path[:depth], whole))}"
            where = f" in {written(path[:depth])}" if depth else ""
            return f"there is no {what} {step}{where}{_hint(step, names)}"
        kind = names[step]
    return None


def type_at(path: tuple[str, ...], columns: Columns) -> Any:
    """Return the type in Spark of a part of the value; None if it is not known."""
    kind, *steps = columns.types.get(path[0]), *path[1:]
    for step in steps:
        kind = _fields(kind).get(step)
    return kind


def kind_of(kind: Any) -> str | None:
    """Return what a column of a type in Spark is in a value; None if nothing is said of it."""
    return _KINDS.get(type(kind).__name__)


def sql_of(kind: Any) -> str:
    """Return the name of a type in SQL, without what it consists of."""
    return "" if kind is None else str(kind.simpleString()).upper().partition("<")[0]


def written(path: tuple[str, ...]) -> str:
    """Return a path as a condition has it."""
    return "value" + "".join(f".{step}" if _is_plain(step) else f"[{step!r}]" for step in path)


def _fields(kind: Any) -> dict[str, Any]:
    return {field.name: field.dataType for field in getattr(kind, "fields", ())}


def _hint(name: str, names: Mapping[str, Any]) -> str:
    lowered = {each.lower(): each for each in names}
    close = get_close_matches(name.lower(), lowered, 1, _CLOSE)
    if close:
        return f", did you mean {lowered[close[0]]}?"
    if not names:
        return ""
    more = f" and {len(names) - _NAMES_MOST} more" if len(names) > _NAMES_MOST else ""
    return f"; there are {', '.join(list(names)[:_NAMES_MOST])}{more}"


def _is_plain(name: str) -> bool:
    return name.isidentifier() and name.isascii()

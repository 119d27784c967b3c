"""Reads the keys that a class declares (`config_keys`, `topic_configs`), which may be anything."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from penstock.policy import ConfigKey, TopicConfig

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Collection

Row = TypeVar("Row", ConfigKey, TopicConfig)

_VALUES_MAX: Final = 1000


def read_rows(
    declarations: Any, row_type: type[Row], attribute: str, *, most: int
) -> tuple[Row, ...]:
    """Read an attribute of a class.

    Args:
        declarations: The value of the attribute.
        row_type: `ConfigKey` or `TopicConfig`; the last field of either is a boolean.
        attribute: The attribute's name.
        most: How many keys there may be.

    Raises:
        ValueError: They have another form; the text begins with the attribute's name.
    """
    try:
        # The iterable may be infinite.
        rows = [row_type(*row) for row in islice(declarations, most + 1)]
        rows = [row._replace(valid_values=_sequence(row.valid_values)) for row in rows]
    except Exception:
        raise ValueError(f"{attribute} must be a sequence of {row_type.__name__}") from None
    if len(rows) > most:
        raise ValueError(f"{attribute} has more than {most} keys")
    flag = row_type._fields[-1]
    for row in rows:
        if not all(isinstance(text, str) for text in texts_of(row)):
            raise ValueError(f"{attribute}: all but {flag} must be text")
        if type(row[-1]) is not bool:
            raise ValueError(f"{attribute}: {flag} must be True or False")
    return tuple(rows)


def texts_of(row: ConfigKey | TopicConfig) -> tuple[str, ...]:
    """Return all texts of a declared key."""
    default = "" if row.default is None else row.default
    return row.name, row.type, row.documentation, *row.valid_values, default


def check_name_and_type(
    row: ConfigKey | TopicConfig, where: str, name: re.Pattern[str], types: Collection[str]
) -> None:
    """Check the name and the type of a declared key.

    Raises:
        ValueError: A row is invalid; the text begins with `where`.
    """
    if not name.fullmatch(row.name):
        raise ValueError(f"{where} is not a valid name for a key")
    if row.type not in types:
        raise ValueError(f"{where} has the type {row.type}, not one of {', '.join(types)}")


def check_values(row: ConfigKey | TopicConfig, where: str, parser: Callable[[str], object]) -> None:
    """Check that the default and the valid values of a declared key have its type.

    Raises:
        ValueError: A row is invalid; the text begins with `where`.
    """
    for value in (*row.valid_values, *(() if row.default is None else (row.default,))):
        try:
            parser(value)
        except ValueError as error:
            raise ValueError(f"{where} must be {error}; it may be {value!r}") from None


def _sequence(value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):  # a sequence of its letters is not meant
        raise TypeError
    return tuple(islice(value, _VALUES_MAX))

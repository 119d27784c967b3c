"""A schema as judges of columns take it: a policy accepts the values that fit it."""

from __future__ import annotations

from math import inf
from typing import Any, Final, NamedTuple

_OF_VALUES: Final = frozenset(
    ("$schema", "$id", "$comment", "title", "description", "default", "examples", "$defs", "type",
     "definitions", "deprecated", "readOnly", "writeOnly", "properties", "required")
)  # fmt: skip
"""Keywords that look at no property but those that they name."""
_LISTS: Final = frozenset(("allOf", "anyOf", "oneOf"))
_SINGLE: Final = frozenset(("not", "if", "then", "else"))


class ColumnSchema(NamedTuple):
    """A JSON Schema.

    Attributes:
        schema: An object, or a boolean.
        draft: 4, 6, 7, 2019 or 2020.
        formats: Whether `format` is judged.
        fields: The fields of the value that are looked at, whether it fits or not; None for all.
        longest: Only texts of no more bytes are judged by it.
    """

    schema: Any
    draft: int
    formats: bool
    fields: frozenset[str] | None
    longest: float = inf


def names_read(schema: Any) -> frozenset[str] | None:
    """Return the properties that a schema names; None if the verdict may depend on others."""
    names: set[str] = set()
    schemas = [schema]
    while schemas:
        each = schemas.pop()
        if isinstance(each, bool):
            continue
        names.update(each.get("properties", ()), each.get("required", ()))
        for word, value in each.items():
            if word in _LISTS:
                schemas += value
            elif word in _SINGLE:
                schemas.append(value)
            elif word not in _OF_VALUES:
                return None
    return frozenset(names)

"""The fields that every value must have to fit a JSON Schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    RequiredField = tuple[tuple[str, ...], tuple[str, ...]]
    """The path of a field, and its types."""

_REFERENCES_ALONE: Final = 2019
"""The first draft in which `$ref` leaves the words beside it in force."""


def required_fields(schema: Any, draft: int) -> Iterator[RequiredField]:
    """Yield the paths of fields without which no object fits, and the types that each may have.

    Only `required`, `properties`, `type` and `allOf` are read, and no reference: there may be more
    such fields. Types are empty where the schema leaves them open.
    """
    schemas: list[tuple[tuple[str, ...], Any]] = [((), schema)]
    while schemas:
        path, each = schemas.pop(0)
        if not isinstance(each, dict) or ("$ref" in each and draft < _REFERENCES_ALONE):
            continue
        properties = each.get("properties", {})
        for name in each.get("required", ()):
            inner = properties.get(name)
            types = _types(inner, draft)
            yield (*path, name), types
            if types == ("object",):  # any other value has no fields
                schemas.append(((*path, name), inner))
        schemas += ((path, part) for part in each.get("allOf", ()))


def _types(schema: Any, draft: int) -> tuple[str, ...]:
    if not isinstance(schema, dict) or ("$ref" in schema and draft < _REFERENCES_ALONE):
        return ()
    types = schema.get("type", ())
    return (types,) if isinstance(types, str) else tuple(types)

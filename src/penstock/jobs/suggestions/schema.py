"""The JSON Schema that a profile suggests: types, required fields, formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.jobs.suggestions.formats import PATTERNS

if TYPE_CHECKING:
    from penstock.jobs.suggestions.profile import Profile

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_MANY: Final = 20
"""So often a place has to be seen for its texts to have a format."""


def schema_of(profile: Profile, tolerance: float) -> dict[str, Any]:
    """Return a JSON Schema.

    Args:
        profile: The counts of the sample.
        tolerance: The share of values that may be mistakes: of types, of missing fields.
    """
    return {"$schema": DRAFT, **_schema(profile, tolerance)}


def _schema(profile: Profile, tolerance: float) -> dict[str, Any]:
    kinds = types_of(profile, tolerance)
    schema: dict[str, Any] = {}
    if kinds:
        schema["type"] = kinds[0] if len(kinds) == 1 else kinds
    string_format = format_of(profile, tolerance)
    if string_format is not None:
        schema |= {"format": string_format, "pattern": PATTERNS[string_format]}
    objects = profile.types["object"]
    if "object" in kinds and profile.fields:
        # A name that is hardly ever there is no part of the shape.
        shown = {
            name: inner
            for name, inner in profile.fields.items()
            if inner.count > objects * tolerance
        }
        required = [
            name for name, inner in shown.items() if inner.count >= objects * (1 - tolerance)
        ]
        schema["properties"] = {name: _schema(inner, tolerance) for name, inner in shown.items()}
        if required:
            schema["required"] = required
    if "array" in kinds and profile.items is not None and profile.items.count:
        schema["items"] = _schema(profile.items, tolerance)
    return schema


def types_of(profile: Profile, tolerance: float) -> list[str]:
    """Return the types of a place: the most frequent, until no more than mistakes are left."""
    types = profile.types.copy()
    if types["number"]:  # integers among others are numbers
        types["number"] += types.pop("integer", 0)
    remaining_count = profile.count
    frequent_types = []
    for kind, count in types.most_common():
        if not count or remaining_count <= profile.count * tolerance:
            break
        frequent_types.append(kind)
        remaining_count -= count
    return sorted(frequent_types)


def format_of(profile: Profile, tolerance: float) -> str | None:
    """Return the format of a place's texts, if they have any."""
    texts = profile.types["string"]
    if texts < _MANY:
        return None
    for name, count in profile.formats.most_common(1):
        if count >= texts * (1 - tolerance):
            return name
    return None

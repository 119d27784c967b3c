"""Patterns for which the library does not report that it gave up.

A pattern with look-around may go back a bounded number of times. `jsonschema-rs` takes a text that
needs more for a mismatch. That refuses the text, except where a mismatch lets it pass:
under `not`, `if` and `oneOf`, under `contains` with `maxContains`, and in `patternProperties`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import jsonschema_rs

from penstock.policies.json_schema.ecma import translated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_INVERTING: Final = ("not", "if", "oneOf")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keywords whose value has names in it, not keywords."""


def inverted_pattern(documents: Iterable[Any]) -> str | None:
    """Return a pattern that may go back, where a text that does not match it may pass.

    Args:
        documents: A schema, and all that it refers to. A reference under an inverting keyword
            counts as a reference to every pattern of theirs.

    Returns:
        The pattern, or None.
    """
    documents = list(documents)
    of_properties: set[str] = set()
    patterns: set[str] = set()
    inverted: set[str] = set()
    has_inverted_reference = False
    for document in documents:
        for keyword, value, is_inverted in _keywords(document):
            if keyword == "patternProperties" and isinstance(value, dict):
                of_properties.update(value)
            elif keyword == "pattern" and isinstance(value, str):
                patterns.add(value)
                if is_inverted:
                    inverted.add(value)
            elif keyword in _REFERENCES:
                has_inverted_reference |= is_inverted
    suspects = of_properties | (patterns if has_inverted_reference else inverted)
    return next((pattern for pattern in sorted(suspects) if not _is_linear(pattern)), None)


def _keywords(document: Any) -> Iterator[tuple[str, Any, bool]]:
    """Yield each name and value of all objects, and whether an inverting keyword is above."""
    schemas = [(document, False)]
    while schemas:
        schema, is_inverted = schemas.pop()
        if isinstance(schema, list):
            schemas += [(item, is_inverted) for item in schema]
        elif isinstance(schema, dict):
            for keyword, value in schema.items():
                yield keyword, value, is_inverted
                inverts = keyword in _INVERTING or (
                    keyword == "contains" and "maxContains" in schema
                )
                below = is_inverted or inverts
                is_map = keyword in _MAPS and isinstance(value, dict)
                schemas += [(each, below) for each in (value.values() if is_map else [value])]


def _is_linear(pattern: str) -> bool:
    try:
        jsonschema_rs.validator_for(
            {"pattern": translated(pattern, is_native=False)},
            pattern_options=jsonschema_rs.RegexOptions(),
        )
    except ValueError:
        return False
    return True

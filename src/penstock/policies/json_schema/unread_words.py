"""Words of a schema that judge nothing, although their author means that they do.

JSON Schema ignores every word that a draft does not have, so a typing error, a word of another
draft or of OpenAPI, and a keyword without its partner all accept any value.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final

from penstock.policies.json_schema.dialects import (
    APPLICATOR,
    MAPS_OF_ALL_DRAFTS,
    SCHEMAS,
    UNEVALUATED,
    VALIDATION,
)
from penstock.policies.json_schema.documents import draft_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_REFERENCES: Final = frozenset(("$ref", "$dynamicRef", "$recursiveRef"))
_JUDGE: Final = VALIDATION | APPLICATOR | UNEVALUATED | _REFERENCES | {"dependencies", "format"}
"""The keywords that judge in any draft."""
_SINCE: Final = {
    "const": 6,
    "contains": 6,
    "propertyNames": 6,
    "if": 7,
    "then": 7,
    "else": 7,
    "dependentRequired": 2019,
    "dependentSchemas": 2019,
    "unevaluatedItems": 2019,
    "unevaluatedProperties": 2019,
    "maxContains": 2019,
    "minContains": 2019,
    "$recursiveRef": 2019,
    "prefixItems": 2020,
    "$dynamicRef": 2020,
}
"""The first draft that has a keyword, where that is not the first of all."""
_UNTIL: Final = {"additionalItems": 2019, "$recursiveRef": 2019}
"""The last draft that has a keyword, where that is not the last of all."""
_NEEDS: Final = {
    "additionalItems": "items",
    "then": "if",
    "else": "if",
    "minContains": "contains",
    "maxContains": "contains",
}
"""The keyword without which another judges nothing."""
_OF_OTHERS: Final = {
    "min": "minimum",
    "max": "maximum",
    "minSize": "minLength or minItems",
    "maxSize": "maxLength or maxItems",
    "regex": "pattern",
    "allowedValues": "enum",
    "requiredProperties": "required",
    "mandatory": "required",
    "nullable": '"null" as one of the types',
}
"""Words of other languages for schemas, with the keyword that is meant."""
_SHORT: Final = frozenset(("if", "not", "then", "else"))
"""Keywords that other words are like by chance."""
_LIKE: Final = {word.lower(): word for word in sorted(_JUDGE - _SHORT)}
_NOT_LIKE: Final = frozenset(("definitions", "$defs", "format", "examples", "example"))
_ALIKE: Final = 0.8
_LAST_WITH_ONLY_REFERENCE: Final = 7
"""Up to this draft, a `$ref` stands alone."""


def unread_words(documents: Iterable[Any]) -> Iterator[str]:
    """Yield a sentence for each word that judges nothing, with its place in the document.

    Args:
        documents: Schemas with `$schema`, as `SchemaDocuments` has them.
    """
    for document in documents:
        if isinstance(document, dict):
            yield from _of_document(document, draft_of(document, 0))


def _of_document(document: dict[str, Any], draft: int) -> Iterator[str]:
    if len(document) > 1 and _JUDGE.isdisjoint(document):
        yield "it has no keyword that judges a value, so every JSON value is accepted"
        return
    subschemas: list[tuple[str, Any]] = [("", document)]
    while subschemas:
        place, schema = subschemas.pop()
        if isinstance(schema, dict):
            where = f"at {place}, " if place else ""
            yield from (f"{where}{text}" for text in _of_schema(schema, draft))
            subschemas += reversed([*_inside(place, schema, draft)])


def _of_schema(schema: dict[str, Any], draft: int) -> Iterator[str]:
    if "$ref" in schema and draft <= _LAST_WITH_ONLY_REFERENCE:
        beside = ", ".join(sorted(_JUDGE.intersection(schema) - _REFERENCES))
        if beside:
            yield f"draft {draft} ignores {beside} beside a $ref: write both into allOf"
        return
    for word in schema:
        text = _of_word(word, schema, draft)
        if text:
            yield text


def _of_word(word: str, schema: dict[str, Any], draft: int) -> str:
    """Return a sentence about a word of a schema; empty if it is what it seems to be."""
    if word not in _JUDGE:
        hint = _OF_OTHERS.get(word) or _keyword_like(word)
        return f"{word} is no keyword, and judges nothing: did you mean {hint}?" if hint else ""
    if not _SINCE.get(word, 0) <= draft <= _UNTIL.get(word, draft):
        return f"{word} is no keyword of {_named(draft)}, and judges nothing"
    needed = _NEEDS.get(word, word)
    return "" if needed in schema else f"{word} judges nothing without {needed}"


def _keyword_like(word: str) -> str:
    if word in _NOT_LIKE:
        return ""
    near: Sequence[str] = difflib.get_close_matches(word.lower(), _LIKE, n=1, cutoff=_ALIKE)
    return _LIKE[near[0]] if near else ""


def _named(draft: int) -> str:
    return {2019: "draft 2019-09", 2020: "draft 2020-12"}.get(draft, f"draft {draft}")


def _inside(place: str, schema: dict[str, Any], draft: int) -> Iterator[tuple[str, Any]]:
    """Yield the subschemas of a schema with their places."""
    for word, value in schema.items():
        if _SINCE.get(word, 0) > draft:
            continue
        if word in MAPS_OF_ALL_DRAFTS and isinstance(value, dict):
            yield from ((f"{place}/{word}/{name}", inner) for name, inner in value.items())
        elif word in SCHEMAS and isinstance(value, list):
            yield from ((f"{place}/{word}/{index}", inner) for index, inner in enumerate(value))
        elif word in SCHEMAS:
            yield f"{place}/{word}", value

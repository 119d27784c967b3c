"""Which draft a schema is of: by its `$schema`, and by a metaschema of the schema's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

DRAFTS: Final = {
    "http://json-schema.org/draft-04/schema": 4,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "https://json-schema.org/draft/2020-12/schema": 2020,
}
"""The drafts by their `$schema`; draft 4 to 7 by number, later drafts by year."""
LATEST: Final = 2020
METASCHEMAS: Final = ("http://json-schema.org/draft-", "https://json-schema.org/draft/")

_BY_ADDRESS: Final = {uri.partition("://")[2]: draft for uri, draft in DRAFTS.items()}
VALIDATION: Final = frozenset(
    [
        "type",
        "enum",
        "const",
        "multipleOf",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "maxLength",
        "minLength",
        "pattern",
        "maxItems",
        "minItems",
        "uniqueItems",
        "maxContains",
        "minContains",
        "maxProperties",
        "minProperties",
        "required",
        "dependentRequired",
    ]
)
APPLICATOR: Final = frozenset(
    [
        "prefixItems",
        "items",
        "additionalItems",
        "contains",
        "additionalProperties",
        "properties",
        "patternProperties",
        "dependentSchemas",
        "propertyNames",
        "if",
        "then",
        "else",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
    ]
)
UNEVALUATED: Final = frozenset(("unevaluatedItems", "unevaluatedProperties"))
_VOCABULARIES: Final = {
    2019: {"validation": VALIDATION, "applicator": APPLICATOR | UNEVALUATED},
    2020: {
        "validation": VALIDATION,
        "applicator": APPLICATOR,
        "unevaluated": UNEVALUATED,
    },
}
MAPS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
MAPS_OF_ALL_DRAFTS: Final = frozenset((*MAPS, "dependencies"))
"""Keywords whose value has names in it, not keywords."""
SCHEMAS: Final = (*APPLICATOR - set(MAPS), *UNEVALUATED)


class Dialect(NamedTuple):
    """What the keywords of a schema mean.

    Attributes:
        draft: A value of `DRAFTS`.
        ignored_keywords: They say nothing: the metaschema does not have their vocabulary.
    """

    draft: int
    ignored_keywords: Collection[str] = ()


def draft_of_uri(uri: object) -> int | None:
    """Return the draft of a `$schema`, with `http` or `https`, with `#` or without; or None."""
    if not isinstance(uri, str):
        return None
    scheme, _, address = uri.rstrip("#").partition("://")
    return _BY_ADDRESS.get(address) if scheme in {"http", "https"} else None


def uri_of(draft: int) -> str:
    """Return the `$schema` of a draft."""
    return next(uri for uri, own in DRAFTS.items() if own == draft)


def dialect_of(metaschema: Any) -> Dialect | None:
    """Return the dialect that a metaschema of the schema's own describes; None if unknown."""
    if not isinstance(metaschema, dict):
        return None
    draft = draft_of_uri(metaschema.get("$schema"))
    if draft is None:
        return None
    vocabularies = metaschema.get("$vocabulary")
    if not isinstance(vocabularies, dict) or draft not in _VOCABULARIES:
        return Dialect(draft)
    base = uri_of(draft).removesuffix("schema")
    ignored_keywords = (
        keywords
        for name, keywords in _VOCABULARIES[draft].items()
        if f"{base}vocab/{name}" not in vocabularies
    )
    return Dialect(draft, frozenset().union(*ignored_keywords))


def without(schema: Any, ignored: Collection[str]) -> Any:
    """Return a schema without some keywords, in its subschemas neither."""
    if not ignored or not isinstance(schema, dict):
        return schema
    new_schema = {keyword: value for keyword, value in schema.items() if keyword not in ignored}
    for keyword, value in new_schema.items():
        if keyword in MAPS and isinstance(value, dict):
            new_schema[keyword] = {name: without(inner, ignored) for name, inner in value.items()}
        elif keyword in SCHEMAS:
            new_schema[keyword] = (
                [without(inner, ignored) for inner in value]
                if isinstance(value, list)
                else without(value, ignored)
            )
    return new_schema

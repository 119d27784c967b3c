"""JSON Schemas of values in which a producer has encrypted fields (client-side field encryption).

A rule of kind TRANSFORM and type ENCRYPT makes a producer's serializer replace the strings of
tagged fields by ciphertext in base64, after they were judged there: the type stays, and the
schema's keywords about the text do not apply any more. Source: Confluent's
`FieldEncryptionExecutor`, `EncryptionExecutor` and `JsonSchema.toTransformedMessage`.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.fields.references import References
from penstock.policies.schema_policy.tags import read_patterns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.policies.schema_policy.payloads.compiled import SchemaSource
    from penstock.policies.schema_policy.registered import RegisteredSchema
    from penstock.policies.schema_policy.tags import TagPatterns

_ABOUT_TEXTS: Final = (
    "pattern",
    "minLength",
    "maxLength",
    "format",
    "enum",
    "const",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "not",
    "if",
)
"""Keywords that are not judged of an encrypted field; `then` and `else` need `if`."""
_BRANCHES: Final = ("allOf", "anyOf", "oneOf")
_DEEPEST: Final = 200
_MOST: Final = 100_000


def encrypts(rule_set: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the tags of the fields that a rule set has producers encrypt.

    Args:
        rule_set: The rule set from the registry.

    Returns:
        The tags, none of them where every field is encrypted; None where no field is.
    """
    if (rule_set.get("enableAt") or "ALL") not in ("ALL", "CLIENT"):
        return None
    tags: frozenset[str] | None = None
    rules = rule_set.get("domainRules")
    for rule in rules if isinstance(rules, list) else ():
        if not isinstance(rule, dict) or not _encrypts(rule):
            continue
        rule_tags = rule.get("tags") or []
        if not rule_tags:
            return frozenset()
        tags = (tags or frozenset()) | {tag for tag in rule_tags if isinstance(tag, str)}
    return tags


def _encrypts(rule: Mapping[str, Any]) -> bool:
    kind, mode, of_type = (str(rule.get(key)).upper() for key in ("kind", "mode", "type"))
    return (
        kind == "TRANSFORM"
        and mode in ("WRITE", "WRITEREAD")
        and of_type == "ENCRYPT"
        and rule.get("disabled") is not True
    )


def as_it_arrives(schema: RegisteredSchema, source: SchemaSource) -> SchemaSource:
    """Return the schema of values after their producer has encrypted fields.

    A definition that encrypted fields share with others is not judged of those either.

    Args:
        schema: The schema, its rules and tags.
        source: The same with all that it refers to.

    Returns:
        The source itself where nothing is encrypted, or the schema is no JSON Schema.

    Raises:
        InvalidSchemaError: The tags cannot be read.
    """
    tags = encrypts(schema.rule_set)
    if tags is None or source.schema_type != "JSON":
        return source
    try:
        root = json.loads(source.text)
        documents = {name: json.loads(text) for name, text in source.references.items()}
    except (ValueError, RecursionError):
        return source  # the code that compiles it reports the reason
    _EncryptedFields(root, documents, read_patterns(schema.metadata), tags).strip()
    return source._replace(
        text=json.dumps(root),
        references={name: json.dumps(document) for name, document in documents.items()},
    )


class _Subschema(NamedTuple):
    """A schema within a document, and how it is reached.

    Attributes:
        path: Of the values that it is about.
        is_encrypted: Whether these are encrypted.
        decided_by: The schemas whose `oneOf`, `if`, `not` or `contains` it is inside, with the
            keyword.
        depth: How many schemas lead to it.
    """

    schema: Any
    document: Any
    path: str
    is_encrypted: bool = False
    decided_by: tuple[tuple[dict[str, Any], str], ...] = ()
    depth: int = 0

    @property
    def key(self) -> tuple[object, ...]:
        """All that matters of the way to the schema."""
        decided_by = frozenset((id(schema), keyword) for schema, keyword in self.decided_by)
        return id(self.schema), self.path, self.is_encrypted, decided_by

    def inner(self, schema: Any) -> _Subschema:
        """Return the next part."""
        own = schema.get("$id") if isinstance(schema, dict) else None
        is_document = isinstance(own, str) and not own.startswith("#")
        document = schema if is_document else self.document
        return self._replace(schema=schema, document=document, depth=self.depth + 1)

    def inside(self, keyword: str) -> _Subschema:
        """Return the same part, for the schemas inside one of its keywords."""
        return self._replace(decided_by=(*self.decided_by, (self.schema, keyword)))


class _EncryptedFields:
    """Removes keywords about texts from the schemas of encrypted fields."""

    def __init__(
        self,
        root: Any,
        documents: Mapping[str, Any],
        patterns: TagPatterns,
        tags: frozenset[str],
    ) -> None:
        self._root = root
        self._references = References(root, documents)
        self._patterns = patterns
        self._tags = tags
        self._visited_parts: set[tuple[object, ...]] = set()

    def strip(self) -> None:
        """Change the documents."""
        parts = [_Subschema(self._root, self._root, "$")]
        while parts and len(self._visited_parts) < _MOST:
            part = parts.pop()
            schema, key = part.schema, part.key
            if not isinstance(schema, dict) or key in self._visited_parts or part.depth >= _DEEPEST:
                continue
            self._visited_parts.add(key)
            parts += self._same_value(part)
            parts += self._fields(part)
            if part.is_encrypted:
                _strip(schema)
                for decided, keyword in part.decided_by:
                    _loosen(decided, keyword)

    def _fields(self, part: _Subschema) -> Iterator[_Subschema]:
        """Yield the schemas of the properties of an object."""
        schema = part.schema
        for keyword in ("properties", "patternProperties"):
            properties = schema.get(keyword)
            for name, inner in properties.items() if isinstance(properties, dict) else ():
                yield self._field(part, inner, name if keyword == "properties" else "*")
        for keyword in ("additionalProperties", "unevaluatedProperties"):
            yield self._field(part, schema.get(keyword), "*")

    def _field(self, part: _Subschema, inner: Any, name: str) -> _Subschema:
        path = f"{part.path}.{name}"
        return part.inner(inner)._replace(path=path, is_encrypted=self._is_tagged(inner, path))

    def _is_tagged(self, schema: Any, path: str) -> bool:
        if not self._tags:
            return True
        inline = schema.get("confluent:tags") if isinstance(schema, dict) else None
        inline_tags = (
            {tag for tag in inline if isinstance(tag, str)} if isinstance(inline, list) else set()
        )
        return not self._tags.isdisjoint(inline_tags | self._patterns.of(path))

    def _same_value(self, part: _Subschema) -> Iterator[_Subschema]:
        """Yield the schemas of the same value, or of its items, which count as the value."""
        schema = part.schema
        for keyword in _BRANCHES:
            branches = schema.get(keyword)
            inside = part.inside(keyword) if keyword == "oneOf" else part
            for branch in branches if isinstance(branches, list) else ():
                yield inside.inner(branch)
        for keyword in ("if", "not", "contains"):
            yield part.inside(keyword).inner(schema.get(keyword))
        for keyword in ("then", "else"):
            yield part.inner(schema.get(keyword))
        for keyword in ("dependentSchemas", "dependencies"):
            dependent = schema.get(keyword)
            for inner in dependent.values() if isinstance(dependent, dict) else ():
                yield part.inner(inner)
        for keyword in ("items", "prefixItems", "additionalItems", "unevaluatedItems"):
            items = schema.get(keyword)
            for item in items if isinstance(items, list) else (items,):
                yield part.inner(item)
        for target, home in self._targets(schema, part.document):
            yield part.inner(target)._replace(document=home)

    def _targets(self, schema: dict[str, Any], document: Any) -> Iterator[tuple[Any, Any]]:
        """Yield the schemas that references lead to, each with its document."""
        with suppress(InvalidSchemaError, LookupError, TypeError, ValueError):
            # The code that compiles it reports a reference to nothing.
            if isinstance(schema.get("$ref"), str):
                yield self._references.target(schema["$ref"], document)
            yield from self._references.dynamic_targets(schema, document)


def _loosen(schema: dict[str, Any], keyword: str) -> None:
    """Keep a schema from deciding by encrypted values, such as which branch or item fits."""
    if keyword == "contains":
        schema.pop("minContains", None)
        schema.pop("maxContains", None)
    if keyword != "oneOf":
        schema.pop(keyword, None)  # without `if`, `then` and `else` say nothing
    elif "oneOf" in schema:
        schema.setdefault("allOf", []).append({"anyOf": schema.pop("oneOf")})


def _strip(schema: dict[str, Any]) -> None:
    for keyword in _ABOUT_TEXTS:
        schema.pop(keyword, None)
    _loosen(schema, "oneOf")  # what distinguished its branches may be gone

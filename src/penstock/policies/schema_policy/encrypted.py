"""JSON Schemas of values in which a producer has encrypted fields (client-side field encryption).

A rule of kind TRANSFORM and type ENCRYPT has a producer's serializer replace the strings of tagged
fields by ciphertext in base64, after they were judged there: the type stays, and what the schema
says about the text does not hold any more. Source: Confluent's `FieldEncryptionExecutor`,
`EncryptionExecutor` and `JsonSchema.toTransformedMessage`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

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
"""What is not judged of an encrypted field; without `if`, `then` and `else` say nothing."""
_BRANCHES: Final = ("allOf", "anyOf", "oneOf")
_DEEPEST: Final = 200
_MOST: Final = 100_000


def encrypts(rule_set: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the tags of the fields that a rule set has producers encrypt.

    Args:
        rule_set: As the registry gives it.

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
        given = rule.get("tags") or []
        if not given:
            return frozenset()
        tags = (tags or frozenset()) | {one for one in given if isinstance(one, str)}
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
    """Return what a value has to fit after its producer has encrypted fields.

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
        return source  # whoever compiles it says why
    _Encrypted(root, documents, read_patterns(schema.metadata), tags).strip()
    return source._replace(
        text=json.dumps(root),
        references={name: json.dumps(document) for name, document in documents.items()},
    )


class _Encrypted:
    """Takes what is about texts out of the schemas of encrypted fields."""

    def __init__(
        self,
        root: Any,
        documents: Mapping[str, Any],
        patterns: TagPatterns,
        tags: frozenset[str],
    ) -> None:
        self._root = root
        self._documents = documents
        self._patterns = patterns
        self._tags = tags
        self._seen: set[tuple[int, str, bool]] = set()

    def strip(self) -> None:
        """Change the documents."""
        waiting = [(self._root, self._root, "$", False, 0)]
        while waiting and len(self._seen) < _MOST:
            schema, document, path, is_encrypted, depth = waiting.pop()
            if not isinstance(schema, dict) or (id(schema), path, is_encrypted) in self._seen:
                continue
            self._seen.add((id(schema), path, is_encrypted))
            if depth >= _DEEPEST:
                continue
            for inner, home in self._same_value(schema, document):
                waiting.append((inner, home, path, is_encrypted, depth + 1))
            properties = schema.get("properties")
            for name, inner in properties.items() if isinstance(properties, dict) else ():
                below = f"{path}.{name}"
                waiting.append((inner, document, below, self._is_tagged(inner, below), depth + 1))
            if is_encrypted:
                _strip(schema)

    def _is_tagged(self, schema: Any, path: str) -> bool:
        if not self._tags:
            return True
        inline = schema.get("confluent:tags") if isinstance(schema, dict) else None
        given = (
            {one for one in inline if isinstance(one, str)} if isinstance(inline, list) else set()
        )
        return not self._tags.isdisjoint(given | self._patterns.of(path))

    def _same_value(self, schema: dict[str, Any], document: Any) -> Iterator[tuple[Any, Any]]:
        """Yield what is said about the same value, or about its items, which count as it does."""
        for keyword in _BRANCHES:
            branches = schema.get(keyword)
            for branch in branches if isinstance(branches, list) else ():
                yield branch, document
        for keyword in ("items", "prefixItems"):
            items = schema.get(keyword)
            for item in items if isinstance(items, list) else (items,):
                yield item, document
        reference = schema.get("$ref")
        if isinstance(reference, str):
            yield self._target(reference, document)

    def _target(self, reference: str, document: Any) -> tuple[Any, Any]:
        name, _, fragment = reference.partition("#")
        document = self._documents.get(name) if name else document
        found = document
        try:
            for step in unquote(fragment).split("/")[1:]:
                key = step.replace("~1", "/").replace("~0", "~")
                found = found[int(key)] if isinstance(found, list) else found[key]
        except (ValueError, LookupError, TypeError):
            return None, document
        return found, document


def _strip(schema: dict[str, Any]) -> None:
    for keyword in _ABOUT_TEXTS:
        schema.pop(keyword, None)
    if "oneOf" in schema:  # what told its branches apart may be gone
        branches = schema.pop("oneOf")
        schema.setdefault("allOf", []).append({"anyOf": branches})

"""References within a JSON Schema, and into the documents that it refers to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from penstock.policies.schema_policy.errors import InvalidSchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_IDENTITIES: Final = (("$id", ""), ("$anchor", "#"), ("$dynamicAnchor", "#"), ("id", ""))


class References:
    """Follows references, as pointers, anchors, names and identities of documents."""

    def __init__(self, root: Any, documents: Mapping[str, Any]) -> None:
        """Look at nothing yet.

        Args:
            documents: What it refers to, by name.
        """
        self._root = root
        self._documents = documents
        self._identities_by_document: dict[int, dict[str, Any]] = {}
        self._schemas_by_keyword: dict[tuple[str, Any], list[tuple[Any, Any]]] = {}

    def target(self, reference: str, document: Any) -> tuple[Any, Any]:
        """Return the schema that a reference leads to, and its document.

        Args:
            reference: A `$ref`.
            document: The document of the reference.

        Raises:
            InvalidSchemaError: There is no such document or anchor.
            LookupError, TypeError, ValueError: There is no such place in the document.
        """
        base, _, fragment = reference.partition("#")
        if base:
            document = self._document(base, document)
        if not fragment:
            return document, document
        if not fragment.startswith("/"):
            return self._anchored(document, fragment), document
        schema = document
        for step in unquote(fragment)[1:].split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            schema = schema[int(name)] if isinstance(schema, list) else schema[name]
        return schema, document

    def dynamic_targets(
        self, schema: Mapping[str, Any], document: Any
    ) -> Iterator[tuple[Any, Any]]:
        """Yield all possible targets of a reference whose target depends on the path to it.

        Args:
            schema: The schema that may have a `$dynamicRef` or `$recursiveRef`.

        Raises:
            InvalidSchemaError, LookupError, TypeError, ValueError: As in `target`.
        """
        reference = schema.get("$dynamicRef")
        if isinstance(reference, str):
            yield self.target(reference, document)
            yield from self._all_having("$dynamicAnchor", reference.partition("#")[2])
        if isinstance(schema.get("$recursiveRef"), str):
            yield self.target(schema["$recursiveRef"], document)
            yield from self._all_having("$recursiveAnchor", True)

    def _all_having(self, keyword: str, value: Any) -> list[tuple[Any, Any]]:
        """Return the schemas of all documents that have a keyword with a value."""
        schemas = self._schemas_by_keyword.get((keyword, value))
        if schemas is None:
            schemas = self._schemas_by_keyword[keyword, value] = [
                (schema, document)
                for document in (self._root, *self._documents.values())
                for schema in objects_in(document)
                if schema.get(keyword) == value
            ]
        return schemas

    def _document(self, base: str, document: Any) -> Any:
        for name, other in (("", self._root), *self._documents.items()):
            identity = other.get("$id", "") if isinstance(other, dict) else ""
            if base in (name, identity) or identity.rpartition("/")[2] == base:
                return other
        for other in (document, self._root, *self._documents.values()):
            schema = self._identities(other).get(base)
            if schema is not None:
                return schema
        raise InvalidSchemaError("a $ref of the JSON Schema leads to no known document")

    def _anchored(self, document: Any, anchor: str) -> Any:
        schema = self._identities(document).get(f"#{anchor}")
        if schema is None:
            raise InvalidSchemaError("a $ref of the JSON Schema leads to no known anchor")
        return schema

    def _identities(self, document: Any) -> dict[str, Any]:
        identities = self._identities_by_document.get(id(document))
        if identities is None:
            identities = self._identities_by_document[id(document)] = {}
            for schema in objects_in(document):
                for keyword, begins in _IDENTITIES:
                    if isinstance(schema.get(keyword), str):
                        identities.setdefault(begins + schema[keyword], schema)
        return identities


def objects_in(document: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects of a document."""
    nodes = [document]
    while nodes:
        node = nodes.pop()
        if isinstance(node, list):
            nodes.extend(node)
        elif isinstance(node, dict):
            yield node
            nodes.extend(node.values())

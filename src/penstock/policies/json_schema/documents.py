"""The documents that a schema consists of, wherever they are.

Inside this package each has a URI, that of the schema being the base of its references,
so that `$ref` works as for any URI. Nothing is fetched.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from typing import Any, Final
from urllib.parse import urldefrag, urljoin

from penstock.policies.json_schema.dialects import (
    DRAFTS,
    LATEST,
    Dialect,
    dialect_of,
    draft_of_uri,
    uri_of,
    without,
)

ROOT: Final = "file:///"
"""The base URI of documents that have no URI."""


class SchemaError(Exception):
    """A schema cannot be used; the text names it, and the reason."""


class SchemaDocuments(ABC):
    """The documents that a schema consists of: its own, and those that it refers to.

    Attributes:
        name: The schema's own document, for messages.
        draft: Its draft, a value of `DRAFTS`.
        uri: Its base URI: the document's, or its `$id`.
        problem: Why the last `retrieve` failed.
    """

    _other = "a schema"
    _default = LATEST
    """The draft of a schema without `$schema`."""
    ignores_unknown_formats = False
    """Whether an unknown `format` is ignored, where formats are judged."""

    def __init__(self, name: str, uri: str, schema: Any) -> None:
        """Take the schema's own document.

        Raises:
            SchemaError: Its `$schema` is of no draft that is known.
        """
        self.problem = ""
        self.name = name
        self._by_uri: dict[str, Any] = {}
        self.uri = identified(uri, schema, self._default)
        dialect = self._dialect(name, schema, Dialect(self._default))
        self.draft = dialect.draft
        self.schema = self._by_uri[self.uri] = _written(schema, dialect)
        self._own = dialect

    @abstractmethod
    def _find(self, uri: str) -> Any:
        """Return the document with a URI.

        Raises:
            SchemaError: There is none; the text has the reason.
        """

    def retrieve(self, uri: str) -> Any:
        """Return the schema that a `$ref` of a schema names; without `$schema` it gets ours.

        Args:
            uri: Absolute; a fragment does not count.

        Raises:
            SchemaError: There is no document.
        """
        uri = urldefrag(uri).url
        if uri not in self._by_uri:
            try:
                schema = self._find(uri)
                dialect = self._dialect("it", schema, self._own)
            except SchemaError as error:
                raise self.refused(uri, str(error)) from None
            # Evaluators treat documents without a draft differently.
            self._by_uri[uri] = _written(schema, dialect)
        return self._by_uri[uri]

    def _dialect(self, name: str, schema: Any, default: Dialect) -> Dialect:
        """Return the meaning of the keywords of a document.

        Raises:
            SchemaError: Its `$schema` is of no draft that is known, and there is no such document.
        """
        if not isinstance(schema, dict) or "$schema" not in schema:
            return default
        metaschema_uri = schema["$schema"]
        draft = draft_of_uri(metaschema_uri)
        if draft is not None:
            return Dialect(draft)
        return self._custom(name, metaschema_uri)

    def _custom(self, name: str, metaschema_uri: object) -> Dialect:
        """Return the dialect of a metaschema of the schema's own, which is read as a document."""
        try:
            document = self._find(urldefrag(urljoin(self.uri, str(metaschema_uri))).url)
        except SchemaError:
            document = None
        dialect = dialect_of(document)
        if dialect is None:
            raise SchemaError(
                f"{name}: $schema must be one of {', '.join(DRAFTS)}, or a document among the "
                f"schemas that has one of these, not {metaschema_uri}"
            )
        return dialect

    def refused(self, uri: str, why: str) -> SchemaError:
        """Return the error about a `$ref`, which `problem` keeps: evaluators hide it."""
        self.problem = f"{self.name}: $ref to {uri.removeprefix(ROOT)}: {why}"
        return SchemaError(self.problem)

    @property
    def names(self) -> str:
        """The schema's name, and that there are others, for messages."""
        if len(self._by_uri) == 1:
            return self.name
        return f"{self.name}, or {self._other} it refers to,"

    @property
    def documents(self) -> tuple[Any, ...]:
        """The documents that have been read so far."""
        return tuple(self._by_uri.values())

    def is_document(self, uri: str) -> bool:
        """Return whether a URI is that of a complete document that has been read."""
        return uri in self._by_uri


def parsed(name: str, data: bytes) -> Any:
    """Return the content of a document.

    Raises:
        SchemaError: It is not JSON, has a name twice, or is not a schema.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        json_object = dict(pairs)
        if len(json_object) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            twice = next(key for key, count in counts.items() if count > 1)
            raise SchemaError(f"{name} has {twice!r} twice in one object")
        return json_object

    def constant(text: str) -> None:
        raise SchemaError(f"{name} is not JSON: {text} is not a number")

    try:
        schema = json.loads(data.decode(), object_pairs_hook=unique, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{name} is not JSON: {error}") from None
    if not isinstance(schema, dict | bool):
        raise SchemaError(f"{name} is not a schema, which is an object, true or false")
    return schema


def draft_of(schema: Any, default: int) -> int:
    """Return the draft that a schema names; a default if it names no known draft."""
    draft = draft_of_uri(schema.get("$schema")) if isinstance(schema, dict) else None
    return default if draft is None else draft


def identified(uri: str, schema: Any, default: int = LATEST) -> str:
    """Return the URI by which a schema is known that is read from a URI."""
    if not isinstance(schema, dict):
        return uri
    own = schema.get("id" if draft_of(schema, default) == 4 else "$id")
    return urldefrag(urljoin(uri, own)).url if isinstance(own, str) else uri


def _written(schema: Any, dialect: Dialect) -> Any:
    """Return a schema with its draft, without keywords that its dialect does not have."""
    if not isinstance(schema, dict):
        return schema
    return {"$schema": uri_of(dialect.draft)} | {
        keyword: value
        for keyword, value in without(schema, dialect.ignored_keywords).items()
        if keyword != "$schema"
    }

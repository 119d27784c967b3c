"""The documents that one schema consists of, wherever they are.

Inside this package each has a URI, that of the schema's own being the base of what it refers to,
so that `$ref` works as for any URI. Nothing is fetched.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from typing import Any, Final
from urllib.parse import urldefrag, urljoin

DRAFTS: Final = {
    "http://json-schema.org/draft-04/schema": 4,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "https://json-schema.org/draft/2020-12/schema": 2020,
}
"""The drafts by their `$schema`; draft 4 to 7 by number, the later ones by year."""
LATEST: Final = 2020
ROOT: Final = "file:///"
"""Where the URIs of documents start that do not give themselves another one."""


class SchemaError(Exception):
    """A schema cannot be used; the text says which one and why."""


class SchemaDocuments(ABC):
    """The documents that one schema consists of: its own, and those that it refers to.

    Attributes:
        name: The schema's own document, for messages.
        schema: What is in it.
        draft: Its draft, a value of `DRAFTS`.
        uri: Its base URI: the document's, or its `$id`.
        problem: Why the last `retrieve` failed.
    """

    _other = "a schema"

    def __init__(self, name: str, uri: str, schema: Any) -> None:
        """Take the schema's own document.

        Raises:
            SchemaError: Its `$schema` is of no draft that is known.
        """
        self.problem = ""
        self.name = name
        self.schema = schema
        self.draft = draft_of(name, schema)
        self.uri = identified(uri, schema)
        self._by_uri: dict[str, Any] = {self.uri: schema}

    @abstractmethod
    def _find(self, uri: str) -> Any:
        """Return the document with a URI.

        Raises:
            SchemaError: There is none; the text says why.
        """

    def retrieve(self, uri: str) -> Any:
        """Return the schema that a `$ref` of a schema names; without `$schema` it gets ours.

        Args:
            uri: Absolute; a fragment does not count.

        Raises:
            SchemaError: There is none.
        """
        uri = urldefrag(uri).url
        if uri not in self._by_uri:
            try:
                found = self._find(uri)
                draft_of("it", found, self.draft)
                # Evaluators differ in what they take a document for that does not say its draft.
                dialect = {"$schema": self._dialect}
                self._by_uri[uri] = dialect | found if isinstance(found, dict) else found
            except SchemaError as error:
                raise self.refused(uri, str(error)) from None
        return self._by_uri[uri]

    def refused(self, uri: str, why: str) -> SchemaError:
        """Return the error about a `$ref`, which `problem` keeps: evaluators hide it."""
        self.problem = f"{self.name}: $ref to {uri.removeprefix(ROOT)}: {why}"
        return SchemaError(self.problem)

    @property
    def _dialect(self) -> str:
        return next(uri for uri, draft in DRAFTS.items() if draft == self.draft)

    @property
    def names(self) -> str:
        """The schema's name, and that there are others, for messages."""
        if len(self._by_uri) == 1:
            return self.name
        return f"{self.name}, or {self._other} it refers to,"

    def is_document(self, uri: str) -> bool:
        """Return whether a URI is that of a whole document that has been read."""
        return uri in self._by_uri

    @property
    def has_other_drafts(self) -> bool:
        """Whether a document that has been read is of another draft than the schema itself."""
        return any(
            draft_of(uri, one, self.draft) != self.draft for uri, one in self._by_uri.items()
        )


def parsed(name: str, data: bytes) -> Any:
    """Return what a document says.

    Raises:
        SchemaError: It is not JSON, has a name twice, or is not a schema.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            twice = next(key for key, count in counts.items() if count > 1)
            raise SchemaError(f"{name} has {twice!r} twice in one object")
        return found

    def constant(text: str) -> None:
        raise SchemaError(f"{name} is not JSON: {text} is no number")

    try:
        schema = json.loads(data.decode(), object_pairs_hook=unique, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{name} is not JSON: {error}") from None
    if not isinstance(schema, dict | bool):
        raise SchemaError(f"{name} is not a schema, which is an object, true or false")
    return schema


def draft_of(name: str, schema: Any, default: int = LATEST) -> int:
    """Return the draft of a document, a value of `DRAFTS`.

    Raises:
        SchemaError: Its `$schema` is of no draft that is known.
    """
    if not isinstance(schema, dict) or "$schema" not in schema:
        return default
    given = schema["$schema"]
    draft = DRAFTS.get(given.rstrip("#")) if isinstance(given, str) else None
    if draft is None:
        raise SchemaError(f"{name}: $schema must be one of {', '.join(DRAFTS)}, not {given}")
    return draft


def identified(uri: str, schema: Any) -> str:
    """Return the URI by which a schema is known that is read from a URI."""
    if not isinstance(schema, dict):
        return uri
    own = schema.get("$id", schema.get("id") if "draft-04" in str(schema.get("$schema")) else None)
    return urldefrag(urljoin(uri, own)).url if isinstance(own, str) else uri

"""The schema files of a folder: read once, and never anything outside it.

Inside this package a file has a URI whose root is the folder, `file:///order.schema.json`, so
that `$ref` works as for any URI: from there no path leads above the folder, and nothing is
fetched. A file is also found by the `$id` that it gives itself.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote, urldefrag, urljoin, urlsplit

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES: Final = 4 * 1024 * 1024
"""The size of the largest schema file that is read."""
DRAFTS: Final = {
    "http://json-schema.org/draft-04/schema": 4,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "https://json-schema.org/draft/2020-12/schema": 2020,
}
"""The drafts by their `$schema`; draft 4 to 7 by number, the later ones by year."""
LATEST: Final = 2020
_ROOT: Final = "file:///"
_SEARCHED_FILES: Final = 1000


class SchemaError(Exception):
    """A schema cannot be used; the text says which file and why."""


class SchemaFiles:
    """The files that one schema consists of: its own, and those that it refers to.

    Attributes:
        name: The schema's own file, relative to the folder.
        schema: What is in it.
        draft: Its draft, a value of `DRAFTS`.
        uri: Its base URI: the file's, or its `$id`.
        problem: Why the last `retrieve` failed.
    """

    def __init__(self, folder: Path, name: str) -> None:
        """Read a schema's own file.

        Args:
            folder: The folder of schemas.
            name: A path below it.

        Raises:
            SchemaError: It is not a readable file below the folder, or is not a schema.
        """
        self._folder = folder.resolve()
        self._by_uri: dict[str, Any] = {}
        self.problem = ""
        self.name = name
        self.schema = self._read(name)
        self.draft = _draft(name, self.schema)
        self.uri = _identified(urljoin(_ROOT, quote(name)), self.schema)
        self._by_uri[self.uri] = self.schema

    def retrieve(self, uri: str) -> Any:
        """Return the schema that a `$ref` of a schema names; without `$schema` it gets ours.

        Args:
            uri: Absolute; a fragment does not count.

        Raises:
            SchemaError: There is none in the folder.
        """
        uri = urldefrag(uri).url
        if uri not in self._by_uri:
            try:
                found = self._find(uri)
                _draft("it", found, self.draft)
                # Evaluators differ in what they take a file for that does not say its draft.
                dialect = {"$schema": self._dialect}
                self._by_uri[uri] = dialect | found if isinstance(found, dict) else found
            except SchemaError as error:
                raise self.refused(uri, str(error)) from None
        return self._by_uri[uri]

    def refused(self, uri: str, why: str) -> SchemaError:
        """Return the error about a `$ref`, which `problem` keeps: evaluators hide it."""
        self.problem = f"{self.name}: $ref to {uri.removeprefix(_ROOT)}: {why}"
        return SchemaError(self.problem)

    @property
    def _dialect(self) -> str:
        return next(uri for uri, draft in DRAFTS.items() if draft == self.draft)

    @property
    def names(self) -> str:
        """The file's name, and that there are others, for messages."""
        return self.name if len(self._by_uri) == 1 else f"{self.name}, or a file it refers to,"

    def is_file(self, uri: str) -> bool:
        """Return whether a URI is that of a whole file that has been read."""
        return uri in self._by_uri

    @property
    def has_other_drafts(self) -> bool:
        """Whether a file that has been read is of another draft than the schema itself."""
        return any(_draft(uri, one, self.draft) != self.draft for uri, one in self._by_uri.items())

    def _find(self, uri: str) -> Any:
        if uri.startswith(_ROOT):
            return self._read(unquote(urlsplit(uri).path).lstrip("/"))
        for count, path in enumerate(sorted(self._folder.rglob("*.json"))):
            if count == _SEARCHED_FILES:
                break
            name = str(path.relative_to(self._folder))
            try:
                found = self._read(name)
            except SchemaError:
                continue
            if _identified(urljoin(_ROOT, quote(name)), found) == uri:
                return found
        raise SchemaError(
            "no file in the folder of schemas has this $id, and schemas are never fetched"
        )

    def _read(self, name: str) -> Any:
        try:
            path = (self._folder / name).resolve()
            if not path.is_relative_to(self._folder):
                raise SchemaError(f"{name} is outside the folder of schemas")
            if path.exists() and not path.is_file():
                raise SchemaError(f"{name} is not a file")
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            raise SchemaError(f"{name}: there is no such file in the folder of schemas") from None
        except (OSError, ValueError) as error:
            raise SchemaError(
                f"{name} cannot be read: {getattr(error, 'strerror', None) or error}"
            ) from None
        if len(data) > MAX_BYTES:
            raise SchemaError(f"{name} is larger than {MAX_BYTES} bytes")
        return _parsed(name, data)


def _parsed(name: str, data: bytes) -> Any:
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


def _draft(name: str, schema: Any, default: int = LATEST) -> int:
    if not isinstance(schema, dict) or "$schema" not in schema:
        return default
    given = schema["$schema"]
    draft = DRAFTS.get(given.rstrip("#")) if isinstance(given, str) else None
    if draft is None:
        raise SchemaError(f"{name}: $schema must be one of {', '.join(DRAFTS)}, not {given}")
    return draft


def _identified(uri: str, schema: Any) -> str:
    """Return the URI by which a schema is known that is read from a URI."""
    if not isinstance(schema, dict):
        return uri
    own = schema.get("$id", schema.get("id") if "draft-04" in str(schema.get("$schema")) else None)
    return urldefrag(urljoin(uri, own)).url if isinstance(own, str) else uri

"""A schema given as a text, with the texts that it refers to, each by its name.

It is read as by Confluent's serializer for Java (`JsonSchema.rawSchema` of
`kafka-json-schema-provider`): of draft 7 where it has no `$schema`, or an unknown one.

A name is the value of `$ref`, as in the references of Confluent's Schema Registry. Nothing else
is found: no file is read and nothing is fetched.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urljoin

from penstock.policies.json_schema.dialects import Dialect
from penstock.policies.json_schema.documents import (
    ROOT,
    SchemaDocuments,
    SchemaError,
    draft_of,
    identified,
    parsed,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


class SchemaTexts(SchemaDocuments):
    """A schema and those that it refers to, as texts."""

    _default = 7
    ignores_unknown_formats = True

    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        """Read a schema's own text.

        Args:
            references: The texts of all that it refers to, by name.

        Raises:
            SchemaError: It is not a schema.
        """
        self._references = references
        super().__init__("the schema", ROOT, _parsed("the schema", text))

    def _custom(self, name: str, metaschema_uri: object) -> Dialect:
        try:
            return super()._custom(name, metaschema_uri)
        except SchemaError:
            return Dialect(self._default)

    def _find(self, uri: str) -> Any:
        if uri in self._references:
            return self._read(uri)
        if uri in self._by_id:
            return self._read(self._by_id[uri])
        # A relative name is relative to the document that uses it, which is known by its URI or
        # by its $id.
        for folder in {urljoin(base_uri, ".") for base_uri in (ROOT, *self._by_uri)}:
            if uri.startswith(folder):
                name = uri.removeprefix(folder)
                for spelling in (name, unquote(name), f"./{name}", f"/{name}"):
                    if spelling in self._references:
                        return self._read(spelling)
                for other in self._folders:
                    if other + name in self._references:
                        return self._read(other + name)
        raise SchemaError("no reference has this name, and schemas are never fetched")

    @cached_property
    def _by_id(self) -> dict[str, str]:
        """The names of references by their `$id`."""
        ids = {}
        for name, text in self._references.items():
            own = identified("", _parsed(f"the reference {name}", text), self._default)
            if own:
                ids[own] = name
        return ids

    @cached_property
    def _folders(self) -> set[str]:
        return {urljoin(uri, ".") for uri in self._by_id}

    def _read(self, name: str) -> Any:
        """Return a reference without its own `$id`: it is known by the URI that leads to it."""
        schema = _parsed(f"the reference {name}", self._references[name])
        if isinstance(schema, dict):
            schema.pop("id" if draft_of(schema, self._default) == 4 else "$id", None)
        return schema


def _parsed(name: str, text: str) -> Any:
    # Half a surrogate pair is refused, as in a file: it is not UTF-8.
    return parsed(name, text.encode(errors="surrogatepass"))

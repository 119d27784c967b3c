"""Contexts of a registry, each with its own subjects and ids.

A URL that ends with `/contexts/NAME` is of that context, any other URL of the default context. A
registry names a subject of another context than the default `:.NAME:subject`, for queries with any
URL. Source: `QualifiedSubject` and `ContextFilter` of Confluent's registry.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

DEFAULT_CONTEXT: Final = "."
_OF_URL: Final = re.compile(r"/contexts/([^/]+)/*$")


class QualifiedSubject(NamedTuple):
    """A subject and the context that it is in.

    Attributes:
        context: The context's name, which begins with a dot.
        name: The subject's name within it.
    """

    context: str
    name: str

    @classmethod
    def read(cls, text: str, context: str = DEFAULT_CONTEXT) -> QualifiedSubject:
        """Read a subject as a registry writes it.

        Args:
            context: The context that it is in where it names none.
        """
        if not text.startswith(":."):
            return cls(context, text)
        named, _, name = text[1:].partition(":")
        return cls(named, name)

    def __str__(self) -> str:
        return f":{self.context}:{self.name}"

    def within(self, context: str) -> str:
        """Write a subject for requests by the URL of a context."""
        return self.name if self.context == context else str(self)


def context_of_url(url: str) -> str:
    """Return the context that a URL is of, in a registry's spelling.

    Raises:
        ValueError: It is not a name of a context.
    """
    match = _OF_URL.search(urlsplit(url).path)
    if match is None:
        return DEFAULT_CONTEXT
    name = unquote(match[1]).removeprefix(":").removesuffix(":")
    if ":" in name:
        raise ValueError("names a context with a colon, which a context cannot have")
    return name if name.startswith(DEFAULT_CONTEXT) else DEFAULT_CONTEXT + name

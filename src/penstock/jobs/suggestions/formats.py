"""Formats of texts, recognized by their characters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_BYTE: Final = "(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
PATTERNS: Final = {
    "uuid": r"^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$",
    "date": r"^[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])$",
    "date-time": (
        r"^[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])[Tt]"
        r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})$"
    ),
    "email": r"^[^@\s]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+$",
    "ipv4": rf"^(?:{_BYTE}\.){{3}}{_BYTE}$",
}
"""Regular expressions of ECMA 262 and of Python, by JSON Schema's name of the format."""
_COMPILED: Final = {name: re.compile(pattern) for name, pattern in PATTERNS.items()}
_LONGEST: Final = 320


def formats_of(text: str) -> Iterator[str]:
    """Yield the formats that a text may be of."""
    if len(text) <= _LONGEST:
        for name, pattern in _COMPILED.items():
            if pattern.match(text) and not text.endswith("\n"):
                yield name

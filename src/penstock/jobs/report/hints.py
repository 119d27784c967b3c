"""Hints at whose producer a record comes from, without the contents of the record."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

HEADER_KEYS_MAX: Final = 100
"""The keys of a record's headers are cut after so many characters, all of them together."""
PREFIX_MAX: Final = 16
"""How many letters of a key are checked."""
NO_KEY: Final = "(no key)"
OTHER_KEY: Final = "(other)"
"""The prefix of keys that do not begin with a letter."""
_LETTERS: Final = re.compile(rb"[A-Za-z]{1,%d}" % PREFIX_MAX)


def header_keys(keys: Iterable[str]) -> str:
    """Return the keys of a record's headers as one text."""
    return ", ".join(keys)[:HEADER_KEYS_MAX]


def key_prefix(key: bytes | None) -> str:
    """Return the letters at the start of a key, by which producers often distinguish records."""
    if key is None:
        return NO_KEY
    letters = _LETTERS.match(key)
    return letters[0].decode("ascii") if letters else OTHER_KEY

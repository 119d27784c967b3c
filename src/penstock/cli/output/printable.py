"""Texts that somebody else wrote, for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return a text without anything that a terminal would obey; clients choose names."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )

"""Errors that end a command."""

from __future__ import annotations

from penstock.errors import PenstockError


class CommandError(PenstockError):
    """Ends the command with a text and an exit code."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code

"""How commands end."""

from __future__ import annotations

from enum import IntEnum

from penstock.errors import PenstockError


class ExitCode(IntEnum):
    """The exit codes of commands."""

    DONE = 0
    CHECK_FAILED = 1
    """The check failed: records or topics were refused, or more of them than a threshold."""
    WRONG_USE = 2
    """Wrong use or configuration."""
    CLUSTER_FAILED = 3
    """The cluster or Spark cannot be reached, or failed; or another trouble that may go away."""
    INTERRUPTED = 130
    """By Ctrl-C, as a shell counts it."""


class CommandError(PenstockError):
    """Ends the command with a text and an exit code."""

    def __init__(self, text: str, code: int = ExitCode.CLUSTER_FAILED) -> None:
        super().__init__(text)
        self.code = code

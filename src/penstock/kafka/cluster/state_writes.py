"""How the writes of a gateway's own state end: counted, and whether it can be written now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_FAILURES_OF_TROUBLE: Final = 2
"""One failure may be a producer that has been replaced: the next write shows whether it was."""


@dataclass(slots=True)
class StateWrites:
    """The writes to a topic that keeps state.

    Attributes:
        written: How many succeeded.
        failed: How many failed with an error.
        late: How many had no result in time.
        why_not: The error of the last write; empty if it succeeded.
    """

    where: str
    written: int = 0
    failed: int = 0
    late: int = 0
    why_not: str = ""
    _in_a_row: int = 0

    def ended(self, failure: str | None, *, is_late: bool = False) -> None:
        """Count a write.

        Args:
            failure: The error message; None if it succeeded.
            is_late: Whether it failed because it had no result in time.
        """
        if failure is None:
            self.written += 1
            self._in_a_row = 0
        else:
            self.late += is_late
            self.failed += not is_late
            self._in_a_row += 1
        self.why_not = failure or ""

    @property
    def trouble(self) -> str:
        """Why nothing can be written, in words; empty if it can, as far as is known."""
        if self._in_a_row < _FAILURES_OF_TROUBLE:
            return ""
        return f"state cannot be written to {self.where}: {self.why_not}"

"""How many refused records of a batch are explained, and how much work that may be.

A verdict comes first: a record is refused whether or not it is explained. Where a reason takes
more work than the verdict, the first `MOST` refused records of a batch get one, each within
`RECORD_MS` and all of them within `BATCH_MS`; the others get a general reason. The limit is on work
that is estimated from sizes or counted, not on a clock, so that the same batch always gets the same
texts.
"""

from __future__ import annotations

from typing import Final

MOST: Final = 100
RECORD_MS: Final = 50.0
BATCH_MS: Final = 250.0
NO_REASON: Final = "does not fit the schema"


class Explanations:
    """The explanations of a batch."""

    __slots__ = ("_left_ms", "_remaining")

    def __init__(self) -> None:
        self._remaining = MOST
        self._left_ms = BATCH_MS

    def take(self, milliseconds: float = 0.0) -> bool:
        """Return whether another refused record may be explained.

        Args:
            milliseconds: The estimate of the maximum time of its explanation; by default, that is
                known only when it is explained, and then given to `spend`.
        """
        if not self._remaining or milliseconds > min(RECORD_MS, self._left_ms):
            return False
        self._remaining -= 1
        self._left_ms -= milliseconds
        return True

    def spend(self, milliseconds: float) -> None:
        """Count the time of an explanation that was taken without an estimate."""
        self._left_ms -= milliseconds

"""Limits of the log: what clients and policies say in it, and how often."""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

    from structlog.typing import EventDict

LINES_A_SECOND: Final = 50
"""Of one event."""
FIELD_MAX: Final = 1_000
"""A text is cut here, in characters."""
ITEMS_MAX: Final = 20
"""Of a list so many are written."""
ITEM_MAX: Final = 250
"""A text in a list is cut here, in characters: a topic's name has 249 at most."""
EXCEPTION_MAX: Final = 20_000


def _cut(value: object, max_chars: int) -> object:
    if isinstance(value, str):
        return value if len(value) <= max_chars else f"{value[:max_chars]}..."
    if isinstance(value, list | tuple | set | frozenset):
        items = [_cut(item, ITEM_MAX) for item in islice(value, ITEMS_MAX)]
        return items if len(value) <= ITEMS_MAX else [*items, f"... {len(value)} in all"]
    return value


class LogLimits:
    """A processor of structlog: cuts long texts, and drops lines of an event that comes too often.

    The next line of the event that is written says how many were dropped before it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._second = 0
        self._line_counts: dict[str, int] = {}
        self._left_out: dict[str, int] = {}

    def __call__(self, _logger: object, _method: str, fields: EventDict) -> EventDict:
        """Return the line as it is written.

        Raises:
            structlog.DropEvent: It is not written.
        """
        event = fields["event"]
        second = int(self._clock())
        if second != self._second:
            self._second = second
            self._line_counts.clear()
        line_count = self._line_counts[event] = self._line_counts.get(event, 0) + 1
        if line_count > LINES_A_SECOND:
            self._left_out[event] = self._left_out.get(event, 0) + 1
            raise structlog.DropEvent
        for name, value in fields.items():
            max_chars = EXCEPTION_MAX if name == "exception" else FIELD_MAX
            fields[name] = _cut(value, max_chars)
        left_out = self._left_out.pop(event, 0)
        if left_out:
            fields["left_out"] = left_out
        return fields

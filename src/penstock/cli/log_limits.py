"""Limits of the log: what clients and policies say in it, and how often."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

    from structlog.typing import EventDict

LINES_A_SECOND: Final = 50
"""Of one event."""
FIELD_MAX: Final = 1_000
"""A text is cut here, in characters."""
EXCEPTION_MAX: Final = 20_000


class LogLimits:
    """A processor of structlog: cuts long texts, and drops lines of an event that comes too often.

    The next line of the event that is written tells how many were left out before it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._second = 0
        self._written: dict[str, int] = {}
        self._left_out: dict[str, int] = {}

    def __call__(self, _logger: object, _method: str, fields: EventDict) -> EventDict:
        """Take a line; give it as it is written.

        Raises:
            structlog.DropEvent: It is not.
        """
        event = fields["event"]
        second = int(self._clock())
        if second != self._second:
            self._second = second
            self._written.clear()
        written = self._written[event] = self._written.get(event, 0) + 1
        if written > LINES_A_SECOND:
            self._left_out[event] = self._left_out.get(event, 0) + 1
            raise structlog.DropEvent
        for name, value in fields.items():
            most = EXCEPTION_MAX if name == "exception" else FIELD_MAX
            if isinstance(value, str) and len(value) > most:
                fields[name] = f"{value[:most]}..."
        left_out = self._left_out.pop(event, 0)
        if left_out:
            fields["left_out"] = left_out
        return fields

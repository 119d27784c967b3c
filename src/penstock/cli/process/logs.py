"""The log: JSON lines on standard error, one for each event.

Nothing waits for its reader: see `penstock.queued_output`. What Python itself reports, such as an
exception that an event loop has caught, goes the same way.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import structlog

from penstock.cli.process.log_limits import LogLimits
from penstock.queued_output import QueuedOutput

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor


def set_up_logs(level: str, *, renderer: Processor | None = None) -> None:
    """Set the log up for this process.

    Args:
        level: The lowest level that is written.
        renderer: From event to text; JSON unless given.
    """
    render = renderer or structlog.processors.JSONRenderer()
    stamp = structlog.processors.TimeStamper(fmt="iso")
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            stamp,
            structlog.processors.format_exc_info,
            LogLimits(),
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )

    def lost_line(count: int) -> str:
        fields: EventDict = {"lines": count, "event": "log lines lost", "level": "error"}
        return str(render(None, "error", stamp(None, "error", fields)))

    if isinstance(sys.stderr, QueuedOutput):
        sys.stderr.lost_line = lost_line

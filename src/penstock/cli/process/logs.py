"""The log: JSON lines on standard error, one for each event."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import structlog

from penstock.cli.process.log_limits import LogLimits

if TYPE_CHECKING:
    from structlog.typing import Processor


def set_up_logs(level: str, *, renderer: Processor | None = None) -> None:
    """Set the log up for this process.

    Args:
        level: The lowest level that is written.
        renderer: From event to text; JSON unless given.
    """
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            LogLimits(),
            renderer or structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )

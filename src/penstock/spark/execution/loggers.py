"""What PySpark and py4j log while a command runs, which reports errors itself."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_OF_CONTENTS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""PySpark's, of the texts of errors: a value that cannot be cast is in them."""


@contextlib.contextmanager
def quiet_loggers() -> Iterator[None]:
    """Silence PySpark's texts of errors, and py4j's tracebacks where its JVM ends."""
    silent = _loggers_of_contents()
    for logger in silent:
        logger.disabled = True
    logging.getLogger().addFilter(_is_not_of_py4j)
    try:
        yield
    finally:
        logging.getLogger().removeFilter(_is_not_of_py4j)
        for logger in silent:
            logger.disabled = False


def _loggers_of_contents() -> list[logging.Logger]:
    """Return PySpark's loggers that show contents; there are none before PySpark 4.0."""
    try:
        from pyspark.logger import PySparkLogger  # noqa: PLC0415
    except ImportError:
        return []
    return [PySparkLogger.getLogger(name) for name in _OF_CONTENTS]


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return record.module not in {"java_gateway", "clientserver"}

"""Explains a failure of Spark in one line.

The one place that reads the texts of Spark and of its Kafka connector (4.2): a failed job
reports its cause only as part of a text. `tests/spark/test_failures.py` provokes them.
"""

from __future__ import annotations

import re
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from penstock.errors import UnavailableError

_WRONG_USE: Final = (
    (re.compile(r"PATH_NOT_FOUND"), "there are no files of that name"),
    (re.compile(r"UNABLE_TO_INFER_SCHEMA|CANNOT_READ_FILE_FOOTER"), "the files are not Parquet"),
)
_FAILURES: Final = (
    (
        re.compile(
            r"UnknownTopicOrPartition|TopicAuthorizationException|This server does not host"
        ),
        "the topic is not there, or may not be used",
    ),
    (
        re.compile(r"OffsetOutOfRange|Some data may have been lost|missing offset", re.IGNORECASE),
        (
            "records of the range are no longer there (retention, or the topic was made anew); "
            "run again with a later --from"
        ),
    ),
    (
        re.compile(r"(?i)idle.?timeout|Timed out while waiting for the Python worker"),
        (
            "a policy hangs: a Python worker did nothing for "
            "spark.sql.execution.pyspark.udf.idleTimeoutSeconds and was ended"
        ),
    ),
    (
        re.compile(r"Python worker exited unexpectedly|Python worker failed to connect"),
        "a policy ended its process (a crash, os._exit or too little memory)",
    ),
    (
        re.compile(r"No space left on device|File too large|Disk quota exceeded"),
        "no space left on the device that is written to, or a quota is used up",
    ),
    (
        re.compile(r"RecordTooLargeException"),
        "a record with its headers is too large for the topic",
    ),
    (
        re.compile(r"MALFORMED_RECORD_IN_PARSING|Malformed records are detected"),
        "a line of the files is not JSON with Kafka's columns",
    ),
    (
        re.compile(r"CONVERSION_INVALID_INPUT"),
        "the first lines of the files hold base 64, a later one does not",
    ),
    (
        re.compile(r"ConfigurationError: (.*)"),
        "the policies cannot be loaded on the executors",
    ),
    (
        re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'"),
        "a Python module is missing on the executors",
    ),
    (
        re.compile(r"ImportError: (cannot import name .*)"),
        "a Python module on the executors has another version",
    ),
)
_WORKER_ERROR: Final = re.compile(r"^([\w.]*(?:Error|Exception|Interrupt))(?::|$)", re.MULTILINE)
"""The last line of a Python traceback: its class only, since the rest may hold a record."""


class SparkError(UnavailableError):
    """Spark could not be started, or a job failed. The text is for a user."""


def reason_of(error: Exception) -> tuple[str | None, int]:
    """Return why a job failed, in one line, and the exit code of the command.

    Returns:
        The text, or None where the error is not Spark's; 2 for wrong use, 3 otherwise.
    """
    if not isinstance(error, (PySparkException, Py4JError)):
        return None, 3
    text = str(error)
    if isinstance(error, Py4JJavaError):
        text += str(error.java_exception.toString())
    for causes, code in ((_WRONG_USE, 2), (_FAILURES, 3)):
        for pattern, meaning in causes:
            match = pattern.search(text)
            if match:
                detail = f": {match[1].strip()}" if match.groups() else ""
                return f"{meaning}{detail}", code
    if "Traceback (most recent call last)" in text and (classes := _WORKER_ERROR.findall(text)):
        return f"Spark's job failed: {classes[-1]} in a Python worker; its log says more", 3
    return f"Spark's job failed: {first_line(text)}", 3


def first_line(text: str) -> str:
    """Return the first line of an error's text, which is the one for users."""
    lines = text.strip().splitlines()
    return lines[0][:500] if lines else "no reason given"

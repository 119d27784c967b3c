"""Explains a failure of Spark in one line.

The one place that reads the texts of Spark (4.2): a failed job
reports its cause only as part of a text. `tests/spark/execution/test_failures.py` provokes them.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Final

from pyspark.errors import PySparkException

from penstock.errors import UnavailableError
from penstock.spark.execution.java_errors import Py4JError, Py4JJavaError

ONLY_SOME: Final = (
    "only some of its files are in folders of partitions (COLUMN=VALUE), or not in the same; name "
    "one kind"
)
"""Of files with any columns: the folders say which columns there are."""
_WRONG_USE: Final = (
    (re.compile(r"PATH_NOT_FOUND"), "there are no files with this name"),
    (re.compile(r"UNABLE_TO_INFER_SCHEMA"), "there are no Parquet files"),
    (re.compile(r"CANNOT_READ_FILE_FOOTER"), "a file is not Parquet, or is damaged"),
    (re.compile(r"WrongLineError: (.*)"), "a line is not a record"),
    (
        re.compile(r"MALFORMED_RECORD_IN_PARSING|INVALID_JSON_RECORD_TYPE"),
        "a line is not a JSON object",
    ),
    (re.compile(r"CANNOT_MERGE_SCHEMAS"), "a column has another type in another file"),
    (
        re.compile(r"CONFLICTING_(?:DIRECTORY_STRUCTURES|PARTITION_COLUMN_NAMES)"),
        ONLY_SOME,
    ),
)
_MORE_MEMORY: Final = (
    "give it more with --conf spark.driver.memory=4g (with a master local), or "
    "spark.executor.memory and spark.executor.memoryOverhead (on a cluster)"
)
_LACKS_MEMORY: Final = f"Spark's JVM had too little memory; {_MORE_MEMORY}"
_DOES_NOT_ANSWER: Final = (
    f"Spark's JVM does not answer any more; if it had too little memory, {_MORE_MEMORY}"
)
_OUT_OF_MEMORY: Final = 52
"""The exit code of Spark's JVMs after an `OutOfMemoryError`."""
_KILLED: Final = frozenset({-9, 137})
_LATE_WORKER: Final = re.compile(r"Python worker (?:failed )?to connect back")
_FAILURES: Final = (
    # First: the message of a policy may hold any of the words below.
    (
        re.compile(r"PostponedError: a policy cannot decide now: (.*)"),
        "a policy cannot decide now",
    ),
    (
        re.compile(r"^penstock\.kafka\.(?:client|wire)\.[\w.]+: (.*)", re.MULTILINE),
        "a task at the cluster failed",
    ),
    (
        re.compile(
            r"OutOfMemoryError|OutOfMemoryException|Java heap space|GC overhead limit"
            r"|(?:[Ee]xit code|exited with code|[Ee]xit status:?) (?:52|137)\b"
        ),
        _LACKS_MEMORY,
    ),
    (
        re.compile(r"were removed before they were read \(retention\)"),
        (
            "records of the range are no longer there (retention, or the topic was created again); "
            "run again with a later --from, and a stream with a new --checkpoint (and new folders)"
        ),
    ),
    (
        re.compile(r"SourceError: (.*)"),
        "records cannot be read",
    ),
    (
        re.compile(r"OldCheckpointError: (.*)"),
        "records were not written",
    ),
    (
        re.compile(r"\bfailures\.SparkError: (.*)"),
        "a table cannot be written",
    ),
    (
        re.compile(r"SharedTargetError: (.*)"),
        "two jobs write to one target",
    ),
    (
        _LATE_WORKER,
        (
            "a Python worker did not start in time; check spark.pyspark.python and the load of the "
            "executors, and run the job again"
        ),
    ),
    (
        re.compile(r"(?i)idle.?timeout"),
        (
            "a policy hangs: a Python worker did nothing for "
            "spark.sql.execution.pyspark.udf.idleTimeoutSeconds and was ended"
        ),
    ),
    (
        re.compile(r"Python worker exited unexpectedly"),
        "a policy ended its process (a crash, os._exit or too little memory)",
    ),
    (
        re.compile(r"No space left on device|File too large|Disk quota exceeded"),
        "no space left on the device that is written to, or a quota is used up",
    ),
    (
        re.compile(r"DATA_SOURCE_(?:RUNTIME_)?ERROR\b[\s\S]*?(?:Configuration|NotNow)Error: (.*)"),
        "topics cannot be read or written",
    ),
    (
        re.compile(r"(?:Configuration|NotNow)Error: (.*)"),
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
    (
        # Only its name: the text of a constraint shows the values of a row.
        re.compile(r"\[(DELTA_[A-Z_]+)[\].]"),
        "Delta refuses what is written to a table",
    ),
    (
        re.compile(r"org\.apache\.iceberg\.exceptions\.CommitStateUnknown"),
        "records may be committed to an Iceberg table, or not; start again",
    ),
    (
        re.compile(r"org\.apache\.iceberg\.exceptions\.(\w+)"),
        "Iceberg failed",
    ),
    (
        re.compile(r"SparkContext was shut down|stopped SparkContext"),
        "Spark's application was stopped while its job ran",
    ),
    (
        # Data exceptions of SQL. Only their names: their texts show the value.
        re.compile(r"\[([A-Z_.]+)\][^\n]*SQLSTATE: 22"),
        "a value does not fit the type that it is read as, or an expression of --column",
    ),
)
_CALL: Final = re.compile(r"^An error occurred while calling \S+\s+: ")
"""What py4j writes before the text of Java's exception."""
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
    text = _text(error)
    if _is_lost(error, text):
        return _DOES_NOT_ANSWER, 3
    for causes, code in ((_WRONG_USE, 2), (_FAILURES, 3)):
        for pattern, meaning in causes:
            match = pattern.search(text)
            if match:
                detail = f": {match[1].strip()}" if match.groups() else ""
                return f"{meaning}{detail}", code
    if "Traceback (most recent call last)" in text and (classes := _WORKER_ERROR.findall(text)):
        return f"Spark's job failed: {classes[-1]} in a Python worker; its log says more", 3
    return f"Spark's job failed: {first_line(_CALL.sub('', text))}", 3


def jvm_end(code: int) -> str:
    """Return why a JVM ended by itself, by its exit code."""
    if code == _OUT_OF_MEMORY:
        return _LACKS_MEMORY
    if code in _KILLED:
        return (
            "Spark's JVM was killed, as a system does that runs out of memory; give it less with "
            "--conf spark.driver.memory, use fewer cores with --master local[N], or more memory"
        )
    return f"Spark's JVM ended with exit code {code}"


def is_late_worker(error: Exception) -> bool:
    """Return whether a job failed because a Python worker took longer to start than Spark waits."""
    return isinstance(error, PySparkException) and _LATE_WORKER.search(_text(error)) is not None


def lost_its_jvm(error: BaseException) -> bool:
    """Return whether an error that Java does not explain can result from the end of the JVM."""
    if isinstance(error, (Py4JError, ConnectionError)):
        return _is_lost(error, _text(error))
    return False


def _is_lost(error: BaseException, text: str) -> bool:
    if isinstance(error, Py4JJavaError):
        return bool(text == error.errmsg)
    if isinstance(error, Py4JError):
        return "Trace:" not in text
    return isinstance(error, ConnectionError)


def _text(error: Exception) -> str:
    """Return an error's text, and Java's explanation, as far as the JVM still responds."""
    if not isinstance(error, Py4JJavaError):
        return str(error)
    text = str(error.errmsg)
    # The stack trace and the text of an error are requested from the JVM, which may end meanwhile.
    with suppress(Py4JError, OSError):
        text = str(error)
        text += str(error.java_exception.toString())
    return text


def first_line(text: str) -> str:
    """Return the first line of an error's text, which is for users."""
    lines = text.strip().splitlines()
    return lines[0][:500] if lines else "no reason given"

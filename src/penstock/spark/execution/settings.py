"""Settings of Spark that Penstock's jobs want."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import Final

_PYTHON: Final = "PYSPARK_PYTHON"
_CHOSEN_BY: Final = (_PYTHON, "PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "SPARK_CONF_DIR")
"""Who sets one of these chooses the interpreter of the workers: `spark-submit`, for example."""


def _workers_python() -> dict[str, str]:
    """Have the Python workers of a session that this process starts use this interpreter.

    Otherwise they use `python3` of the `PATH`, which has no Penstock if its environment is not
    activated. A session that is started in Python reads the variable; `spark-submit` the key.

    Returns:
        The key; nothing if the interpreter is chosen elsewhere, or belongs to a server.
    """
    if any(name in os.environ for name in _CHOSEN_BY) or not _has_jvm():
        return {}
    os.environ[_PYTHON] = sys.executable
    return {"spark.pyspark.python": sys.executable}


def _has_jvm() -> bool:
    """Return whether PySpark, which is not imported for it, is more than a client of Connect."""
    package = find_spec("pyspark")
    folders = None if package is None else package.submodule_search_locations
    try:
        return folders is not None and any(
            finder.find_spec(f"pyspark.{name}", folders) is not None
            for name in ("core", "context")
            for finder in sys.meta_path
        )
    except ImportError:
        return False


SETTINGS: Final = {
    **_workers_python(),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # Large records: a batch is held several times, in the JVM and in Python.
    "spark.sql.execution.arrow.maxBytesPerBatch": "8m",
    # With it, some frames bring Spark's task threads into an endless loop.
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
    # A policy that hangs: its Python worker is ended, the task is tried again, the job fails.
    "spark.sql.execution.pyspark.udf.idleTimeoutSeconds": "120",
    "spark.sql.execution.pyspark.udf.killOnIdleTimeout": "true",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    # The defaults of Spark 4. Spark 3.5 ends a job at a date before 1582, and a time before 1900.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.ui.showConsoleProgress": "false",
    # Where Spark shows pairs, it hides the values of those whose name or value matches. This is
    # its own pattern, and more.
    "spark.redaction.regex": (
        r"(?i)secret|password|token|access[.]?key|credential|jaas|user\.info|private.key"
        r"|ssl\.keystore"
    ),
    # In the texts of plans, where options are not pairs.
    "spark.redaction.string.regex": (
        r"(?is)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END"
        r"|password\s*=\s*(?:\"(?:[^\"\\]|\\.)*\"|[^\s,;}]+)"
    ),
}
"""Defaults that Penstock sets; worth setting in your own sessions, too."""

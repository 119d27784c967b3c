"""Settings of Spark that Penstock's jobs want."""

from __future__ import annotations

from typing import Final

SETTINGS: Final = {
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

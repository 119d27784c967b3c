"""Folders that another stream writes to: two streams would replace each other's `batch=N`.

No check at the start finds this, because a folder is empty until the first micro-batch is written.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from penstock.spark.execution.failures import SparkError
from penstock.spark.execution.java_errors import Py4JJavaError
from penstock.spark.frames.hadoop_files import hadoop_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWNER: Final = "_penstock_stream"
"""The file with the id of the stream. Readers of Parquet leave out names that begin with `_`."""


class SharedTargetError(SparkError):
    """Another job writes to the same folder, or the same records to the same table."""


def claim_folder(spark: SparkSession, folder: str, query: str) -> None:
    """Note which stream writes to a folder, if no stream has yet.

    Args:
        spark: A classic session.
        folder: The folder, which need not exist.
        query: The id of the streaming query.

    Raises:
        SharedTargetError: Another stream writes to it.
    """
    path, files = hadoop_path(spark, f"{folder.rstrip('/')}/{OWNER}")
    owner = _owner(spark, path, files)
    if not owner:
        # An empty file is that of a stream that ended before it had written its id. Java's error:
        # another stream has created the file just now.
        with (
            contextlib.suppress(Py4JJavaError),
            contextlib.closing(files.create(path, owner == "")) as out,
        ):
            out.writeBytes(query)
        owner = _owner(spark, path, files)
    if owner != query:
        raise SharedTargetError(
            f"path:{folder} belongs to another stream (its id is in {OWNER}), and this micro-batch "
            "is not written to it: name a separate folder for each stream, and a new --checkpoint"
        )


def _owner(spark: SparkSession, path: Any, files: Any) -> str | None:
    """Return the id in a file; None if there is no file."""
    if not files.exists(path):
        return None
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - Spark's own way to Hadoop
    with contextlib.closing(files.open(path)) as stream:
        return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))

"""Paths in the file systems that Spark's JVM knows, such as those of object stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def hadoop_path(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Return Hadoop's path and file system of a path.

    Args:
        spark: A classic session.
        path: A path or a URL.
    """
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - Spark's own way to Hadoop
    java: Any = spark.sparkContext._jsc  # noqa: SLF001
    there = jvm.org.apache.hadoop.fs.Path(path)
    return there, there.getFileSystem(java.hadoopConfiguration())

"""Which of Spark's streaming queries calls a function of `foreachBatch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.spark.execution.failures import SparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY_ID: Final = "sql.streaming.queryId"
"""The local property of Spark's jobs that has the id of their streaming query."""


def query_id(spark: SparkSession) -> str:
    """Return the id of the query, which is that of its checkpoint.

    Args:
        spark: A classic session.

    Raises:
        SparkError: Spark does not say. Under one name, two streams would leave out micro-batches of
            each other.
    """
    query = spark.sparkContext.getLocalProperty(QUERY_ID)
    if not query:
        raise SparkError("Spark does not say which stream writes: tables cannot be written")
    return query

"""Has Spark find `format("penstock")` by itself, in every session.

PySpark, from 4.0, looks for a `DefaultSource` in the modules whose names begin with `pyspark_`.
"""

from contextlib import suppress

# Without the extra `spark`, Spark's look for other formats has to succeed nevertheless.
with suppress(ImportError):
    from penstock.spark.source.data_source import PenstockDataSource as DefaultSource

__all__ = ["DefaultSource"]

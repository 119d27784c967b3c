"""Some rows of a frame, as the records that they are judged as."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.policy import Record
from penstock.spark.rows.values import NULLS, VALUE, value_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SEED: Final = 0
_FIRST_ROWS: Final = 1000
"""By so many rows, the size of a row is estimated: Spark sorts the sample in memory."""


def sample_of(frame: DataFrame, limit: int, bytes_max: int) -> list[Record]:
    """Return rows of a frame as records: all of them, or a random sample.

    Args:
        frame: Any columns; not a stream.
        limit: The maximum number of rows.
        bytes_max: The maximum size of their values, but for the first.
    """
    values = frame.select(value_of([], NULLS[0]).alias(VALUE))
    sizes = values.limit(_FIRST_ROWS).select(F.avg(F.octet_length(VALUE)).alias("size"))
    [(size,)] = sizes.collect()
    count = min(limit, int(bytes_max // (size or 1)) + 1)
    records: list[Record] = []
    total = 0
    for row in values.orderBy(F.rand(_SEED)).limit(count).toLocalIterator():
        value = row[VALUE].encode()
        total += len(value)
        if records and total > bytes_max:
            break
        records.append(Record(0, None, value, ()))
    return records

"""Some rows of a frame, as the records that they are judged as."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.policy import Record
from penstock.spark.rows.values import NULLS, VALUE, value_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SEED: Final = 0


def sample_of(frame: DataFrame, limit: int) -> list[Record]:
    """Return rows of a frame as records: all of them, or a random sample.

    Args:
        frame: Any columns; not a stream.
        limit: The maximum number of rows.
    """
    some = frame.orderBy(F.rand(_SEED)).limit(limit)
    values = some.select(value_of([], NULLS[0]).alias(VALUE)).collect()
    return [Record(0, None, row[VALUE].encode(), ()) for row in values]

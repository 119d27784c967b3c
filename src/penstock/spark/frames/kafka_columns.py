"""The columns of records in frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Self

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.engine.modes.dead_letters import TIMESTAMP
from penstock.jobs.rows.far_times import MS_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

COLUMNS: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
"""The columns of Spark's Kafka source, and their types."""
SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())


def with_all_columns(df: DataFrame, own: Sequence[str] = ()) -> DataFrame:
    """Return Kafka's columns and no others; those that are missing are null.

    Args:
        own: Other columns that are kept.
    """
    there = frozenset(df.columns)
    return df.select(
        *(
            F.col(name) if name in there else F.lit(None).cast(kind).alias(name)
            for name, kind in COLUMNS.items()
        ),
        *own,
    )


class OwnColumns(NamedTuple):
    """The columns of a frame that are not Kafka's, and the names that they have for a while.

    They may have any name, such as that of a column that a job adds.

    Attributes:
        originals: Their names, in order.
        positions: Their positions in the frame.
    """

    originals: Sequence[str]
    positions: Sequence[int]

    @classmethod
    def of(cls, df: DataFrame) -> Self:
        """Return those of a frame, but for `verdict`."""
        own = [
            (name, position)
            for position, name in enumerate(df.columns)
            if name not in COLUMNS and name != "verdict"
        ]
        return cls([name for name, _ in own], [position for _, position in own])

    @property
    def names(self) -> list[str]:
        """The names that they have for a while."""
        return [f"own {position}" for position in self.positions]

    def renamed(self, df: DataFrame) -> DataFrame:
        """Return the frame with these names."""
        names = list(df.columns)
        for position, name in zip(self.positions, self.names, strict=True):
            names[position] = name
        return df.toDF(*names) if self.positions else df

    def restored(self) -> list[Column]:
        """Return the columns with their own names."""
        return [
            F.col(name).alias(original)
            for name, original in zip(self.names, self.originals, strict=True)
        ]


def from_ms(column: Column) -> Column:
    """Return ms since the epoch as a timestamp; null where Spark cannot represent it."""
    # Outside of it, timestamp_millis would end the job.
    return F.when(column.between(-MS_MAX, MS_MAX), F.timestamp_millis(column))


def in_ms(*, has_headers: bool) -> Column:
    """Return the timestamp of a row in ms since the epoch; null if it has none.

    Args:
        has_headers: Whether the frame has the column `headers`, which has the timestamps that are
            far (`penstock.jobs.rows.far_times`).
    """
    timestamp = F.unix_millis("timestamp")
    return F.coalesce(timestamp, _far_time()) if has_headers else timestamp


def _far_time() -> Column:
    last = F.when(F.size("headers") > 0, F.element_at("headers", -1))
    text = F.when(last["key"] == TIMESTAMP, last["value"].cast("string"))
    digits = F.regexp_extract(text, r"^\s*([+-]?[0-9]{1,20})\s*$", 1)
    # A number of more than 64 bits is no timestamp.
    number = F.when(digits != "", digits.cast("decimal(20,0)"))
    is_far = number.between(-(2**63), 2**63 - 1) & ~number.between(-MS_MAX, MS_MAX)
    return F.when(F.col("timestamp").isNull() & is_far, number.cast("bigint"))

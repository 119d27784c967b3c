"""Parses values in the process that has judged them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from penstock.spark.values.value_column import ValueColumn

    Batches = Iterator[pa.RecordBatch]


def with_parsed_values(
    judge: Callable[[Batches], Batches], column: ValueColumn, topic: str | None
) -> Callable[[Batches], Batches]:
    """Make the function for `DataFrame.mapInArrow` that judges, and parses accepted values.

    Args:
        judge: Returns batches with verdicts.
        column: The column that values are parsed for.
        topic: The one topic of all records, or None.
    """

    def parse(batches: Batches) -> Batches:
        for batch in judge(batches):
            yield column.added_to(batch, topic)

    return parse

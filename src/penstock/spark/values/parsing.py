"""Parses values in the process that has judged them, with the policies that have judged them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import types as T  # noqa: N812 - as everybody names it

from penstock.engine.verdict import PostponedError, postponed
from penstock.jobs.evaluation import evaluator_of
from penstock.jobs.policy_retries import decided
from penstock.policy import RetriableException
from penstock.spark.values.value_column import PARSED, POLICY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from penstock.jobs.plan import RecordPlan
    from penstock.spark.values.value_column import ValueColumn

    Batches = Iterator[pa.RecordBatch]


def with_parsed_values(
    judge: Callable[[Batches], Batches], column: ValueColumn, plan: RecordPlan, topic: str | None
) -> Callable[[Batches], Batches]:
    """Make the function for `DataFrame.mapInArrow` that judges, and parses accepted values.

    Args:
        judge: Returns batches with verdicts.
        column: The column that values are parsed for.
        plan: The policies: some read values by schemas.
        topic: The one topic of all records, or None.
    """

    def parse(batches: Batches) -> Batches:
        reader_of = evaluator_of(plan).value_reader

        def added_to(batch: pa.RecordBatch) -> pa.RecordBatch:
            try:
                return column.added_to(batch, reader_of, topic)
            except RetriableException as error:
                raise PostponedError(postponed(POLICY, error)) from None

        for batch in judge(batches):
            yield decided(partial(added_to, batch), plan.retry_for_s)

    return parse


def parsed_again(
    judged_rows: DataFrame, column: ValueColumn | None, plan: RecordPlan, topic: str | None
) -> DataFrame:
    """Return kept records with values for the type that the column has now.

    The table can have been altered since they were judged, and takes no values of its former type.

    Args:
        judged_rows: Judged records. Those of the column's type are returned as they are.
        column: The column; None if the table has the bytes.
        plan: The policies: some read values by schemas.
        topic: The one topic of all records, or None.

    Returns:
        The same records. An accepted record whose value does not fit the new type is refused.
    """
    if column is None or column.parsed in judged_rows.schema.fields:
        return judged_rows
    bare = judged_rows.drop(PARSED)
    parse = with_parsed_values(_as_they_are, column, plan, topic)
    # Several jobs read it, and a registry is not always there.
    return bare.mapInArrow(
        parse, T.StructType([*bare.schema.fields, column.parsed])
    ).localCheckpoint()


def _as_they_are(batches: Batches) -> Batches:
    return batches

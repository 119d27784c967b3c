"""Parses values in the process that has judged them, with the policies that have judged them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.engine.verdict import PostponedError, postponed
from penstock.policy import RetriableException
from penstock.spark.values.value_column import POLICY
from penstock.stored.evaluation import evaluator_of
from penstock.stored.policy_retries import decided

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from penstock.spark.values.value_column import ValueColumn
    from penstock.stored.plan import RecordPlan

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

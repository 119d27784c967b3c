"""Parses values in the process that has judged them, with the policies that have judged them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.engine.verdict import PostponedError, postponed
from penstock.jobs.evaluation import evaluator_of
from penstock.jobs.policy_retries import decided
from penstock.policy import RetriableException
from penstock.spark.values.value_column import POLICY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from penstock.jobs.plan import RecordPlan
    from penstock.spark.values.value_column import ValueColumn

    Batches = Iterator[pa.RecordBatch]


def parsing(
    column: ValueColumn, plan: RecordPlan, topic: str | None
) -> Callable[[Batches], Batches]:
    """Return what adds the column of parsed values to judged records.

    Args:
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

        for batch in batches:
            yield decided(partial(added_to, batch), plan.retry_for_s)

    return parse

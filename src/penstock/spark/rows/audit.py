"""`audit_rows`: what a plan says about the rows of a frame, as a report."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it
from pyspark.sql import types as T  # noqa: N812

from penstock.configuration import ConfigurationError
from penstock.jobs.contracts import measured_contracts
from penstock.jobs.evaluation import evaluator_of, task_ended
from penstock.jobs.report.document import FRAME
from penstock.jobs.rows.row_counts import LABEL_MAX, RowCounts, RuleKey
from penstock.jobs.subject import subject_of
from penstock.spark.arguments import check_text
from penstock.spark.jobs.data_sets import measure_frame
from penstock.spark.rows.batches import judged_rows
from penstock.spark.rows.judged import check_columns, check_rows, value_to_judge
from penstock.spark.rows.plan import row_plan_of
from penstock.spark.rows.values import VALUE, RecordColumns, quoted, value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import Column, DataFrame

    from penstock.jobs.plan import RecordPlan
    from penstock.jobs.report.document import Report
    from penstock.spark.rows.plan import RowPlan

_COUNTS: Final = "counts binary"
_LABEL: Final = "label"
_LABEL_BYTES: Final = LABEL_MAX // 4 * 3
"""How many bytes base64 makes a label of."""


def audit_rows(
    frame: DataFrame,
    plan: RowPlan | RecordPlan,
    *,
    label: str | None = None,
    samples: int = 10,
) -> Report:
    """Judge the rows of a frame, and report which of them are bad, and why. Changes nothing.

    Args:
        frame: Any columns; not a stream.
        plan: As for `judge_rows`.
        label: The column that names rows in the report: samples of what each rule objects to. It
            stays in the value.
        samples: How many labels there are of each rule.

    Returns:
        The report: `judged`, `accepted`, `refused`, `failed`, `reasons`, `contracts`; in `rules`
        how many rows each rule objects to, if any, with `share` and `samples`; in `columns` how
        many rows are bad because of a column, where a rule or a schema says so.

    Raises:
        ConfigurationError: An argument is wrong, or the frame is a stream.
    """
    check_rows(frame, "audit_rows")
    row_plan = row_plan_of(plan, "audit_rows")
    if label is not None:
        check_text(label, "audit_rows: label", such_as="the name of a column")
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 0:
        raise ConfigurationError(f"audit_rows: samples must be a number, not {samples!r}")
    if frame.isStreaming:
        raise ConfigurationError(
            "a stream has no end to report at; call audit_rows in foreachBatch, or give judge_rows "
            "an observation"
        )
    _check_label(frame, label)
    check_columns(frame, row_plan, RecordColumns(), "audit_rows")
    began = time.monotonic()
    topic = row_plan.topic or ""
    value = value_to_judge(frame, row_plan, RecordColumns()).alias(VALUE)
    named = [] if label is None else [_label_of(frame, label)]
    partial = frame.select(value, *named).mapInArrow(_counting(row_plan, samples), _COUNTS)
    rows = partial.repartition(1).mapInArrow(_merging(samples), _COUNTS).collect()
    counts = RowCounts.merged((bytes(row["counts"]) for row in rows), samples)
    records = row_plan.records

    def measure(_: Any) -> Any:
        text = value_of([], row_plan.nulls).alias(VALUE)
        values = frame.select(text, F.lit(None).cast("timestamp").alias("timestamp"))
        return measure_frame(values, records, topic)

    contracts = measured_contracts(records, [topic], measure)
    about = subject_of(FRAME, [topic], records, seconds=time.monotonic() - began)
    about = about.model_copy(update={"is_topic": False, "is_rows": True})
    report = counts.report(topic, about, _rules(row_plan))
    return report.model_copy(update={"contracts": contracts})


def _rules(plan: RowPlan) -> Iterator[RuleKey]:
    """Yield the rules that judge the rows."""
    modes = evaluator_of(plan.records).modes(plan.topic or "")
    for policy, rule in plan.rules:
        if policy in modes:
            yield RuleKey(policy, rule, modes[policy])


def _check_label(frame: DataFrame, label: str | None) -> None:
    if label is not None and label.lower() not in map(str.lower, frame.columns):
        raise ConfigurationError(
            f"audit_rows: label: there is no column {label}; the rows have "
            f"{', '.join(frame.columns)}"
        )


def _label_of(frame: DataFrame, label: str) -> Column:
    """Return the first characters of a column as bytes: of bytes, those that JSON has of them."""
    column = F.col(quoted(label))
    [field] = frame.select(column).schema.fields
    if isinstance(field.dataType, T.BinaryType):
        text = F.translate(F.base64(F.substring(column, 1, _LABEL_BYTES)), "\r\n", "")
    else:
        text = F.substring(column.cast("string"), 1, LABEL_MAX)
    return text.cast("binary").alias(_LABEL)


def _labels(batch: pa.RecordBatch) -> list[str | None] | None:
    """Return the labels of rows; None if they have none. Bytes that are no text are replaced."""
    if batch.num_columns == 1:
        return None
    return [
        None if label is None else label.decode(errors="replace")
        for label in batch.column(1).to_pylist()
    ]


def _counting(
    plan: RowPlan, samples: int
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function that judges and counts the rows of a task."""
    records, topic = plan.records, plan.topic or ""

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        evaluator = evaluator_of(records)
        counts = RowCounts(samples)
        for batch in batches:
            decisions = judged_rows(evaluator, plan, {VALUE: batch.column(0)})
            counts.add(topic, batch.num_rows, decisions, _labels(batch))
        yield _as_batch(counts)
        task_ended()

    return count


def _merging(samples: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function that merges the counts of tasks."""

    def merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        encoded = (row.as_py() for batch in batches for row in batch["counts"])
        yield _as_batch(RowCounts.merged(encoded, samples))

    return merge


def _as_batch(counts: RowCounts) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"counts": pa.array([counts.encode()], pa.binary())})

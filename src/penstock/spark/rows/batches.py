"""What runs in Spark's Python workers: batches of rows in, their verdicts out.

A row comes as the JSON that is its value, or as the columns by which it is judged, with the other
parts of its record. It is judged by the engine as that record, of partition 0. Of columns, the rows
that fit the schemas of all policies are accepted; the others get the JSON that is their value here.
"""

from __future__ import annotations

from collections.abc import Iterator  # noqa: TC003 - Spark reads the annotations
from functools import reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.all_objections import AllVerdicts, joined, moved
from penstock.jobs.evaluation import evaluator_of, task_ended
from penstock.spark.frames.arrow_records import ArrowRecords, runs, verdict_with_objections
from penstock.spark.rows.columns.row_texts import row_texts
from penstock.spark.rows.columns.schema_judge import SchemaJudge
from penstock.spark.rows.row_types import TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.jobs.evaluation import Evaluator
    from penstock.spark.rows.plan import RowPlan
    from penstock.spark.rows.row_types import TypesCheck

Arrays = tuple[pa.Array, ...]
_PARTITION: Final = 0
_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
_HEADERS: Final = pa.list_(_HEADER)
TEMPORARY: Final = "__penstock_"
"""The prefix of columns that come with rows, besides their own."""


def judged_rows(evaluator: Evaluator, plan: RowPlan, parts: Mapping[str, pa.Array]) -> AllVerdicts:
    """Judge a batch of rows.

    Args:
        parts: `value`, the JSON of each row or its columns, and those of `key`, `headers`,
            `timestamp` and `topic` that are known.
    """
    value = parts["value"]
    if not pa.types.is_struct(value.type):
        return _judged(evaluator, parts, plan.topic)
    keeps_nulls = plan.keeps_nulls
    judges = [SchemaJudge(schema, keeps_nulls=keeps_nulls) for schema in plan.schemas]
    fit = reduce(pc.and_, [judge.fits(value) for judge in judges])
    positions = pc.indices_nonzero(pc.invert(fit))
    if not len(positions):
        return AllVerdicts((), {})
    others = {name: part.take(positions) for name, part in parts.items()}
    others["value"] = row_texts(others["value"], keeps_nulls=keeps_nulls)
    return moved(_judged(evaluator, others, plan.topic), positions.to_pylist())


def _judged(evaluator: Evaluator, parts: Mapping[str, pa.Array], topic: str | None) -> AllVerdicts:
    columns = {name: _as_of_records(name, array) for name, array in parts.items()}
    count = len(columns["value"])
    rows = ArrowRecords(columns)
    partitions = pa.repeat(pa.scalar(_PARTITION, pa.int32()), count)
    return joined(
        (start, evaluator.judge_by_all(row_topic, partition, rows.columns(start, end)))
        for start, end, row_topic, partition in runs(columns.get("topic", topic), partitions)
    )


def verdicts(
    plan: RowPlan, names: Sequence[str], types_check: TypesCheck | None = None
) -> Callable[[Iterator[Arrays]], Iterator[pa.Array]]:
    """Make the function that Spark calls once in each task, with some parts of rows.

    Args:
        names: The parts that come, in their order.
        types_check: Checks the part `TYPES`; None if it does not come.
    """
    records = plan.records

    def evaluate(batches: Iterator[Arrays]) -> Iterator[pa.Array]:
        evaluator = evaluator_of(records)
        first_check = types_check
        for arrays in batches:
            # Spark passes a single column as itself.
            columns = (arrays,) if len(names) == 1 else arrays
            parts = dict(zip(names, columns, strict=True))
            types = parts.pop(TYPES, None)
            if first_check is not None and types is not None:
                first_check.check(types)
                first_check = None  # all batches of a task have the same types
            decisions = judged_rows(evaluator, plan, parts)
            yield verdict_with_objections(len(parts["value"]), decisions)
        task_ended()

    return evaluate


def rows_with_verdicts(
    plan: RowPlan, names: Sequence[str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for `DataFrame.mapInArrow`: rows in, the same with verdicts out.

    Args:
        names: The parts of records, which are the last columns: they are left out.
    """
    records = plan.records

    def evaluate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        evaluator = evaluator_of(records)
        for batch in batches:
            own = batch.num_columns - len(names)
            parts = dict(zip(names, batch.columns[own:], strict=True))
            decisions = judged_rows(evaluator, plan, parts)
            verdict = verdict_with_objections(batch.num_rows, decisions)
            yield pa.RecordBatch.from_arrays(
                [*batch.columns[:own], verdict], [*batch.schema.names[:own], "verdict"]
            )
        task_ended()

    return evaluate


def _as_of_records(name: str, array: pa.Array) -> pa.Array:
    """Return a part of rows with the type that it has in Kafka's columns."""
    if name in {"key", "value"}:
        return array if pa.types.is_binary(array.type) else array.cast(pa.binary())
    if name == "headers":
        return _headers(array)
    if name == "topic":
        return array if pa.types.is_string(array.type) else array.cast(pa.string())
    return array


def _headers(array: pa.Array) -> pa.Array:
    """Return headers as lists of structs of a text and bytes; a map's entries in their order.

    Raises:
        TypeError: They have another type.
    """
    kind = array.type
    is_map = pa.types.is_map(kind)
    if not (pa.types.is_null(kind) or is_map or _has_both(kind)):
        raise TypeError(f"headers must be an array of structs of key and value, or a map: {kind}")
    if array.null_count == len(array):
        return pa.nulls(len(array), _HEADERS)
    if array.null_count:  # Arrow cannot take the nulls of a slice over
        array = pa.array([of_row or [] for of_row in array.to_pylist()], kind)
    if is_map:
        keys, items = array.keys, array.items
    else:
        keys, items = array.values.field("key"), array.values.field("value")
    entries = pa.StructArray.from_arrays(
        [keys.cast(pa.string()), items.cast(pa.binary())], fields=list(_HEADER)
    )
    return pa.ListArray.from_arrays(array.offsets, entries)


def _has_both(kind: pa.DataType) -> bool:
    if not (pa.types.is_list(kind) and pa.types.is_struct(kind.value_type)):
        return False
    return {field.name for field in kind.value_type} == {"key", "value"}

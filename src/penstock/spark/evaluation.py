"""The function that runs in Spark's Python workers: Arrow batches in, verdicts out.

Policies are those of the worker (`penstock.jobs.evaluation`). Spark ends its workers without a
chance to do anything more, so a session that just stops closes nothing; `close_policies` does.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator  # noqa: TC003 - Spark reads the annotations
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.engine.all_objections import joined
from penstock.jobs.evaluation import Evaluator, close_all, evaluator_of, task_ended
from penstock.spark.frames.arrow_records import (
    ArrowRecords,
    runs,
    verdict_array,
    verdict_with_objections,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.engine.chain import KeysAndValues
    from penstock.engine.verdict import PolicyVerdict
    from penstock.jobs.plan import RecordPlan

    Function = Callable[[Evaluator, dict[str, pa.Array], str | None], pa.StructArray]

Arrays = tuple[pa.Array, ...]


def judge(evaluator: Evaluator, columns: dict[str, pa.Array], topic: str | None) -> pa.StructArray:
    """Return the verdicts about a batch; `topic` where there is no column of it."""
    return verdict_array(len(columns["partition"]), _judge_each(evaluator, columns, topic)[0])


def judge_counting(
    evaluator: Evaluator, columns: dict[str, pa.Array], topic: str | None
) -> pa.StructArray:
    """Return the verdicts about a batch, and with the last how often paths led to a field."""
    verdict = judge(evaluator, columns, topic)
    paths: list[str | None] = [None] * len(verdict)
    counts = evaluator.take_path_counts()
    if counts:
        paths[-1] = json.dumps(counts)
    names = [field.name for field in verdict.type]
    arrays = [*verdict.flatten(), pa.array(paths, pa.string())]
    return pa.StructArray.from_arrays(arrays, [*names, "paths"])


def judge_by_all(
    evaluator: Evaluator, columns: dict[str, pa.Array], topic: str | None
) -> pa.StructArray:
    """Return the verdicts about a batch, with all objections to each record."""
    rows = ArrowRecords(columns)
    parts = []
    topics = columns["topic"] if topic is None else topic
    for start, end, row_topic, partition in runs(topics, columns["partition"]):
        decisions = evaluator.judge_by_all(row_topic, partition, rows.columns(start, end))
        parts.append((start, decisions))
    return verdict_with_objections(len(columns["partition"]), joined(parts))


def apply(evaluator: Evaluator, columns: dict[str, pa.Array], topic: str | None) -> pa.StructArray:
    """Return the verdicts about a batch, with the new keys and values."""
    verdicts, replaced = _judge_each(evaluator, columns, topic)
    keys, values = columns["key"], columns["value"]
    if replaced:
        new_keys, new_values = keys.to_pylist(), values.to_pylist()
        for start, (some_keys, some_values) in replaced:
            new_keys[start : start + len(some_keys)] = some_keys
            new_values[start : start + len(some_values)] = some_values
        keys, values = pa.array(new_keys, pa.binary()), pa.array(new_values, pa.binary())
    verdict = verdict_array(len(keys), verdicts)
    return pa.StructArray.from_arrays([verdict, keys, values], ["verdict", "key", "value"])


def _judge_each(
    evaluator: Evaluator, columns: dict[str, pa.Array], one_topic: str | None
) -> tuple[list[tuple[int, PolicyVerdict]], list[tuple[int, KeysAndValues]]]:
    rows = ArrowRecords(columns)
    verdicts: list[tuple[int, PolicyVerdict]] = []
    replaced = []
    topics = columns["topic"] if one_topic is None else one_topic
    for start, end, topic, partition in runs(topics, columns["partition"]):
        decided = evaluator.judge_records(topic, partition, rows.columns(start, end))
        verdicts += ((start + index, verdict) for index, verdict in decided.verdicts)
        if decided.replaced is not None:
            replaced.append((start, decided.replaced))
    return verdicts, replaced


def verdicts(
    plan: RecordPlan,
    names: Sequence[str],
    *,
    replacing: bool,
    topic: str | None,
    counting: bool = False,
    objections: bool = False,
) -> Callable[[Iterator[Arrays]], Iterator[pa.Array]]:
    """Make the function that Spark calls once in each task.

    Args:
        names: The columns that come, in their order; `partition` among them, and `topic`
            unless `topic` is given.
        replacing: Whether keys and values are returned besides the verdicts.
        topic: The one topic of all records.
        counting: Whether verdicts have the counts of paths.
        objections: Whether verdicts have all objections.
    """
    judging = _judge_of(counting=counting, objections=objections)
    function = apply if replacing else judging

    def evaluate(batches: Iterator[Arrays]) -> Iterator[pa.Array]:
        return _evaluated(batches, plan, names, function, topic)

    return evaluate


def _judge_of(*, counting: bool, objections: bool) -> Function:
    if objections:
        return judge_by_all
    return judge_counting if counting else judge


def _evaluated(
    batches: Iterator[Arrays],
    plan: RecordPlan,
    names: Sequence[str],
    evaluate: Function,
    topic: str | None,
) -> Iterator[pa.Array]:
    evaluator = evaluator_of(plan)
    evaluator.take_path_counts()  # of other work that this process did
    for arrays in batches:
        # Spark passes a single column as itself.
        columns = (arrays,) if len(names) == 1 else arrays
        yield evaluate(evaluator, dict(zip(names, columns, strict=True)), topic)
    task_ended()


def rows_with_verdicts(
    plan: RecordPlan,
    names: Sequence[str],
    *,
    replacing: bool,
    topic: str | None,
    counting: bool = False,
    objections: bool = False,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for `DataFrame.mapInArrow`: rows in, the same rows with verdicts out.

    Args:
        names: The columns that the policies read; `partition` among them, and `topic` unless
            `topic` is given.
        replacing: Whether keys and values become those of the interceptors.
        topic: The one topic of all records.
        counting: Whether verdicts have the counts of paths.
        objections: Whether verdicts have all objections.
    """
    judging = _judge_of(counting=counting, objections=objections)

    def evaluate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        evaluator = evaluator_of(plan)
        evaluator.take_path_counts()  # of other work that this process did
        for batch in batches:
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            policy_columns = {name: columns[name] for name in names}
            if replacing:
                applied = apply(evaluator, policy_columns, topic)
                columns["verdict"], columns["key"], columns["value"] = applied.flatten()
            else:
                columns["verdict"] = judging(evaluator, policy_columns, topic)
            yield pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
        task_ended()

    return evaluate


def close_in_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Close this process's policies; for `DataFrame.mapInArrow`."""
    for batch in batches:
        close_all()
        time.sleep(_CLOSE_TASK_S)  # so that the other tasks come to other workers
        yield batch


_CLOSE_TASK_S: Final = 0.3

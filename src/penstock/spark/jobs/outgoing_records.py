"""Gives each judged record its sink, and those that are refused the headers of dead letters.

Accepted records stay as Spark passed them, in columns: only those that are refused become objects
of Python.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it
from pyspark.sql import types as T  # noqa: N812

from penstock.engine.verdict import REJECTED, Outcome, PolicyVerdict
from penstock.jobs.evaluation import evaluator_of
from penstock.jobs.rows.arrow import headers_array, rows_of
from penstock.jobs.rows.far_times import in_row
from penstock.jobs.rows.letters import DeadLetters
from penstock.jobs.tasks.writing_task import ACCEPTED
from penstock.jobs.tasks.writing_task import REJECTED as LETTERS
from penstock.spark import evaluation
from penstock.spark.frames.kafka_columns import with_all_columns
from penstock.spark.sink.topic_rows import SINK
from penstock.spark.values.parsing import parsing
from penstock.spark.values.value_column import PARSED
from penstock.spark.verdicts import needed_columns, with_verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from penstock.jobs.plan import RecordPlan
    from penstock.spark.values.value_column import ValueColumn

    Batches = Iterator[pa.RecordBatch]

ORIGINALS: Final = {"key": "original_key", "value": "original_value"}
"""The columns with keys and values as they were, where interceptors may change them."""
_ORIGINAL_NAMES: Final = frozenset(ORIGINALS.values())
_ORIGINAL_FIELD: Final = partial(T.StructField, dataType=T.BinaryType())
_REJECTED: Final = pa.array([outcome.value for outcome in REJECTED])
_NO_SINK: Final = pa.scalar(None, pa.string())


def outgoing_records(
    df: DataFrame,
    plan: RecordPlan,
    topic: str | None,
    column: ValueColumn | None = None,
    own: Sequence[str] = (),
) -> DataFrame:
    """Return Kafka's columns of judged records, with `verdict` and `SINK`, in one pass.

    Args:
        df: Kafka's columns.
        topic: The one topic of all records, or None.
        column: The column of a table that accepted values are also parsed for, or None.
        own: Other columns of `df` that are kept.

    Returns:
        Records as they are written. With interceptors and `column`, `ORIGINALS` are there, too.
    """
    df = with_all_columns(df, own)
    replacing = plan.has_interceptors
    always, columns = needed_columns(df, plan, topic, replacing=replacing)
    judge = evaluation.rows_with_verdicts(
        plan, (*always, *columns), replacing=replacing, topic=topic
    )
    parse = iter if column is None else parsing(column, plan, topic)
    keeps_originals = replacing and column is not None

    def run(batches: Batches) -> Batches:
        rows = _with_originals(batches) if replacing else batches
        records = outgoing(parse(judge(rows)), partial(_digest, plan, topic))
        return records if keeps_originals or not replacing else _without_originals(records)

    originals = map(_ORIGINAL_FIELD, ORIGINALS.values()) if keeps_originals else ()
    rows_schema = with_verdict(T.StructType([*df.schema.fields, *originals]))
    added = [] if column is None else [column.parsed]
    schema = T.StructType([*rows_schema.fields, *added, T.StructField(SINK, T.StringType())])
    return df.mapInArrow(run, schema)


def _with_originals(batches: Batches) -> Batches:
    for batch in batches:
        originals = [batch.column(name) for name in ORIGINALS]
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, *originals], [*batch.schema.names, *ORIGINALS.values()]
        )


def _without_originals(batches: Batches) -> Batches:
    for batch in batches:
        names = [name for name in batch.schema.names if name not in _ORIGINAL_NAMES]
        yield batch.select(names)


def parsed_again(
    judged_rows: DataFrame, column: ValueColumn | None, plan: RecordPlan, topic: str | None
) -> DataFrame:
    """Return stored records with values for the type that the column has now.

    The table can have been altered since they were judged, and takes no values of its former type.

    Args:
        judged_rows: Of `outgoing_records`. Those of the column's type are returned as they are.
        column: The column; None if the table has the bytes.
        topic: The one topic of all records, or None.

    Returns:
        The same records. An accepted record whose value does not fit the new type is refused.
    """
    if column is None or column.parsed in judged_rows.schema.fields:
        return judged_rows
    bare = judged_rows.drop(PARSED)
    parse = parsing(column, plan, topic)
    schema = T.StructType([*bare.schema.fields, column.parsed])
    # Several jobs read it, and a registry is not always there.
    digest_of = partial(_digest, plan, topic)
    outgoing_again = bare.mapInArrow(lambda batches: outgoing(parse(batches), digest_of), schema)
    return outgoing_again.localCheckpoint()


def written(judged_rows: DataFrame) -> DataFrame:
    """Return the records that have a sink."""
    return judged_rows.where(F.col(SINK).isNotNull()).drop("verdict", *ORIGINALS.values())


def _digest(plan: RecordPlan, one_topic: str | None, topic: str | None) -> str:
    """Return the digest of the plan by which this process judges a topic's records."""
    return evaluator_of(plan).digest(topic if one_topic is None else one_topic)


def outgoing(batches: Batches, digest_of: Callable[[str | None], str]) -> Batches:
    """Return judged records with their sinks: `ACCEPTED`, `REJECTED`, or null if left out.

    Records that have the sink of dead letters already stay as they are.

    Args:
        batches: Kafka's columns, `verdict`, and `ORIGINALS` if there are interceptors.
        digest_of: Returns the digest of a topic's plan.
    """
    letters = DeadLetters()
    for batch in batches:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        columns |= _with_sinks(columns, letters, digest_of)
        yield pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _with_sinks(
    columns: Mapping[str, pa.Array], letters: DeadLetters, digest_of: Callable[[str | None], str]
) -> dict[str, pa.Array]:
    """Return the columns that change."""
    outcomes = pc.struct_field(columns["verdict"], "outcome")
    is_letter = pc.is_in(outcomes, _REJECTED)
    sinks = pc.if_else(is_letter, LETTERS, _NO_SINK)
    new_columns = {SINK: pc.if_else(pc.equal(outcomes, Outcome.ACCEPTED.value), ACCEPTED, sinks)}
    if SINK in columns:
        is_letter = pc.and_(is_letter, pc.equal(columns[SINK], ACCEPTED))
    positions = pc.indices_nonzero(is_letter)
    if len(positions):
        new_columns |= _letters(columns, positions, letters, digest_of)
    return new_columns


def _letters(
    columns: Mapping[str, pa.Array],
    positions: pa.Array,
    letters: DeadLetters,
    digest_of: Callable[[str | None], str],
) -> dict[str, pa.Array]:
    """Return keys, values and headers, in which those of refused records are replaced."""
    record_columns = {name: column.take(positions) for name, column in columns.items()}
    for name, original in ORIGINALS.items():
        if original in record_columns:
            record_columns[name] = record_columns[original]
    verdicts = map(_verdict, record_columns["verdict"].to_pylist())
    new_letters = [
        letters.first(row, verdict, digest_of(row.topic))
        for row, verdict in zip(rows_of(record_columns), verdicts, strict=True)
    ]
    headers = headers_array(
        [in_row(letter).headers for letter in new_letters], columns["headers"].type
    )
    new_columns = {"key": record_columns["key"], "value": record_columns["value"]}
    new_columns["headers"] = headers
    return {
        name: _replaced(columns[name], positions, entries) for name, entries in new_columns.items()
    }


def _replaced(column: pa.Array, positions: pa.Array, entries: pa.Array) -> pa.Array:
    order = np.arange(len(column))
    order[positions.to_numpy()] = np.arange(len(column), len(column) + len(entries))
    return pa.concat_arrays([column, entries]).take(pa.array(order))


def _verdict(verdict: dict[str, Any]) -> PolicyVerdict:
    return PolicyVerdict(
        outcome=Outcome(verdict["outcome"]),
        policy=verdict["policy"],
        code=verdict["code"],
        message=verdict["message"],
    )

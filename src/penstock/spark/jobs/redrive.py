"""Judges dead letters again: those that pass now return, the rest waits for the next repair.

The rows of a frame are judged as `penstock.jobs.rows.row_jobs` does it without Spark.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.jobs.batches.letter_outcomes import AGAIN, DROPPED, PARKED, RETURNED
from penstock.jobs.batches.letter_topics import FoundLetters
from penstock.jobs.evaluation import evaluator_of, task_ended
from penstock.jobs.rows import row_jobs
from penstock.spark.frames.frame_columns import check_columns
from penstock.spark.frames.kafka_columns import COLUMNS, with_all_columns
from penstock.spark.jobs.counting import counted
from penstock.spark.jobs.record_rows import OUTCOME, OUTGOING, outgoing_batches, record_rows
from penstock.spark.sink.topic_rows import SINK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame

    from penstock.engine.modes.dead_letters import Attempts
    from penstock.jobs.batches.letter_topics import LetterTopics
    from penstock.jobs.plan import RecordPlan

_LETTERS = "letters binary"


def redrive(
    df: DataFrame,
    plan: RecordPlan,
    write: Callable[[DataFrame, Callable[[], int]], None] | None,
    *,
    target: str | None,
    topics: LetterTopics,
    others_to: str | None,
    attempts: Attempts,
) -> Mapping[str, int]:
    """Judge dead letters again and write each to its sink.

    Args:
        df: Dead letters, with Kafka's columns.
        plan: The policies; with the repairing interceptor, if there is any.
        write: Writes records to the sinks `RETURNED`, `AGAIN` and `PARKED`; it is called with them
            and with what returns how many others were dropped. None to count only.
        target: The topic to which accepted letters return, whose policies judge; None if each
            record is judged by the policies of its original topic.
        topics: Whose letters return; the others stay as they are.
        others_to: The sink of the others; None to leave them out.
        attempts: How often a record is judged again before it is parked.

    Returns:
        The number of records written to each sink, and of those that an interceptor dropped.

    Raises:
        ConfigurationError: A column has another type than Kafka's.
    """

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = row_jobs.redrive_rows(
            record_rows(batches),
            evaluator_of(plan),
            target=target,
            topics=topics,
            others_to=others_to,
            attempts=attempts,
        )
        yield from outgoing_batches(rows)
        task_ended()

    outgoing = _records(df).mapInArrow(judge, OUTGOING)
    outgoing, counts = counted(outgoing, F.col(OUTCOME), (RETURNED, AGAIN, PARKED, DROPPED))
    if write is None:
        outgoing.write.format("noop").mode("overwrite").save()
    else:
        outgoing = outgoing.where(F.col(SINK).isNotNull()).drop(OUTCOME)
        write(outgoing, lambda: int(counts.get[DROPPED]))
    return counts.get


def find_letters(df: DataFrame, topics: LetterTopics) -> FoundLetters:
    """Return whose letters are in a frame with Kafka's columns.

    Args:
        df: The records of a place of dead letters.
        topics: Whose letters return.
    """
    # Whether keys and values are null is all that is needed of them.
    contents = {name: F.substring(name, 1, 0) for name in ("key", "value")}
    counts = _records(df).withColumns(contents).mapInArrow(partial(_count, topics), _LETTERS)
    merged_counts = counts.repartition(1).mapInArrow(_merge, _LETTERS).collect()
    return FoundLetters.sum_of(bytes(row["letters"]) for row in merged_counts)


def _records(df: DataFrame) -> DataFrame:
    """Return Kafka's columns, with the types of records."""
    check_columns(df.dtypes, (), "a dead letter has", COLUMNS)
    frame = with_all_columns(df)
    return frame.select(*(F.col(name).cast(kind).alias(name) for name, kind in COLUMNS.items()))


def _count(topics: LetterTopics, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield _encoded(row_jobs.find_letters(record_rows(batches), topics))


def _merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add the counts of tasks; runs in one task, so that the driver gets one count."""
    yield _encoded(
        FoundLetters.sum_of(row.as_py() for batch in batches for row in batch["letters"])
    )


def _encoded(letters: FoundLetters) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"letters": pa.array([letters.encode()], pa.binary())})

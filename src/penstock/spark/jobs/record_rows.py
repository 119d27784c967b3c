"""Rows of frames as records, and records as rows: for jobs that judge row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.jobs.rows.arrow import batch_of, rows_of
from penstock.spark.frames.kafka_columns import SCHEMA
from penstock.spark.sink.topic_rows import SINK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.jobs.rows.records import RecordRow
    from penstock.jobs.rows.row_jobs import OutgoingRow

OUTCOME: Final = "outcome"
"""The column with what a row is counted as; null for one that is not judged."""
OUTGOING: Final = f"{SCHEMA}, {SINK} string, {OUTCOME} string"
"""The columns of `outgoing_batches`."""
_ROWS_MAX: Final = 10_000
_BYTES_MAX: Final = 32 * 2**20


def record_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[RecordRow]:
    """Return the records of batches with Kafka's columns.

    Raises:
        MalformedError: A record has a header that is null.
    """
    for batch in batches:
        yield from rows_of(dict(zip(batch.schema.names, batch.columns, strict=True)))


def outgoing_batches(rows: Iterable[OutgoingRow]) -> Iterator[pa.RecordBatch]:
    """Return rows as batches with the columns of `OUTGOING`; their bytes are bounded."""
    batch_rows: list[OutgoingRow] = []
    size = 0
    for row in rows:
        batch_rows.append(row)
        size += row.row.size
        if len(batch_rows) >= _ROWS_MAX or size >= _BYTES_MAX:
            yield _batch(batch_rows)
            batch_rows, size = [], 0
    if batch_rows:
        yield _batch(batch_rows)


def _batch(rows: list[OutgoingRow]) -> pa.RecordBatch:
    records = batch_of(row.row for row in rows)
    more = {SINK: [row.sink for row in rows], OUTCOME: [row.outcome for row in rows]}
    arrays = [pa.array(entries, pa.string()) for entries in more.values()]
    return pa.RecordBatch.from_arrays([*records.columns, *arrays], [*records.schema.names, *more])

"""Stored batches become Arrow record batches with the columns of Kafka's source and verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.configuration import ConfigurationError
from penstock.engine.stored_columns import StoredColumns
from penstock.jobs.rows.arrow import headers_array
from penstock.jobs.rows.far_times import is_far, with_far_time
from penstock.spark.frames.arrow_records import VERDICT_TYPE, verdict_array
from penstock.spark.frames.kafka_columns import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.engine.verdict import PolicyVerdict
    from penstock.kafka.records.stored import StoredRecords
    from penstock.kafka.records.stored_batch import StoredBatch
    from penstock.policy import Header

VERDICT: Final = "verdict"
TYPES: Final = {**COLUMNS, VERDICT: VERDICT_TYPE}
"""Spark's type of each column that there can be."""
ROWS_MAX: Final = 10_000
BYTES_MAX: Final = 4 * 2**20
"""The most of a record batch; a larger row is a batch by itself."""
_TIMESTAMP: Final = pa.timestamp("us", "UTC")
_MICROS: Final = 1000


def check_types(types: Mapping[str, str]) -> None:
    """Check columns that a user named by `schema(...)`.

    Args:
        types: Spark's types by column.

    Raises:
        ConfigurationError: There is no such column, or its type is another.
    """
    for name, spark_type in types.items():
        required_type = TYPES.get(name)
        if required_type is None:
            raise ConfigurationError(
                f'format("penstock") has no column {name}; there are {", ".join(TYPES)}'
            )
        if spark_type.replace(" ", "") != required_type.replace(" ", ""):
            raise ConfigurationError(f"column {name} is {required_type}, not {spark_type}")


class RowBatches:
    """Makes record batches of stored batches; their bytes are bounded."""

    def __init__(
        self, columns: Sequence[str], *, rows_max: int = ROWS_MAX, bytes_max: int = BYTES_MAX
    ) -> None:
        """Set the required columns.

        Args:
            columns: The names of the columns, in their order; others are not made.
            rows_max: The most rows of a record batch.
            bytes_max: The most bytes of a record batch with several rows.
        """
        self._columns = tuple(columns)
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def add(
        self,
        topic: str,
        partition: int,
        batch: StoredBatch,
        verdicts: Sequence[tuple[int, PolicyVerdict]],
    ) -> Iterator[pa.RecordBatch]:
        """Add a batch; return the record batches that are complete.

        Args:
            verdicts: Those that are not `accepted`, by position.
        """
        record_batch = _record_batch(self._columns, topic, partition, batch, verdicts)
        if (
            self._bytes + record_batch.nbytes > self._bytes_max
            or self._rows + len(record_batch) > self._rows_max
        ):
            yield from self.rest()
        self._waiting.append(record_batch)
        self._rows += len(record_batch)
        self._bytes += record_batch.nbytes

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Return the waiting rows."""
        batches, self._waiting = self._waiting, []
        self._rows = self._bytes = 0
        if batches:
            whole = pa.Table.from_batches(batches).combine_chunks()
            for piece in whole.to_batches(max_chunksize=self._rows_max):
                yield from self._divided(piece)

    def _divided(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if rows.nbytes <= self._bytes_max or len(rows) <= 1:
            yield rows
            return
        half = len(rows) // 2
        yield from self._divided(rows.slice(0, half))
        yield from self._divided(rows.slice(half))


def _record_batch(
    names: Sequence[str],
    topic: str,
    partition: int,
    batch: StoredBatch,
    verdicts: Sequence[tuple[int, PolicyVerdict]],
) -> pa.RecordBatch:
    records, count = batch.records, len(batch.records)
    columns = StoredColumns(records)

    def constant(value: Any, kind: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, kind), count)

    make = {
        "key": lambda: _binary(columns.keys),
        "value": lambda: _binary(columns.values),
        "topic": lambda: constant(topic, pa.string()),
        "partition": lambda: constant(partition, pa.int32()),
        "offset": lambda: pa.array(batch.offsets, pa.int64()),
        "timestamp": lambda: _timestamps(records.timestamps),
        "timestampType": lambda: constant(int(batch.is_log_append_time), pa.int32()),
        "headers": lambda: headers_array(_with_far_times(records)),
        VERDICT: lambda: verdict_array(count, verdicts),
    }
    return pa.RecordBatch.from_arrays([make[name]() for name in names], list(names))


def _binary(column: Any) -> pa.Array:
    array = column.arrow
    if array is None:
        return pa.array(list(column), pa.binary())
    return array if array.type == pa.binary() else array.cast(pa.binary())


def _timestamps(in_ms: Sequence[int]) -> pa.Array:
    """Return timestamps; null where they are far."""
    milliseconds = pa.array(in_ms, pa.int64())
    try:
        micros = pc.multiply_checked(milliseconds, _MICROS)
    except pa.ArrowInvalid:
        fit = [None if is_far(timestamp) else timestamp for timestamp in in_ms]
        micros = pc.multiply_checked(pa.array(fit, pa.int64()), _MICROS)
    return micros.cast(_TIMESTAMP)


def _with_far_times(records: StoredRecords) -> Sequence[tuple[Header, ...]]:
    """Return the headers of each record, with its timestamp if that is far."""
    headers, timestamps = records.headers, records.timestamps
    if not any(map(is_far, (min(timestamps, default=0), max(timestamps, default=0)))):
        return headers
    return [
        with_far_time(own, timestamp) if is_far(timestamp) else own
        for own, timestamp in zip(headers, timestamps, strict=True)
    ]

"""Records as batches of Arrow, with Kafka's columns: in Parquet files, and in frames of Spark."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from penstock.errors import MalformedError
from penstock.jobs.rows.far_times import in_row, read_far_time
from penstock.jobs.rows.records import RecordRow
from penstock.policy import Header

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
HEADERS: Final = pa.list_(pa.field("element", _HEADER))
"""The type of headers, as Parquet names its parts."""
SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", HEADERS),
    ]
)
"""Kafka's columns, as they are written."""
_PLAIN: Final = ("topic", "partition", "offset", "key", "value")
_MICROS: Final = 1000


def rows_of(columns: Mapping[str, pa.Array]) -> Iterator[RecordRow]:
    """Return the records of a batch.

    Args:
        columns: Kafka's columns; `timestampType` and `headers` can be missing.

    Raises:
        MalformedError: A header is null.
    """
    # Not Python's times, which end with the year 9999; and ms have times that microseconds do not.
    unit = "ms" if columns["timestamp"].type.unit == "ms" else "us"
    times = columns["timestamp"].cast(pa.timestamp(unit), safe=False).cast(pa.int64()).to_pylist()
    in_ms = 1 if unit == "ms" else _MICROS
    count = len(times)
    kinds = columns["timestampType"].to_pylist() if "timestampType" in columns else [None] * count
    all_headers: Sequence[tuple[Header, ...]] = ((),) * count
    if "headers" in columns:
        if columns["headers"].flatten().null_count:
            raise MalformedError("a record has a header that is null")
        all_headers = headers_of(columns["headers"])
    fields = (columns[name].to_pylist() for name in _PLAIN)
    for topic, partition, offset, key, value, time, kind, headers in zip(
        *fields, times, kinds, all_headers, strict=True
    ):
        far = read_far_time(headers) if time is None else None
        timestamp, own = far or (None if time is None else time // in_ms, headers)
        yield RecordRow(topic, partition, offset, timestamp, kind, key, value, own)


def batch_of(rows: Iterable[RecordRow]) -> pa.RecordBatch:
    """Return records as a batch with the columns of `SCHEMA`."""
    records = [in_row(row) for row in rows]
    times = [None if row.timestamp is None else row.timestamp * _MICROS for row in records]
    columns: dict[str, Sequence[Any]] = {
        "key": [row.key for row in records],
        "value": [row.value for row in records],
        "topic": [row.topic for row in records],
        "partition": [row.partition for row in records],
        "offset": [row.offset for row in records],
        "timestamp": times,
        "timestampType": [row.timestamp_type for row in records],
    }
    arrays = [pa.array(entries, SCHEMA.field(name).type) for name, entries in columns.items()]
    headers = headers_array([row.headers for row in records])
    return pa.RecordBatch.from_arrays([*arrays, headers], schema=SCHEMA)


def headers_array(all_headers: Sequence[Sequence[Header]], kind: pa.DataType = HEADERS) -> pa.Array:
    """Return the headers of records; null for none, as in Spark's Kafka source.

    Args:
        kind: The type of the array: a list of structs of `key` and `value`.
    """
    if not any(all_headers):
        return pa.nulls(len(all_headers), kind)
    keys: list[str] = []
    values: list[bytes | None] = []
    starts: list[int | None] = []
    for headers in all_headers:
        starts.append(len(keys) if headers else None)
        for key, value in headers:
            keys.append(key)
            values.append(value)
    entries = pa.StructArray.from_arrays(
        [pa.array(keys, pa.string()), pa.array(values, pa.binary())], fields=list(kind.value_type)
    )
    return pa.ListArray.from_arrays(pa.array([*starts, len(keys)], pa.int32()), entries, type=kind)


def headers_of(array: pa.Array) -> Sequence[tuple[Header, ...]]:
    """Return the headers of records.

    Args:
        array: Lists of structs of `key` and `value`. A null in a list is a header without a key.
    """
    if array.null_count == len(array):
        return ((),) * len(array)
    offsets = array.offsets.to_pylist()
    first, last = offsets[0], offsets[-1]
    if first == last:
        return ((),) * len(array)
    entries = array.values.slice(first, last - first)
    # A struct array's fields do not follow its slices in every version: flatten() does.
    keys, values = (field.to_pylist() for field in entries.flatten())
    flat = list(map(Header, keys, values))
    return [
        tuple(flat[begin - first : end - first]) if begin < end else ()
        for begin, end in pairwise(offsets)
    ]

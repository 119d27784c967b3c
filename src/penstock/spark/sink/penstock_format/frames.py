"""Converts rows of Spark to Arrow record batches, if Spark passes a sink rows (PySpark 4.0)."""

from __future__ import annotations

import datetime as dt
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.types import Row, StructType

_ROWS: Final = 2000
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICRO: Final = dt.timedelta(microseconds=1)
_TYPES: Final = {
    "binary": pa.binary(),
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
}
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_HEADERS_NAME: Final = "headers"


def record_batches(rows: Iterator[Row], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Return rows as record batches of a bounded number of rows.

    Args:
        schema: Their columns: Kafka's; others are left out.
    """
    kinds = {
        field.name: _HEADERS
        if field.name.lower() == _HEADERS_NAME
        else _TYPES.get(field.dataType.simpleString())
        for field in schema.fields
    }
    names = schema.fieldNames()
    kafka_columns = [
        (names.index(name), name, kind) for name, kind in kinds.items() if kind is not None
    ]
    while some := list(islice(rows, _ROWS)):
        arrays = [
            pa.array([_plain(row[index], kind) for row in some], kind)
            for index, _, kind in kafka_columns
        ]
        yield pa.RecordBatch.from_arrays(arrays, [name for _, name, _ in kafka_columns])


def _plain(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if kind == _HEADERS:
        return [{"key": entry[0], "value": _bytes(entry[1])} for entry in value]
    if isinstance(value, dt.datetime):
        # PySpark passes times without a zone, which are in this process's zone.
        return (value.astimezone(dt.UTC) - _EPOCH) // _MICRO
    return _bytes(value)


def _bytes(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value

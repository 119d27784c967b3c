"""Encodes the records of a batch in Python, with aiokafka's builder.

It writes no header whose key is not UTF-8, which a broker may store: such a batch is written here.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final, Protocol

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from penstock.kafka.records.header import HEADER, MAGIC, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_NO_LIMIT: Final = 2**31 - 1
_FIRST_RECORD_BYTES: Final = 7


class SizeOf(Protocol):
    """Returns how many bytes a record takes at least."""

    def __call__(
        self,
        offset_delta: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]],
        /,
    ) -> int: ...


def sizes(base_timestamp: int) -> SizeOf:
    """Return the function that measures records of a batch.

    Of a batch whose base timestamp is -1 it takes timestamps for -1.
    """
    builder = DefaultRecordBatchBuilder(MAGIC, 0, 0, -1, -1, -1, _NO_LIMIT)
    builder.append(0, base_timestamp, None, None, [])
    size_of: SizeOf = builder.size_in_bytes
    return size_of


def build(
    base_timestamp: int,
    timestamps: Sequence[int],
    keys: Iterable[bytes | None],
    values: Iterable[bytes | None],
    headers: Iterable[Sequence[tuple[str, bytes | None]]],
    *,
    first: int = 0,
    any_header_keys: bool = False,
) -> bytes:
    """Encode records.

    Args:
        base_timestamp: What their timestamps are relative to.
        timestamps: In ms.
        first: How many records are before these in their batch.
        any_header_keys: Whether bytes of header keys may be surrogates (PEP 383).

    Raises:
        ValueError: They do not fit a batch.
    """
    deltas = (wrapped(timestamp - base_timestamp) for timestamp in timestamps)
    if any_header_keys:
        return b"".join(map(_encode, count(first), deltas, keys, values, headers))
    builder = DefaultRecordBatchBuilder(MAGIC, 0, 0, -1, -1, -1, _NO_LIMIT)
    # The builder takes the first record's timestamp as the base: an empty record that is cut off
    # again represents it. Only differences are written, so the base is 0 here, and -1, which the
    # builder takes for "no record yet", is none.
    builder.append(0, 0, None, None, [])
    numbers = range(first, first + len(timestamps))
    append_results = map(builder.append, numbers, deltas, keys, values, headers)
    if not all(append_results):
        raise ValueError("records that do not fit a batch")
    return bytes(memoryview(builder.build())[HEADER.size + _FIRST_RECORD_BYTES :])


def _encode(
    position: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
) -> bytes:
    parts = [b"\0", _varint(timestamp_delta), _varint(position), _field(key), _field(value)]
    parts.append(_varint(len(headers)))
    for name, field in headers:
        parts += (_field(name.encode(errors="surrogateescape")), _field(field))
    record = b"".join(parts)
    return _varint(len(record)) + record


def _field(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _varint(number: int) -> bytes:
    raw = number << 1 ^ number >> 63
    buffer = bytearray()
    while raw > 0x7F:
        buffer.append(raw & 0x7F | 0x80)
        raw >>= 7
    buffer.append(raw)
    return bytes(buffer)

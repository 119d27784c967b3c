"""Encodes the records of a batch in Python, with aiokafka's builder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from penstock.records.header import HEADER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MAGIC: Final = 2
_NO_LIMIT: Final = 2**31 - 1
_FIRST_RECORD_BYTES: Final = 7
_INT64: Final = 2**64


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
    builder = DefaultRecordBatchBuilder(_MAGIC, 0, 0, -1, -1, -1, _NO_LIMIT)
    builder.append(0, base_timestamp, None, None, [])
    size_of: SizeOf = builder.size_in_bytes
    return size_of


def build(
    base_timestamp: int,
    timestamps: Sequence[int],
    keys: Iterable[bytes | None],
    values: Iterable[bytes | None],
    headers: Iterable[Sequence[tuple[str, bytes | None]]],
) -> bytes:
    """Encode records.

    Args:
        base_timestamp: What their timestamps are relative to.
        timestamps: In ms.
        keys: For each of them.
        values: For each of them.
        headers: For each of them.

    Raises:
        ValueError: They do not fit a batch.
    """
    builder = DefaultRecordBatchBuilder(_MAGIC, 0, 0, -1, -1, -1, _NO_LIMIT)
    # The builder takes the first record's timestamp as the base: an empty record that is cut off
    # again stands for it. Only differences are written, so the base is 0 here, and -1, which the
    # builder takes for "no record yet", is none.
    builder.append(0, 0, None, None, [])
    deltas = (_wrapped(timestamp - base_timestamp) for timestamp in timestamps)
    written = map(builder.append, range(len(timestamps)), deltas, keys, values, headers)
    if not all(written):
        raise ValueError("records that do not fit a batch")
    return bytes(memoryview(builder.build())[HEADER.size + _FIRST_RECORD_BYTES :])


def _wrapped(delta: int) -> int:
    """Return a difference of 64-bit numbers as a 64-bit number, as readers add it."""
    return (delta + _INT64 // 2) % _INT64 - _INT64 // 2

"""Records that `penstock._native` reads, the extension in Rust (`native/`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock import _native
from penstock.kafka.error_codes import INVALID_RECORD
from penstock.kafka.records.errors import UnreadableRecords
from penstock.kafka.records.header import BASE_TIMESTAMP, BASE_TIMESTAMP_AT, HEADER
from penstock.policy.records import Header

if TYPE_CHECKING:
    from penstock.kafka.records.stored import StoredBatches, StoredRecords

new_header = partial(tuple.__new__, Header)
"""What the native module makes headers of records with."""


def read(view: memoryview, count: int) -> StoredRecords:
    """Read the records of a producer.

    Args:
        view: The batch, header included, its records uncompressed.
        count: How many records the header announces; at least 1.

    Raises:
        UnreadableRecords: The bytes are not exactly as many records (87).
    """
    (base_timestamp,) = BASE_TIMESTAMP.unpack_from(view, BASE_TIMESTAMP_AT)
    try:
        records: StoredRecords = _native.read(
            view[HEADER.size :], count, base_timestamp, new_header
        )
    except _native.InvalidRecords as wrong:
        raise UnreadableRecords(INVALID_RECORD, str(wrong)) from None
    return records


def read_stored(
    view: memoryview, count: int, last_offset_delta: int, log_append_time: int | None
) -> StoredRecords:
    """Read the records of a stored batch.

    Args:
        view: The batch, its records uncompressed, base offset and attributes of its header zero.
        count: How many records the header announces.
        last_offset_delta: Of the header.
        log_append_time: The timestamp that a broker gave all of them, or None.

    Raises:
        UnreadableRecords: The bytes are not exactly as many records (87).
    """
    (base_timestamp,) = BASE_TIMESTAMP.unpack_from(view, BASE_TIMESTAMP_AT)
    section = view[HEADER.size :]
    try:
        records: StoredRecords = _native.read_stored(
            section, count, base_timestamp, new_header, last_offset_delta, log_append_time
        )
    except _native.InvalidRecords as wrong:
        raise UnreadableRecords(INVALID_RECORD, str(wrong)) from None
    return records


def stored_batches(response: memoryview) -> StoredBatches:
    """Return the function that merges small batches of a fetch response.

    Args:
        response: The batches. They are copied.
    """
    return partial(_native.StoredBatches(response).merge, new_header=new_header)

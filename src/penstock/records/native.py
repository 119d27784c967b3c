"""Records read by `penstock_native`, the Rust extension in `native/`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.error_codes import INVALID_RECORD
from penstock.policy.records import Header
from penstock.records.errors import UnreadableRecords
from penstock.records.header import BASE_TIMESTAMP, BASE_TIMESTAMP_AT, HEADER

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.records.stored import StoredBatches, StoredRecords

_new_header = partial(tuple.__new__, Header)


def reader(module: Any) -> Callable[[memoryview, int], StoredRecords]:
    """Return the function that reads records.

    It takes the batch, header included and records uncompressed, and how many records the header
    announces; at least 1. It raises `UnreadableRecords` (87) if the bytes are not exactly as many
    records.

    Args:
        module: `penstock_native`.
    """

    def read(view: memoryview, count: int) -> StoredRecords:
        (base_timestamp,) = BASE_TIMESTAMP.unpack_from(view, BASE_TIMESTAMP_AT)
        try:
            records: StoredRecords = module.read(
                view[HEADER.size :], count, base_timestamp, _new_header
            )
        except module.InvalidRecords as wrong:
            raise UnreadableRecords(INVALID_RECORD, str(wrong)) from None
        return records

    return read


def stored_reader(module: Any) -> Callable[[memoryview, int, int, int | None], StoredRecords]:
    """Return the function that reads stored batches.

    It takes the batch, header included and records uncompressed, how many records the header
    announces, its last offset delta, and the timestamp that a broker gave all of them, or None. It
    raises `UnreadableRecords` (87) as the reader of `reader`.

    Args:
        module: `penstock_native`.
    """

    def read(
        view: memoryview, count: int, last_offset_delta: int, log_append_time: int | None
    ) -> StoredRecords:
        (base_timestamp,) = BASE_TIMESTAMP.unpack_from(view, BASE_TIMESTAMP_AT)
        section = view[HEADER.size :]
        try:
            records: StoredRecords = module.read_stored(
                section, count, base_timestamp, _new_header, last_offset_delta, log_append_time
            )
        except module.InvalidRecords as wrong:
            raise UnreadableRecords(INVALID_RECORD, str(wrong)) from None
        return records

    return read


def batches_reader(module: Any) -> Callable[[memoryview], StoredBatches]:
    """Return the function that copies the batches of a fetch response, to merge small batches.

    Args:
        module: `penstock_native`.
    """

    def read(response: memoryview) -> StoredBatches:
        return partial(module.StoredBatches(response).merge, new_header=_new_header)

    return read

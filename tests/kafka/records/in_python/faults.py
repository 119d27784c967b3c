"""Finds the first error in the records of a batch, and describes it.

With a broker's message if it has one (DefaultRecord, DefaultRecordBatch). It is slow, and runs
only for records that cannot be read; `native/src/section.rs` and `fault.rs` are the same in Rust.
"""

from __future__ import annotations

from typing import Final

from tests.kafka.records.in_python.single_record import PRODUCER, RecordOrigin, read_record

REMAINING: Final = "Incorrect declared batch size, records still remaining in file"


def find_fault(
    section: bytes | memoryview,
    count: int,
    *,
    first: int = 0,
    start: int = 0,
    before: int = -1,
    origin: RecordOrigin = PRODUCER,
) -> str | None:
    """Return the first error, and the record that has it.

    Args:
        section: The bytes after the header of a batch, uncompressed.
        count: How many records the header announces.
        first: The position of a record; those before it are valid.
        start: Its position in the section, in bytes.
        before: The offset delta of the record before it; -1 for none.
        origin: Where the records come from.

    Returns:
        The message; None if the records are valid.
    """
    for position in range(first, count):
        try:
            # A broker may store records that aiokafka cannot read: all of them are checked.
            record = read_record(section, start, before, origin, thorough=origin.is_log)
        except ValueError as fault:
            return f"{fault} (record {position} of the batch)"
        start, before = record.end, record.delta
    return REMAINING if start != len(section) else None


def find_overlong(
    section: bytes | memoryview,
    start: int,
    position: int,
    *,
    before: int = -1,
    origin: RecordOrigin = PRODUCER,
) -> str | None:
    """Return the fault of a record that a more lenient reader has decoded.

    Args:
        section: The bytes after the header of a batch, uncompressed.
        start: The record's position in the section, in bytes.
        position: The record's number.
        before: The offset delta of the record before it; -1 for none.
        origin: Where the records come from.

    Returns:
        The message; None if the record is valid.
    """
    try:
        read_record(section, start, before, origin, thorough=True)
    except ValueError as fault:
        return f"{fault} (record {position} of the batch)"
    return None

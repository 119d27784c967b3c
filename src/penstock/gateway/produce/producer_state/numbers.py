"""Sequence numbers: non-negative int32, wrapping around to 0 (DefaultRecordBatch.java)."""

from __future__ import annotations

from typing import Final, NamedTuple

NUMBERS: Final = 2**31


class Range(NamedTuple):
    """The sequence numbers of one batch.

    Attributes:
        first: The first one.
        count: How many there are.
        checksum: The CRC of the batch; 0 if it is not known. It distinguishes batches of clients
            that reuse sequence numbers for other records.
    """

    first: int
    count: int  # type: ignore[assignment]  # tuples have a method of that name
    checksum: int = 0


def add(number: int, count: int) -> int:
    """Return the sequence number `count` records after another (or before it, if negative)."""
    return (number + count) % NUMBERS


def distance(number: int, other: int) -> int:
    """Return the records from one sequence number to another; negative if it is before it."""
    ahead = (other - number) % NUMBERS
    return ahead if ahead < NUMBERS // 2 else ahead - NUMBERS

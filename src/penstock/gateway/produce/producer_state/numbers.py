"""Sequence numbers: int32, not negative, beginning again at 0 (DefaultRecordBatch.java)."""

from __future__ import annotations

from typing import Final, NamedTuple

NUMBERS: Final = 2**31


class Range(NamedTuple):
    """The sequence numbers of one batch.

    Attributes:
        first: The first.
        count: How many.
        checksum: What the batch's sender computed over it; 0 where that is not known. Some
            clients use numbers again for other records.
    """

    first: int
    count: int  # type: ignore[assignment]  # tuples have a method of that name
    checksum: int = 0


def add(number: int, count: int) -> int:
    """Return the number so many records after (or before) another."""
    return (number + count) % NUMBERS


def distance(number: int, other: int) -> int:
    """Return how many records a number comes before another; negative if it comes after."""
    ahead = (other - number) % NUMBERS
    return ahead if ahead < NUMBERS // 2 else ahead - NUMBERS

"""Sequence numbers of producers: non-negative int32, wrapping around to 0.

The source is DefaultRecordBatch.java.
"""

from __future__ import annotations

from typing import Final

SEQUENCES: Final = 2**31
"""How many there are."""


def add(number: int, count: int) -> int:
    """Return the sequence number `count` records after another (or before it, if negative)."""
    return (number + count) % SEQUENCES


def distance(number: int, other: int) -> int:
    """Return the records from one sequence number to another; negative if that is before it."""
    ahead = (other - number) % SEQUENCES
    return ahead if ahead < SEQUENCES // 2 else ahead - SEQUENCES

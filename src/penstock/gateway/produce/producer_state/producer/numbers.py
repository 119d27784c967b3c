"""Sequence numbers: non-negative int32, wrapping around to 0 (DefaultRecordBatch.java)."""

from __future__ import annotations

from typing import NamedTuple

from penstock.kafka.records.sequences import add, distance

__all__ = ["Range", "add", "distance"]


class Range(NamedTuple):
    """The sequence numbers of one batch.

    Attributes:
        first: The first number.
        count: How many there are.
        checksum: The CRC of the batch; 0 if it is not known. It distinguishes batches of clients
            that reuse sequence numbers for other records.
    """

    first: int
    count: int  # type: ignore[assignment]  # tuples have a method of that name
    checksum: int = 0

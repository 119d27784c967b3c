"""Timestamps whose microseconds do not fit 64 bits, as those of Arrow, Parquet and Spark have to.

Brokers store any timestamp. In a row, such a timestamp is null, and a header has it: the last one,
which is not the record's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.engine.modes.dead_letters import TIMESTAMP, read_timestamp
from penstock.policy import Header

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.jobs.rows.records import RecordRow

MS_MAX: Final = (2**63 - 1) // 1000
"""The largest timestamp of Arrow and Spark, which have microseconds."""


class FarTime(NamedTuple):
    """A timestamp that is in a header.

    Attributes:
        timestamp: In ms since 1970.
        headers: The record's own headers, without it.
    """

    timestamp: int
    headers: tuple[Header, ...]


def is_far(timestamp: int) -> bool:
    """Return whether a timestamp in ms does not fit a row."""
    return abs(timestamp) > MS_MAX


def with_far_time(headers: Sequence[Header], timestamp: int) -> tuple[Header, ...]:
    """Return the headers of a row whose timestamp is null, as it is far.

    Args:
        headers: Of the record.
        timestamp: In ms.
    """
    return (*headers, Header(TIMESTAMP, b"%d" % timestamp))


def in_row(record: RecordRow) -> RecordRow:
    """Return a record whose timestamp fits a row: null, and in a header, if it is far."""
    if record.timestamp is None or not is_far(record.timestamp):
        return record
    headers = with_far_time(record.headers, record.timestamp)
    return record._replace(timestamp=None, headers=headers)


def read_far_time(headers: Sequence[Header]) -> FarTime | None:
    """Return the timestamp of a row where it is null; None if its last header has none.

    Args:
        headers: Of the row.
    """
    time = read_timestamp(headers[-1:])
    return FarTime(time, tuple(headers[:-1])) if time is not None and is_far(time) else None

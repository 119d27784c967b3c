"""Dates and times for columns, from ISO 8601 texts or from the values of a schema's types."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

from penstock.spark.values.misfits import MisfitError, kind_of

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICRO: Final = dt.timedelta(microseconds=1)


def date(value: Any) -> dt.date:
    """Return a DATE.

    Raises:
        MisfitError: It is of another kind, or a text with anything else.
    """
    if type(value) is dt.date:
        return value
    if type(value) is not str:
        raise MisfitError(f"is {kind_of(value)}, not DATE")
    try:
        return dt.date.fromisoformat(value)
    except ValueError:
        raise MisfitError("is a string, not a DATE such as 2026-11-17") from None


def timestamp(value: Any) -> int:
    """Return a TIMESTAMP in microseconds; a time without a zone is in UTC.

    Raises:
        MisfitError: It is of another kind, or a text with anything else.
    """
    time = _time(value, "TIMESTAMP", "2026-11-17T10:00:00Z")
    return _micros(time if time.tzinfo is not None else time.replace(tzinfo=dt.UTC))


def local_timestamp(value: Any) -> int:
    """Return a TIMESTAMP_NTZ in microseconds.

    Raises:
        MisfitError: It is of another kind, has a zone, or is a text with anything else.
    """
    time = _time(value, "TIMESTAMP_NTZ", "2026-11-17T10:00:00")
    if time.tzinfo is not None:
        raise MisfitError("is a time with a zone, not TIMESTAMP_NTZ")
    return _micros(time.replace(tzinfo=dt.UTC))


def _time(value: Any, name: str, example: str) -> dt.datetime:
    if isinstance(value, dt.datetime):
        return value
    if type(value) is not str:
        raise MisfitError(f"is {kind_of(value)}, not {name}")
    try:
        return dt.datetime.fromisoformat(value)
    except ValueError:
        raise MisfitError(f"is a string, not a {name} such as {example}") from None


def _micros(time: dt.datetime) -> int:
    return (time - _EPOCH) // _MICRO

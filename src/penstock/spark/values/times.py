"""Dates and times for columns, from ISO 8601 texts or from the values of a schema's types.

Of the texts of ISO 8601, those are read that RFC 3339 has, also without seconds or a zone. More
digits than those of microseconds are cut: no type of Spark's has nanoseconds.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

from penstock.spark.values.misfits import MisfitError, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

Read = TypeVar("Read", bound=dt.date)

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICRO: Final = dt.timedelta(microseconds=1)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME: Final = re.compile(
    _DATE.pattern
    + r"[T ](?:[01][0-9]|2[0-3]):[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?"
    + r"(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)


def date(value: Any) -> dt.date:
    """Return a DATE.

    Raises:
        MisfitError: It is of another kind, or a text with anything else.
    """
    if type(value) is dt.date:
        return value
    return _read(value, _DATE, dt.date.fromisoformat, "DATE", "2026-11-17")


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
    return _read(value, _TIME, dt.datetime.fromisoformat, name, example)


def _read(
    value: Any, pattern: re.Pattern[str], parser: Callable[[str], Read], name: str, example: str
) -> Read:
    if type(value) is not str:
        raise MisfitError(f"is {kind_of(value)}, not {name}")
    try:
        if pattern.fullmatch(value):
            return parser(value)
    except ValueError:
        pass
    raise MisfitError(f"is a string, not a {name} such as {example}")


def _micros(time: dt.datetime) -> int:
    return (time - _EPOCH) // _MICRO

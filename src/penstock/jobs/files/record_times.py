"""The timestamps of records in JSON lines: the same forms for all commands that read them."""

from __future__ import annotations

import datetime as dt
import re
from typing import Final

_FORMS: Final = (
    "timestamp must be an ISO time such as 2026-01-31T12:00:00Z, or milliseconds since 1970"
)
_SECONDS: Final = (10**8, 10**11 - 1)
"""Numbers of today's times in seconds; in ms, they are times of the first years after 1970."""
_NUMBER: Final = re.compile(r"-?\d{1,19}", re.ASCII)
_INT64: Final = range(-(2**63), 2**63)
_ISO: Final = re.compile(
    r"[+-]?\d{4,6}-\d\d-\d\d"
    r"([T ]\d\d:\d\d(:\d\d(\.\d{1,9})?[+-]\d\d(\d\d)?"
    r"|(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d(:\d\d)?)?))?",
    re.ASCII,
)
_FAR_YEAR: Final = re.compile(r"([+-]\d{4,6})(-.*)")
_CYCLE: Final = 400
"""The calendar repeats after so many years."""
_CYCLE_TIME: Final = dt.timedelta(days=146_097)
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MS: Final = dt.timedelta(milliseconds=1)


def timestamp_ms(value: object) -> int:
    """Return the milliseconds since 1970 that a timestamp means.

    Args:
        value: An ISO time, in UTC if it names no zone, whose year has up to six digits, as Spark
            writes it; or a whole number of milliseconds, which can be text.

    Raises:
        ValueError: It is none of these, or probably in seconds. The text is for users, and does
            not contain it.
    """
    text = "" if isinstance(value, bool) or not isinstance(value, int | str) else str(value)
    if _NUMBER.fullmatch(text):
        number = int(text)
        if _SECONDS[0] <= number <= _SECONDS[1]:
            raise ValueError(f"{_FORMS}, and not in seconds")
        if number not in _INT64:
            raise ValueError(_FORMS)
        return number
    if not _ISO.fullmatch(text):
        raise ValueError(_FORMS)
    try:
        return _milliseconds(text)
    except ValueError:
        raise ValueError(_FORMS) from None


def _milliseconds(time: str) -> int:
    years = 0
    if far := _FAR_YEAR.fullmatch(time):
        near = _CYCLE * 5 + int(far[1]) % _CYCLE
        years = int(far[1]) - near
        time = f"{near}{far[2]}"
    moment = dt.datetime.fromisoformat(time)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return (moment - _EPOCH) // _MS + years // _CYCLE * (_CYCLE_TIME // _MS)

"""The offsets of a session's time zone, as `to_json` writes them."""

from __future__ import annotations

import datetime as dt
import re
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

_UTC: Final = frozenset(("UTC", "Etc/UTC", "GMT", "Z", "Etc/GMT", "Zulu", "UCT", "Etc/UCT"))
_FIXED: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d\d))?")
_CYCLE_S: Final = 146_097 * 86_400
"""400 years, after which days of the week and of the year repeat."""
_FIRST_S: Final = -62_135_510_400
"""The second day of the first year that Python has."""
_LAST_S: Final = 253_402_214_400
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def is_known(name: str) -> bool:
    """Return whether there is a zone here; Java has some more names."""
    try:
        offsets_of(np.zeros(1, np.int64), name)
    except (ZoneInfoNotFoundError, ValueError):
        return False
    return True


def offsets_of(micros: Any, name: str | None) -> Any:
    """Return the seconds that a zone's clocks are ahead at some times.

    Args:
        micros: The times, in microseconds since the epoch.
        name: The zone; None for times without one.

    Returns:
        A number for each; None for times without a zone.

    Raises:
        zoneinfo.ZoneInfoNotFoundError: There is no such zone here.
    """
    if name is None:
        return None
    if name in _UTC:
        return np.zeros(len(micros), np.int64)
    fixed = _FIXED.fullmatch(name)
    if fixed is not None:
        sign, hours, minutes = fixed.groups()
        seconds = int(hours) * 3600 + int(minutes or 0) * 60
        return np.full(len(micros), -seconds if sign == "-" else seconds, np.int64)
    zone = ZoneInfo(name)
    seconds = micros // 1_000_000
    return np.fromiter((_offset(zone, second) for second in seconds.tolist()), np.int64)


def offset_texts(offsets: Any) -> list[str]:
    """Return offsets in the form that Spark has Java write."""
    return [_text(offset) for offset in offsets.tolist()]


def _offset(zone: ZoneInfo, second: int) -> int:
    if second > _LAST_S:
        second -= -(-(second - _LAST_S) // _CYCLE_S) * _CYCLE_S
    time = _EPOCH + dt.timedelta(seconds=max(second, _FIRST_S))
    offset = time.astimezone(zone).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


@lru_cache(1000)
def _text(offset: int) -> str:
    if not offset:
        return "Z"
    minutes, seconds = divmod(abs(offset), 60)
    more = f":{seconds:02}" if seconds else ""
    return f"{'-' if offset < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}{more}"

"""The timestamps that Confluent adds to CEL: `timestamp.of(…)`, and `timestamp(value, precision)`.

Sources: `TimestampUtils` of Confluent's rules for Java, `timestamp_funcs.py` of its Python client.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

PER_SECOND: Final = {"seconds": 1, "millis": 10**3, "micros": 10**6, "nanos": 10**9}
_PRECISIONS: Final = {0: 1, 3: 10**3, 6: 10**6, 9: 10**9}
_FIRST: Final = -62_135_596_800
"""The seconds of the year 1; CEL has none before it, and none after the year 9999."""
_LAST: Final = 253_402_300_799


def of_epoch(value: int, per_second: int) -> Any:
    """Return the timestamp of a count since 1970.

    Raises:
        ValueError: It is not between the years 1 and 9999.
    """
    seconds, rest = divmod(value, per_second)
    if not _FIRST <= seconds <= _LAST:
        raise ValueError("the timestamp is out of range")
    return Timestamp(seconds=seconds, nanos=rest * (10**9 // per_second))


def of_unit(value: int, unit: str) -> Any:
    """Return the timestamp of a count of `seconds`, `millis`, `micros` or `nanos`."""
    per_second = PER_SECOND.get(unit)
    if per_second is None:
        raise ValueError("no unit of time")
    return of_epoch(value, per_second)


_RFC_3339: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


def of_text(text: str) -> Any:
    """Return the timestamp of a text with its distance from UTC, as RFC 3339 has it.

    Raises:
        ValueError: It has another form.
    """
    if _RFC_3339.fullmatch(text) is None:  # `fromisoformat` takes more, also behind the end
        raise ValueError("the timestamp is not of RFC 3339")
    instant = dt.datetime.fromisoformat(text)
    stamp = Timestamp()
    stamp.FromDatetime(instant)
    return stamp


def of_precision(value: int, precision: int) -> Any:
    """Return the timestamp of a count of so many decimal places of a second."""
    per_second = _PRECISIONS.get(precision)
    if per_second is None:
        raise ValueError("no precision of time")
    return of_epoch(value, per_second)

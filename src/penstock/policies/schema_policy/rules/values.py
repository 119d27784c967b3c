"""Values as CEL takes them."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from typing import Any, Final

from google.protobuf import duration_pb2, timestamp_pb2

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_EPOCH_DAY: Final = dt.date(1970, 1, 1)


def without_logical_types(value: Any) -> Any:
    """Return a value of Avro with Python's dates and decimals as CEL has such.

    A timestamp and a duration are CEL's; a date is the number of days since 1970-01-01, a time
    of day that of milliseconds since midnight, a UUID its text (Confluent's conversions). A
    decimal is a double: to 15 digits, a comparison with a constant is exact.
    """
    if isinstance(value, dict):
        return {key: without_logical_types(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_logical_types(inner) for inner in value]
    convert = _CONVERSIONS.get(type(value))
    return value if convert is None else convert(value)


def weighs_more_than(value: Any, limit: int) -> bool:
    """Return whether a value has more than so many characters, bytes and items altogether.

    The work is bounded by the limit, not by the value.
    """
    if hasattr(value, "ByteSize"):
        return bool(value.ByteSize() > limit)
    weight = 0
    waiting = [value]
    while waiting and weight <= limit:
        found = waiting.pop()
        weight += 1
        if isinstance(found, (str, bytes)):
            weight += len(found)
        elif isinstance(found, dict):
            weight += len(found)
            if weight <= limit:
                waiting.extend(found.keys())
                waiting.extend(found.values())
        elif isinstance(found, (list, tuple)):
            weight += len(found)
            if weight <= limit:
                waiting.extend(found)
        elif hasattr(found, "ByteSize"):
            weight += found.ByteSize()
    return weight > limit


def _timestamp(value: dt.datetime) -> timestamp_pb2.Timestamp:
    moment = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
    since = moment - _EPOCH
    return timestamp_pb2.Timestamp(
        seconds=since.days * 86400 + since.seconds, nanos=since.microseconds * 1000
    )


def _duration(value: dt.timedelta) -> duration_pb2.Duration:
    made = duration_pb2.Duration()
    made.FromTimedelta(value)
    return made


def _time_of_day(value: dt.time) -> int:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1000 + value.microsecond // 1000


_CONVERSIONS: Final[dict[type, Any]] = {
    dt.datetime: _timestamp,
    dt.timedelta: _duration,
    dt.date: lambda value: (value - _EPOCH_DAY).days,
    dt.time: _time_of_day,
    decimal.Decimal: float,
    uuid.UUID: str,
}

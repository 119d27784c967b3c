"""Records by the hour of their time, in a bounded number of bins."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

HOUR_MS: Final = 3_600_000
BINS_MAX: Final = 30_000
"""The maximum number of bins: hours of more than three years."""
WIDTHS: Final = (1, 24, 7 * 24, 52 * 7 * 24)
"""The widths of bins in hours. The widest divides all times that are in range into few enough."""
_HOURS_END: Final = (253_402_300_800_000) // HOUR_MS
"""The first hour of the year 10000, which neither Python nor ISO 8601 can write."""
_FIRST: Final = -3 * 24
"""A Monday, from which the bins of every width are counted."""
_NO_TIME: Final = -1
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def hour_of(timestamp_ms: int) -> int | None:
    """Return the hour since the epoch of a record's timestamp; None if it has no time (-1).

    It can be out of range, for example if it is in microseconds: `TimeBins.add` reports that.
    """
    return None if timestamp_ms == _NO_TIME else timestamp_ms // HOUR_MS


def in_range(hour: int) -> bool:
    """Return whether an hour is from 1970 to 9999."""
    return 0 <= hour < _HOURS_END


def moment(hour: int) -> dt.datetime:
    """Return an hour that is in range as a time."""
    return _EPOCH + dt.timedelta(hours=hour)


def start_of(hour: int, width: int) -> int:
    """Return the first hour of the bin that an hour belongs to."""
    return (hour - _FIRST) // width * width + _FIRST


@dataclass
class TimeBins:
    """Records by outcome and time.

    The bins are of one hour, and wider (a day, a week, 52 weeks) when there would be more than
    `BINS_MAX` of them.

    Attributes:
        width: The width of the bins, in hours.
        bins: By the first hour of the bin, records by outcome.
        without_time: Records without a time, by outcome.
        out_of_range: Records with a time before 1970 or after 9999, by outcome.
    """

    width: int = WIDTHS[0]
    bins: dict[int, Counter[str]] = field(default_factory=dict)
    without_time: Counter[str] = field(default_factory=Counter)
    out_of_range: Counter[str] = field(default_factory=Counter)

    def add(self, hour: int | None, outcome: str, count: int) -> None:
        """Count records of an hour (since the epoch); None for those without a time."""
        if hour is None:
            self.without_time[outcome] += count
        elif not in_range(hour):
            self.out_of_range[outcome] += count
        else:
            self.add_bin(hour, Counter({outcome: count}))

    def add_bin(self, hour: int, counts: Counter[str]) -> None:
        """Count the records of a bin that starts at an hour, and is at most as wide as these."""
        self.bins.setdefault(start_of(hour, self.width), Counter()).update(counts)
        while len(self.bins) > BINS_MAX:
            self.widen(next(width for width in WIDTHS if width > self.width))

    def widen(self, width: int) -> None:
        """Use bins of at least a width, one of `WIDTHS`."""
        if width <= self.width:
            return
        narrow, self.bins, self.width = self.bins, {}, width
        for hour, counts in narrow.items():
            self.bins.setdefault(start_of(hour, width), Counter()).update(counts)

    def merge(self, other: TimeBins) -> None:
        """Add the counts of other bins."""
        self.widen(other.width)
        for hour, counts in other.bins.items():
            self.add_bin(hour, counts)
        self.without_time.update(other.without_time)
        self.out_of_range.update(other.out_of_range)

"""Records over time, for the page: at most 120 bars, and the share turned away as a line."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.jobs.report.axis import percent, round_up, share_axis
from penstock.jobs.report.document import OutcomeCounts
from penstock.jobs.report.times import HOUR_MS, moment, start_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.jobs.report.document import Report

BARS_MAX: Final = 120
"""The maximum number of bars."""
OUTLIERS: Final = 0.001
"""The share of the earliest records, and of the latest, that may be left out of the chart."""
_NEAR: Final = 0.05
"""A gap, as a part of the drawn time, over which times are not far away."""
WIDTH, HEIGHT = 1000.0, 100.0
"""The coordinates of the chart, which the page stretches."""
_DAY, _WEEK = 24, 7 * 24
_YEAR: Final = 52 * _WEEK
_WIDTHS: Final = (
    1, 2, 3, 6, 12, _DAY, 2 * _DAY, 3 * _DAY, _WEEK, 2 * _WEEK, 4 * _WEEK, 13 * _WEEK,
    26 * _WEEK, _YEAR, 2 * _YEAR, 5 * _YEAR, 10 * _YEAR, 20 * _YEAR, 50 * _YEAR, 100 * _YEAR,
)  # fmt: skip
"""The widths of bars in hours."""
_STACK: Final = ("accepted", "dropped", "refused", "failed")
"""The outcomes in a bar, from the bottom."""


@dataclass(frozen=True)
class Segment:
    """A part of a bar."""

    outcome: str
    y: float
    height: float


@dataclass(frozen=True)
class Bar:
    """The records of a span of time."""

    label: str
    counts: OutcomeCounts
    x: float
    width: float
    segments: tuple[Segment, ...]

    @property
    def share(self) -> float:
        """The share of records that were turned away."""
        return self.counts.turned_away / self.counts.total


@dataclass(frozen=True)
class TimeChart:
    """A chart.

    Attributes:
        bars: Spans of time with records, in order.
        line: The share of the bars, as an SVG path with a gap where there are no records.
        dots: The same shares as points.
        records_top: The number of records at the top.
        width: What each bar spans.
        labels: The times at the left, in the middle and at the right.
        earlier: Records before the first bar.
        later: Records after the last bar.
    """

    bars: tuple[Bar, ...]
    line: str
    dots: str
    records_top: float
    share_top: float
    width: str
    labels: tuple[str, ...]
    earlier: OutcomeCounts
    later: OutcomeCounts


def time_chart(report: Report) -> TimeChart | None:
    """Return the chart of a report; None where no record has a time in range.

    A few records with times far away from all others would reduce the others to a single bar.
    They are left out, and counted: at most `OUTLIERS` of the records at each end, and only if
    the rest spans less than half of the time.
    """
    hours = [
        (_hour(entry.hour), OutcomeCounts(**_counts(entry)))
        for entry in report.hours
        if entry.hour is not None
    ]
    if not hours:
        return None
    earlier, drawn, later = _without_outliers(hours, report.hours_width)
    width = _bar_width(drawn[0][0], drawn[-1][0] + report.hours_width, report.hours_width)
    sums: dict[int, OutcomeCounts] = {}
    for hour, counts in drawn:
        start = start_of(hour, width)
        sums[start] = _sum([sums.get(start, OutcomeCounts()), counts])
    first = min(sums)
    slots = (max(sums) - first) // width + 1
    most = round_up(max(entry.total for entry in sums.values()))
    bars = tuple(
        _bar(start, (start - first) // width, slots, width, counts, most)
        for start, counts in sorted(sums.items())
    )
    share_top = share_axis(max(bar.share for bar in bars))
    points = [(bar.x + bar.width / 2, HEIGHT - HEIGHT * bar.share / share_top) for bar in bars]
    return TimeChart(
        bars=bars,
        line=_line(points, WIDTH / slots),
        dots="".join(f"M{x:.2f} {y:.2f}h0" for x, y in points),
        records_top=most,
        share_top=share_top,
        width=_span(width),
        labels=_labels(first, slots, width),
        earlier=_sum(earlier),
        later=_sum(later),
    )


def _hour(text: str) -> int:
    return int(dt.datetime.fromisoformat(text).timestamp() * 1000) // HOUR_MS


def _counts(counts: OutcomeCounts) -> dict[str, int]:
    return {outcome: getattr(counts, outcome) for outcome in _STACK}


def _sum(some: Sequence[OutcomeCounts]) -> OutcomeCounts:
    return OutcomeCounts(
        **{outcome: sum(getattr(entry, outcome) for entry in some) for outcome in _STACK}
    )


def _without_outliers(
    hours: list[tuple[int, OutcomeCounts]], width: int
) -> tuple[list[OutcomeCounts], list[tuple[int, OutcomeCounts]], list[OutcomeCounts]]:
    """Return those before the chart, those in it and those after it."""
    allowed = OUTLIERS * sum(counts.total for _, counts in hours)
    start = _leading(hours, allowed)
    end = max(start + 1, len(hours) - _leading(hours[::-1], allowed))
    near = max(width, (hours[end - 1][0] - hours[start][0]) * _NEAR)
    while start > 0 and hours[start][0] - hours[start - 1][0] <= near:
        start -= 1
    while end < len(hours) and hours[end][0] - hours[end - 1][0] <= near:
        end += 1
    drawn = hours[start:end]
    if 2 * (drawn[-1][0] - drawn[0][0] + width) >= hours[-1][0] - hours[0][0] + width:
        return [], hours, []
    earlier_hours, later_hours = hours[:start], hours[end:]
    return [counts for _, counts in earlier_hours], drawn, [counts for _, counts in later_hours]


def _leading(hours: list[tuple[int, OutcomeCounts]], allowed: float) -> int:
    """Return how many of the first bins hold no more records than allowed, together."""
    record_count = 0
    for index, (_, counts) in enumerate(hours):
        record_count += counts.total
        if record_count > allowed:
            return index
    return len(hours)


def _bar_width(first: int, end: int, least: int) -> int:
    """Return the width with which there are few enough bars, as a multiple of the bins."""
    for width in _WIDTHS:
        slots = (start_of(end - 1, width) - start_of(first, width)) // width + 1
        if width % least == 0 and slots <= BARS_MAX:
            return width
    return _WIDTHS[-1]


def _bar(start: int, slot: int, slots: int, width: int, counts: OutcomeCounts, most: float) -> Bar:
    segments = []
    y = HEIGHT
    for outcome in _STACK:
        height = HEIGHT * getattr(counts, outcome) / most
        if height:
            y -= height
            segments.append(Segment(outcome, y, height))
    step = WIDTH / slots
    gap = min(1.5, step / 8)
    return Bar(_label(start, width), counts, slot * step + gap / 2, step - gap, tuple(segments))


def _line(points: list[tuple[float, float]], step: float) -> str:
    """Return a path through points; where a point is missing there is a gap."""
    path = []
    previous_x = -1.0
    for x, y in points:
        joined = previous_x >= 0 and x - previous_x < 1.5 * step
        path.append(f"{'L' if joined else 'M'}{x:.2f} {y:.2f}")
        previous_x = x
    return "".join(path)


def _label(hour: int, width: int) -> str:
    """Return the start of a bar as text; a bar can start before 1970."""
    start = moment(hour)
    if width < _DAY:
        return f"{start:%Y-%m-%d %H:%M}"
    return f"{start:%Y-%m-%d}"


def _labels(first: int, slots: int, width: int) -> tuple[str, ...]:
    """Return the labels below the left end, the middle and the right end."""
    if slots < 3:
        return tuple(_label(first + slot * width, width) for slot in range(slots))
    return tuple(_label(first + slot * width, width) for slot in (0, slots // 2, slots - 1))


def _span(width: int) -> str:
    for unit, hours in (("week", _WEEK), ("day", _DAY)):
        if width % hours == 0:
            return unit if width == hours else f"{width // hours} {unit}s"
    return "hour" if width == 1 else f"{width} hours"


def in_words(bar: Bar) -> str:
    """Return the text of a bar."""
    counts = ", ".join(f"{n:,} {outcome}" for outcome, n in _counts(bar.counts).items() if n)
    return f"{bar.label}: {counts}; {percent(bar.share)} turned away"

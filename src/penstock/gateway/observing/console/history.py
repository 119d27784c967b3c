"""The figures of the last hour, in a bounded number of points, and those of the last seconds.

`sample` reads the counters once a second; nothing is kept for each request or record. A point is
kept as JSON text, which is sent when a page is opened.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.gateway.observing.console.figures import figures_between
from penstock.gateway.observing.console.subscribers import as_text

if TYPE_CHECKING:
    from penstock.gateway.observing.console.figures import ConsoleFigures
    from penstock.gateway.observing.metrics.counts import CountedTotals

SAMPLE_S: Final = 1.0
POINT_S: Final = 10
"""How many samples are between two points."""
POINTS_MAX: Final = 360
"""An hour."""


class _Sample(NamedTuple):
    totals: CountedTotals
    clock: float
    at: float


class FigureHistory:
    """The `totals` of the last hour, and the figures made of them."""

    def __init__(self, totals: CountedTotals, clock: float, timestamp: float) -> None:
        """Begin.

        Args:
            clock: The monotonic time in seconds.
            timestamp: The time in seconds since the epoch.
        """
        self._points: deque[str] = deque(maxlen=POINTS_MAX)
        self._samples = deque([_Sample(totals, clock, timestamp)], maxlen=POINT_S + 1)
        self._of_point = self._samples[0]
        self._since_point = 0

    def sample(
        self, totals: CountedTotals, clock: float, timestamp: float
    ) -> ConsoleFigures | None:
        """Take the current counts; return a new point, if it is complete."""
        last = _Sample(totals, clock, timestamp)
        self._samples.append(last)
        self._since_point += 1
        if self._since_point < POINT_S:
            return None
        point = _between(self._of_point, last)
        self._points.append(as_text(point.as_json()))
        self._of_point = last
        self._since_point = 0
        return point

    @property
    def now(self) -> ConsoleFigures:
        """The figures of the last seconds."""
        return _between(self._samples[0], self._samples[-1])

    def as_text(self) -> str:
        """Return the points as a line of JSON."""
        points = ",".join(self._points)
        return f'{{"seconds":{POINT_S * SAMPLE_S},"points_max":{POINTS_MAX},"points":[{points}]}}'


def _between(previous_sample: _Sample, last_sample: _Sample) -> ConsoleFigures:
    return figures_between(
        previous_sample.totals,
        last_sample.totals,
        seconds=last_sample.clock - previous_sample.clock,
        end_s=last_sample.at,
    )

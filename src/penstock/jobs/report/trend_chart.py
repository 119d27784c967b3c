"""The share of records that were turned away, over the runs that are kept, for the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.jobs.report.axis import share_axis
from penstock.jobs.report.time_chart import HEIGHT, WIDTH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.jobs.report.history import AuditRun

POINTS_MAX: Final = 120
"""The maximum number of runs that are drawn: the latest."""


@dataclass(frozen=True)
class TrendChart:
    """A chart of runs, evenly spaced.

    Attributes:
        runs: The runs that are drawn, in order.
        older: How many older runs are not drawn.
        line: An SVG path through their shares.
        dots: The same shares as points.
    """

    runs: tuple[AuditRun, ...]
    older: int
    line: str
    dots: str
    share_top: float


def trend_chart(runs: Sequence[AuditRun]) -> TrendChart | None:
    """Return the chart of runs in the order of time; None if there is none."""
    if not runs:
        return None
    drawn = tuple(runs[-POINTS_MAX:])
    top = share_axis(max(run.share for run in drawn))
    step = WIDTH / len(drawn)
    points = [
        (step * (index + 0.5), HEIGHT - HEIGHT * run.share / top) for index, run in enumerate(drawn)
    ]
    return TrendChart(
        runs=drawn,
        older=len(runs) - len(drawn),
        line="M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in points),
        dots="".join(f"M{x:.2f} {y:.2f}h0" for x, y in points),
        share_top=top,
    )

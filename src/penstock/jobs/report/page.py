"""`report.html`: one page that opens offline, of a bounded size for any audit."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup, escape

from penstock.jobs.report.axis import percent, short
from penstock.jobs.report.counts import OUTCOMES
from penstock.jobs.report.next_steps import next_steps
from penstock.jobs.report.time_chart import HEIGHT, WIDTH, in_words, time_chart
from penstock.jobs.report.trend_chart import trend_chart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.jobs.report.document import OutcomeCounts, Report
    from penstock.jobs.report.history import AuditRun

SHOWN: Final = 10
"""How many rows of a long table are shown; the others are folded."""
ROWS_MAX: Final = 1000
"""The maximum number of partitions, topics, rules and columns; `report.json` has all."""
REASONS_MAX: Final = 100
"""The maximum number of reasons on the page; `report.json` has more."""
MESSAGE_MAX: Final = 300
CONTENTS_MAX: Final = 120
"""The maximum lengths of a message, and of a sample's key or value, on the page."""
_SEPARATORS: Final = re.compile(r"(?<=[._/:,-])(?=[^._/:,-])")


class _Range(NamedTuple):
    start: int
    end: int


def as_html(report: Report, runs: Sequence[AuditRun] | None = None) -> str:
    """Return the page.

    Args:
        runs: The runs that are kept, the current run last; None where none are.
    """
    environment = Environment(
        loader=PackageLoader("penstock.jobs.report", "."),
        autoescape=select_autoescape(default=True),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "thousands": lambda number: f"{number:,}",
        "percent": percent,
        "short": short,
        "breakable": breakable,
        "cut": _cut,
        "in_words": in_words,
        "when": _when,
    }
    return environment.get_template("page.html.j2").render(
        report=report,
        unit=report.about.unit,
        outcomes=OUTCOMES,
        several=len(report.topics) > 1,
        chart=time_chart(report),
        trend=None if runs is None else trend_chart(runs),
        reasons=report.reasons[:REASONS_MAX],
        topics=_worst(report.topics),
        partitions=_worst(report.partitions),
        ranges=_ranges(report),
        steps=next_steps(report),
        shown=SHOWN,
        rows_max=ROWS_MAX,
        message_max=MESSAGE_MAX,
        contents_max=CONTENTS_MAX,
        width=WIDTH,
        height=HEIGHT,
    )


def breakable(text: str) -> Markup:
    """Return a long name as HTML that is broken after its separators, if at all."""
    return Markup("<wbr>").join(escape(part) for part in _SEPARATORS.split(text))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _when(time: str) -> str:
    """Return an ISO time as people write it; any other text unchanged."""
    try:
        return f"{dt.datetime.fromisoformat(time).astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return time


def _worst(rows: Sequence[OutcomeCounts]) -> Sequence[OutcomeCounts]:
    """Return the rows with the most records turned away first; otherwise in their order."""
    return sorted(rows, key=lambda row: -row.turned_away)[:ROWS_MAX]


def _ranges(report: Report) -> dict[tuple[str, int], _Range]:
    """Return the offsets that were read, by topic and partition."""
    source = report.about.source
    return {
        (entry.topic or source, entry.partition): _Range(entry.start, entry.end)
        for entry in report.about.ranges
    }

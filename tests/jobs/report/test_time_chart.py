"""Bars over time: few, in proportion, with the left out times mentioned."""

import re

import pytest

from penstock.jobs.report.time_chart import BARS_MAX, HEIGHT, WIDTH, in_words, time_chart
from tests.jobs.report.samples import HOUR, records, report_of


def chart_of(hours, every=1, bad=()):
    return time_chart(
        report_of(
            *(records(count=9, hour=HOUR + n) for n in range(0, hours, every)),
            *(records(hour=HOUR + n, message="bad") for n in bad),
        )
    )


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("hours", "width"),
    [
        (1, "hour"), (72, "hour"), (120, "hour"), (200, "2 hours"), (24 * 59, "12 hours"),
        (24 * 100, "day"), (24 * 365, "week"), (24 * 365 * 3, "2 weeks"),
        (24 * 365 * 29, "13 weeks"), (24 * 365 * 3000, "2600 weeks"),
    ],
)  # fmt: skip
def test_there_are_never_too_many_bars(hours, width):
    chart = chart_of(hours, every=max(1, hours // 5000))
    assert chart.width == width
    assert len(chart.bars) <= BARS_MAX
    assert sum(bar.counts.total for bar in chart.bars) == 9 * len(
        range(0, hours, max(1, hours // 5000))
    )
    assert chart.bars[0].x >= 0
    assert chart.bars[-1].x + chart.bars[-1].width <= WIDTH


def test_bars_and_the_line_are_in_proportion():
    chart = chart_of(2, bad=(1,))
    clean, bad = chart.bars
    assert (chart.records_top, chart.share_top) == (10, 0.1)
    assert [(segment.outcome, segment.y, segment.height) for segment in clean.segments] == [
        ("accepted", pytest.approx(HEIGHT * 0.1), pytest.approx(HEIGHT * 0.9))
    ]
    assert [segment.outcome for segment in bad.segments] == ["accepted", "refused"]
    assert bad.segments[-1].y == pytest.approx(0)
    assert re.fullmatch(r"M\d+\.\d+ 100\.00L\d+\.\d+ 0\.00", chart.line)
    assert in_words(bad) == "2025-11-24 17:00: 9 accepted, 1 refused; 10 % turned away"


def test_the_line_has_a_gap_without_records():
    chart = chart_of(30, every=10)
    assert chart.line.count("M") == 3
    assert "L" not in chart.line


def test_a_few_records_far_away_are_counted_and_not_drawn():
    chart = time_chart(
        report_of(
            records(count=1, hour=480, message="bad"),
            *(records(count=9000, hour=HOUR + n) for n in range(72)),
            records(count=2, hour=HOUR + 900_000),
        )
    )
    assert (chart.width, len(chart.bars)) == ("hour", 72)
    assert (chart.earlier.refused, chart.later.accepted) == (1, 2)


@pytest.mark.parametrize("first", [0, HOUR - 24 * 365 * 3])
def test_the_ends_of_a_history_are_not_left_out(first):
    """Not where they are much, nor where they are near the rest."""
    chart = time_chart(
        report_of(
            records(count=900, hour=first),
            *(records(count=1 + n, hour=HOUR - 3000 + n * 10) for n in range(300)),
        )
    )
    assert chart.earlier.total == chart.later.total == 0
    assert chart.bars[0].counts.accepted >= 900


def test_no_chart_without_times():
    assert time_chart(report_of()) is None
    assert time_chart(report_of(records(hour=None), records(hour=10**12))) is None


def test_wide_bins_make_wide_bars():
    report = report_of(*(records(hour=HOUR + n * 24) for n in range(30)))
    wide = report.model_copy(update={"hours_width": 24})
    assert time_chart(wide).width == "day"

"""Runs as a line."""

import datetime as dt

from penstock.jobs.report.time_chart import HEIGHT, WIDTH
from penstock.jobs.report.trend_chart import POINTS_MAX, trend_chart
from tests.jobs.report.audit_runs import runs


def test_runs_are_points_of_a_line():
    chart = trend_chart(runs(0.0, 0.1))
    assert chart.share_top == 0.1
    assert chart.line == f"M{WIDTH / 4:.2f} {HEIGHT:.2f}L{WIDTH * 3 / 4:.2f} 0.00"
    assert chart.older == 0


def test_the_last_runs_are_drawn():
    chart = trend_chart(runs(*([0.01] * 200)))
    assert (len(chart.runs), chart.older) == (POINTS_MAX, 200 - POINTS_MAX)
    assert chart.runs[-1].written == dt.datetime(2026, 7, 19, tzinfo=dt.UTC)


def test_no_runs_no_chart():
    assert trend_chart([]) is None

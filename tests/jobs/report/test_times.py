"""Bins of time: hours where that is possible, never too many, and no time that ends an audit."""

import datetime as dt
from collections import Counter
from itertools import pairwise

import pytest

from penstock.jobs.report import times
from penstock.jobs.report.times import (
    BINS_MAX,
    WIDTHS,
    TimeBins,
    hour_of,
    in_range,
    moment,
    start_of,
)

LAST = 70_389_527
"""The last hour of the year 9999."""
NOW_MS = int(dt.datetime(2026, 11, 22, 12, 30, tzinfo=dt.UTC).timestamp() * 1000)


def test_a_timestamp_has_an_hour():
    assert moment(hour_of(NOW_MS)) == dt.datetime(2026, 11, 22, 12, tzinfo=dt.UTC)
    assert hour_of(-1) is None
    assert hour_of(0) == 0


@pytest.mark.parametrize("factor", [1000, 1_000_000], ids=["microseconds", "nanoseconds"])
def test_finer_timestamps_are_out_of_range(factor):
    bins = TimeBins()
    bins.add(hour_of(NOW_MS * factor), "refused", 3)
    bins.add(hour_of(-NOW_MS), "accepted", 2)
    bins.add(hour_of(-1), "accepted", 1)
    assert bins.bins == {}
    assert bins.out_of_range == {"refused": 3, "accepted": 2}
    assert bins.without_time == {"accepted": 1}


def test_the_last_hour_in_range_can_be_written():
    assert moment(LAST) == dt.datetime(9999, 12, 31, 23, tzinfo=dt.UTC)
    assert in_range(LAST)
    assert not in_range(LAST + 1)
    assert not in_range(-1)
    assert in_range(0)


@pytest.mark.parametrize("width", WIDTHS)
def test_bins_are_aligned(width):
    hour = hour_of(NOW_MS)
    start = start_of(hour, width)
    assert start <= hour < start + width
    assert start_of(start, width) == start
    if width >= 24:
        assert moment(start).hour == 0
    if width >= 7 * 24:
        assert moment(start).weekday() == 0


def test_each_width_divides_the_next():
    assert [wide % narrow for narrow, wide in pairwise(WIDTHS)] == [0, 0, 0]


@pytest.mark.thorough
def test_three_years_stay_hours():
    bins = TimeBins()
    for hour in range(3 * 366 * 24):
        bins.add(hour, "accepted", 1)
    assert (bins.width, len(bins.bins)) == (1, 3 * 366 * 24)


@pytest.mark.thorough
def test_bins_get_wider_and_lose_no_record():
    bins = TimeBins()
    for hour in range(BINS_MAX + 1):
        bins.add(hour, "accepted", 2)
    assert bins.width == 24
    assert len(bins.bins) == BINS_MAX // 24 + 1
    assert sum(counts.total() for counts in bins.bins.values()) == 2 * (BINS_MAX + 1)


def test_all_times_that_are_in_range_fit():
    assert LAST // WIDTHS[-1] + 2 < BINS_MAX


def test_merging_uses_the_wider_bins(monkeypatch):
    monkeypatch.setattr(times, "BINS_MAX", 30)
    narrow, wide = TimeBins(), TimeBins()
    narrow.add(5, "refused", 1)
    for hour in range(31):
        wide.add(hour, "accepted", 1)
    narrow.merge(wide)
    assert narrow.width == 24
    assert narrow.bins == {0: Counter(accepted=24, refused=1), 24: Counter(accepted=7)}

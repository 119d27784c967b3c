"""Rates of all gateways from counts that are read at different times."""

import random

import pytest

from penstock.gateway.observing.console.counted_over_time import (
    GAP_S,
    NOTHING,
    CountedOverTime,
    counted_at,
)
from penstock.gateway.observing.console.figures import figures_between
from penstock.gateway.observing.console.merging import merge_totals
from tests.gateway.observing.console.states import CountingGateway, generated


def requests(count):
    return NOTHING._replace(requests=count, records={"accepted": 2 * count})


def test_before_the_first_reading_nothing_was_counted():
    counted = CountedOverTime()
    assert counted.at(5.0) == NOTHING
    counted.put(10.0, "a", requests(100))
    assert counted.at(20.0) == NOTHING  # of before it was watched


def test_between_two_readings_it_is_estimated():
    counted = CountedOverTime()
    counted.put(10.0, "a", requests(100))
    counted.put(14.0, "a", requests(120))
    assert [counted.at(at).requests for at in (9.0, 10.0, 11.0, 14.0, 15.0)] == [0, 0, 5, 20, 20]
    assert counted.at(12.0).records == {"accepted": 20}


@pytest.mark.parametrize("run", ["a", "b"])
def test_a_gateway_that_started_again_counts_from_zero(run):
    counted = CountedOverTime()
    counted.put(10.0, "a", requests(100))
    counted.put(12.0, "a", requests(110))
    counted.put(14.0, run, requests(3))
    assert counted.at(14.0).requests == (10 if run == "a" else 13)


def test_counts_of_a_long_gap_are_in_no_rate():
    counted = CountedOverTime()
    counted.put(0.0, "a", requests(100))
    counted.put(GAP_S + 1, "a", requests(1_000_000))
    counted.put(GAP_S + 2, "a", requests(1_000_007))
    assert counted.at(GAP_S + 3).requests == 7


@pytest.mark.parametrize("seed", range(8))
def test_figures_of_parts_are_those_of_the_whole(seed):
    """Also the quantiles: buckets add up, and quantiles do not."""
    chance = random.Random(seed)
    whole, parts = CountingGateway(), [CountingGateway(number) for number in range(3)]
    watched = [CountedOverTime() for _ in parts]
    moments = []
    for second in range(40):
        for event in generated(chance.random(), 5):
            for gateway in (whole, chance.choice(parts)):
                gateway.play(event)
        moments.append(whole.counts.totals())
        for part, over_time in zip(parts, watched, strict=True):
            over_time.put(float(second), "run", part.counts.totals())
    then, now = (counted_at(float(at), watched) for at in (30, 39))
    merged = figures_between(then, now, seconds=9.0, end_s=39.0)
    assert merged == figures_between(moments[30], moments[39], seconds=9.0, end_s=39.0)


def test_no_gateway_is_lost_in_the_sum():
    parts = [requests(1), requests(2)._replace(produce=(1,) * len(NOTHING.produce))]
    merged = merge_totals(parts)
    assert (merged.requests, merged.records) == (3, {"accepted": 6})
    assert merged.produce == (1,) * len(NOTHING.produce)

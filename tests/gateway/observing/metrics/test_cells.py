"""Counters and histograms: exact numbers, and a bounded number of series."""

import pytest
import structlog

from penstock.gateway.observing.metrics.cells import BOUNDS, OTHER, Histogram, MetricCounter
from tests.metrics import Metrics


def read(family):
    return Metrics(f"# TYPE {family.name} {family.kind}\n" + "".join(family.blocks()))


def records(series_max):
    return MetricCounter(
        "records_total",
        "Records.",
        ("topic", "outcome"),
        bounded_labels=("outcome",),
        series_max=series_max,
    )


def test_counts_are_exposed_by_their_labels():
    counter = records(10)
    counter.add(("a", "accepted"))
    counter.add(("a", "accepted"), 41)
    counter.add(("b", "refused"), 2)

    assert read(counter).of("records_total") == {("a", "accepted"): 42, ("b", "refused"): 2}


def test_a_counter_without_labels_is_exposed_before_it_counts():
    assert read(MetricCounter("x_total", "X.")).of("x_total") == {(): 0}


def test_labels_beyond_the_bound_share_a_series_and_are_logged():
    counter = records(2)
    with structlog.testing.capture_logs() as logs:
        for topic in ("a", "b", "c", "d", "a"):
            counter.add((topic, "accepted"), 10)
        counter.add(("e", "refused"), 1)

    assert read(counter).of("records_total") == {
        ("a", "accepted"): 20,
        ("b", "accepted"): 10,
        (OTHER, "accepted"): 20,
        (OTHER, "refused"): 1,
    }
    assert counter.over_bound == 3
    assert [log["metric"] for log in logs] == ["records_total"]  # once


def test_a_time_is_in_the_first_bucket_that_holds_it():
    histogram = Histogram("x_seconds", "X.", "api")
    times = (0.0, BOUNDS[0], BOUNDS[0] * 1.01, 0.3, BOUNDS[-1], 1e6)
    for seconds in times:
        histogram.observe("a", seconds)

    found = read(histogram)
    buckets = {bound: found("x_seconds_bucket", api="a", le=str(bound)) for bound in BOUNDS}
    assert buckets == {bound: sum(time <= bound for time in times) for bound in BOUNDS}
    assert found("x_seconds_bucket", api="a", le="+Inf") == len(times)
    assert found("x_seconds_count", api="a") == len(times)
    assert found("x_seconds_sum", api="a") == pytest.approx(sum(times))


def test_the_number_of_series_of_a_histogram_is_bounded_too():
    histogram = Histogram("x_seconds", "X.", "policy", series_max=2)
    with structlog.testing.capture_logs() as logs:
        for policy in ("a", "b", "c", "d"):
            histogram.observe(policy, 1.0)

    assert read(histogram).of("x_seconds_count") == {("a",): 1, ("b",): 1, (OTHER,): 2}
    assert histogram.over_bound == 2
    assert len(logs) == 1

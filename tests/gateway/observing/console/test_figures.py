"""Rates and latencies over a few seconds."""

import pytest

from penstock.gateway.observing.console.figures import figures_between, quantile
from penstock.gateway.observing.metrics.cells import BOUNDS
from tests.gateway.observing.console.totals import NOTHING, buckets


@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [
        (buckets(), 0.5, None),
        (buckets(b0=10), 0.5, 0.00025),
        (buckets(b1=100), 0.99, 0.0005 + 0.0005 * 0.99),
        (buckets(b0=50, b4=50), 0.5, 0.0005),
        (buckets(b0=50, b4=50), 0.75, 0.0075),
        (buckets(b0=1, b15=99), 0.5, BOUNDS[-1]),
        (buckets(b15=1), 0.99, BOUNDS[-1]),
    ],
)
def test_a_quantile_is_estimated_within_its_bucket(counts, share, expected):
    assert quantile(counts, share) == (expected if expected is None else pytest.approx(expected))


def test_rates_are_over_the_time_between_samples():
    after = NOTHING._replace(requests=20, records={"accepted": 50, "refused": 5}, client_bytes=1000,
                             produce=buckets(b3=20))  # fmt: skip
    found = figures_between(NOTHING, after, seconds=10, end_s=7.0)
    later = after._replace(requests=25, records={"accepted": 60, "refused": 5})

    assert found.as_json() == {
        "at": 7.0, "seconds": 10, "requests": 2.0, "records": {"accepted": 5.0, "refused": 0.5},
        "client_bytes": 100.0, "broker_bytes": 0.0, "produce": {"p50": 0.00375, "p99": 0.004975},
        "waiting": {"p50": None, "p99": None}, "judging": {"p50": None, "p99": None},
        "broker": {"p50": None, "p99": None},
    }  # fmt: skip
    assert figures_between(after, later, seconds=5, end_s=12.0).records == {
        "accepted": 2,
        "refused": 0,
    }
    assert figures_between(after, later, seconds=5, end_s=12.0).produce.p99 is None


def test_without_elapsed_time_rates_are_zero():
    assert figures_between(NOTHING, NOTHING, seconds=0, end_s=0.0).requests == 0
